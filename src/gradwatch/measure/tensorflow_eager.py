"""Measuring eager TensorFlow tensors by a graph, once their shapes have come several times.

Operation by operation, called from Python, a measurement takes ten times as long. But a
graph has to be made for each list of shapes, which takes as long as many measurements: so there
is none for shapes that come but rarely, and there are few in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradwatch.measure.tensorflow import count_cells, summarize

OFTEN = 3
"""A graph is made when shapes come for so many times."""
MOST_GRAPHS, MOST_KNOWN = 16, 1024

_Key = tuple[Any, ...]
_graphs: dict[_Key, Callable[..., tuple[Any, Any]]] = {}
_times: Counter[_Key] = Counter()


def measure(tensors: Sequence[Any], with_cells: Sequence[int]) -> tuple[Any, Any]:
    """Packed summaries of all, and histogram cells of those at some positions.

    Args:
        tensors: eager tensors, variables, `tf.IndexedSlices` or None.
        with_cells: the positions.
    """
    dense = [i for i, x in enumerate(tensors) if isinstance(x, tf.Tensor | tf.Variable)]
    place = {i: at for at, i in enumerate(dense)}
    found = _by_graph([tensors[i] for i in dense], [place[i] for i in with_cells if i in place])
    if found is None:
        return summarize(tensors), count_cells([tensors[i] for i in with_cells])
    rows, cells = found
    others = [i for i in range(len(tensors)) if i not in place]
    if not others:
        return rows, cells
    counted = [i for i in with_cells if i not in place]
    rest = summarize([tensors[i] for i in others]), count_cells([tensors[i] for i in counted])
    ours = [i for i in with_cells if i in place]
    return (
        _in_order([rows, rest[0]], dense + others, range(len(tensors))),
        _in_order([cells, rest[1]], ours + counted, with_cells),
    )


def _by_graph(tensors: Sequence[Any], with_cells: Sequence[int]) -> tuple[Any, Any] | None:
    """The same of tensors that are not sparse; None if it is not worth a graph."""
    if not tensors or tf.distribute.has_strategy():
        return None
    key = (*((tuple(x.shape), x.dtype) for x in tensors), tuple(with_cells))
    graph = _graphs.get(key)
    if graph is None:
        if len(_graphs) >= MOST_GRAPHS or len(_times) >= MOST_KNOWN:
            return None
        _times[key] += 1
        if _times[key] < OFTEN:
            return None
        graph = _graphs[key] = _make(tuple(with_cells))
    return graph([tf.convert_to_tensor(x) for x in tensors])


def _make(with_cells: tuple[int, ...]) -> Callable[..., tuple[Any, Any]]:
    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def graph(tensors: Sequence[Any]) -> tuple[Any, Any]:
        return summarize(tensors), count_cells([tensors[i] for i in with_cells])

    made: Callable[..., tuple[Any, Any]] = graph
    return made


def _in_order(parts: Sequence[Any], have: Sequence[int], want: Sequence[int]) -> Any:
    """The rows of all parts, which are those of the positions `have`, in the order wanted."""
    at = {position: row for row, position in enumerate(have)}
    return tf.gather(tf.concat(parts, 0), np.array([at[i] for i in want], np.int64))
