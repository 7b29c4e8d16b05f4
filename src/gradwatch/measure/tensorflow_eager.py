"""Measures eager TensorFlow tensors by a graph, once their shapes have occurred several times.

Operation by operation, called from Python, a measurement takes ten times as long. But making a
graph for a list of shapes takes as long as many measurements: so rare shapes have none, and the
number of graphs is limited.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from gradwatch.core import Tensor
from gradwatch.measure.kernels.tensorflow_tensors import count_cells, summarize
from gradwatch.measure.tensor_groups import measure_groups

OFTEN = 3
"""A graph is made when shapes occur for the third time."""
MAX_GRAPHS, MAX_KNOWN = 16, 1024

_Key = tuple[Any, ...]
_Graph = Callable[[list[Tensor]], tuple[Tensor, Tensor]]
_graphs: dict[_Key, _Graph] = {}
_times: Counter[_Key] = Counter()


def measure(tensors: Sequence[Tensor | None], with_cells: Sequence[int]) -> tuple[Tensor, Tensor]:
    """As in `gradwatch.measure.framework`, of eager tensors and `tf.IndexedSlices`."""
    dense = [i for i, x in enumerate(tensors) if isinstance(x, tf.Tensor | tf.Variable)]
    others = [i for i in range(len(tensors)) if i not in set(dense)]
    index_of = {i: k for k, i in enumerate(dense)}
    graph = _graph([tensors[i] for i in dense], [index_of[i] for i in with_cells if i in index_of])

    def measure_group(group: Sequence[int], counted: Sequence[int]) -> tuple[Tensor, Tensor]:
        own = [tensors[i] for i in group]
        if graph is not None and group is dense:
            return graph([tf.convert_to_tensor(x) for x in own])
        return summarize(own), count_cells([own[k] for k in counted])

    if graph is None or not others:
        return measure_group(dense if graph else range(len(tensors)), with_cells)
    found = measure_groups([dense, others], with_cells, measure_group)
    rows = tf.gather(tf.concat(found.rows, 0), tf.constant(found.row_order, tf.int64))
    return rows, tf.gather(tf.concat(found.cells, 0), tf.constant(found.cell_order, tf.int64))


def _graph(tensors: Sequence[Tensor], with_cells: Sequence[int]) -> _Graph | None:
    """A function that measures dense tensors of these shapes; None if they are too rare."""
    if not tensors or tf.distribute.has_strategy():
        return None
    key = (*((tuple(x.shape), x.dtype) for x in tensors), tuple(with_cells))
    if key not in _graphs:
        if len(_graphs) >= MAX_GRAPHS or len(_times) >= MAX_KNOWN:
            return None
        _times[key] += 1
        if _times[key] < OFTEN:
            return None
        _graphs[key] = _make(tuple(with_cells))
    return _graphs[key]


def _make(with_cells: tuple[int, ...]) -> _Graph:
    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def graph(tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        return summarize(tensors), count_cells([tensors[i] for i in with_cells])

    made: _Graph = graph
    return made
