"""Plain NumPy arrays and numbers: of a network that somebody wrote by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradwatch.core import CELLS, FIELDS, IDENTITY
from gradwatch.core import reference as measure


def summarize(tensors: Sequence[Any]) -> Any:
    rows = [IDENTITY if x is None else measure.summarize(x) for x in tensors]
    return np.stack(rows) if rows else np.zeros((0, len(FIELDS)))


def count_cells(tensors: Sequence[Any], due: Any = True) -> Any:
    if not (tensors and due):
        return np.zeros((len(tensors), CELLS))
    return np.stack([np.zeros(CELLS) if x is None else measure.count_cells(x) for x in tensors])


def summarize_and_count(
    tensors: Sequence[Any], with_cells: Sequence[int], due: Any = True
) -> tuple[Any, Any]:
    return summarize(tensors), count_cells([tensors[i] for i in with_cells], due)


def constant(number: int) -> Any:
    return np.int32(number)


def snapshot(value: Any) -> Any:
    return np.array(value)


def copy(tensor: Any) -> Any:
    return np.array(tensor, np.float64)


def difference(after: Any, before: Any) -> Any:
    return np.asarray(after, np.float64) - np.asarray(before, np.float64)


def dead_units(outputs: Any, axis: int) -> Any:
    x = np.asarray(outputs)
    if x.ndim < 2:
        return None
    return np.all(x == 0, axis=tuple(a for a in range(x.ndim) if a != axis % x.ndim)).astype(float)


def is_traced(tensor: Any) -> bool:
    return False


def apart() -> AbstractContextManager[None]:
    return nullcontext()


def fetch(measured: Mapping[str, Any], names: Sequence[str]) -> Callable[[], dict[str, Any]]:
    return lambda: {name: np.asarray(measured[name]) for name in names}
