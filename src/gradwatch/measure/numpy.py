"""NumPy arrays and Python numbers, as of a network written by hand."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradwatch.core import Tensor, Tree
from gradwatch.measure.framework import Fetched, vector_axes
from gradwatch.measure.kernels import numpy_rows

NAME = "numpy"


def measure(
    tensors: Sequence[Tensor | None], with_cells: Sequence[int] = (), due: Any = True
) -> tuple[Tensor, Tensor]:
    counted = [tensors[i] if due else None for i in with_cells]
    return numpy_rows.summarize(tensors), numpy_rows.count_cells(counted)


def measure_one(tensor: Tensor) -> Tensor:
    return measure([tensor])[0][0]


def constant(number: int) -> Tensor:
    return np.int32(number)


def snapshot(value: Tensor) -> Tensor:
    return np.array(value)


def copy(tensor: Tensor) -> Tensor:
    return np.array(tensor, np.float64)


def difference(after: Tensor, before: Tensor) -> Tensor:
    return np.asarray(after, np.float64) - np.asarray(before, np.float64)


def bias_correction(decay: Any, count: Any) -> Any:
    return 1 - np.float64(decay) ** np.float64(count)


def normalized(gradient: Tensor, second: Tensor, correction: Any, floor: Any) -> Tensor:
    root = np.sqrt(np.maximum(np.asarray(second, np.float64), 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.asarray(gradient, np.float64) * np.sqrt(correction)
        return scaled / np.maximum(root, np.asarray(floor, np.float64))


def below(second: Tensor, floor: Any) -> Tensor:
    return (np.sqrt(np.maximum(np.asarray(second, np.float64), 0)) < floor).astype(float)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    a, b = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    return np.asarray(a @ b / norms if norms != 0 else 0.0)


def dead_units(outputs: Tensor, axis: int) -> Tensor | None:
    x = np.asarray(outputs)
    if x.ndim < 2:
        return None
    return np.all(x == 0, axis=tuple(a for a in range(x.ndim) if a != axis % x.ndim)).astype(float)


def outside(x: Tensor, low: float, high: float) -> Tensor:
    x = np.asarray(x, np.float32)
    return ((x <= low) | (x >= high)).astype(np.float32)


def expert_load(scores: Tensor, choices: int) -> Tensor:
    x = np.asarray(scores)
    chosen = np.argsort(-x, axis=-1, kind="stable")[..., :choices]
    return np.bincount(chosen.ravel(), minlength=x.shape[-1]).astype(np.float32)


def residual_ratio(branch: Tensor, stream: Tensor) -> Tensor:
    axes = vector_axes(np.ndim(branch))
    norms = [np.sqrt(np.square(np.asarray(x, np.float64)).sum(axes)) for x in (branch, stream)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(norms[0] == 0, 0.0, norms[0] / norms[1])


def is_traced(tensor: Tensor) -> bool:
    return False


def aside() -> AbstractContextManager[None]:
    return nullcontext()


def use_copies(outputs: Tree) -> None:
    pass


def fetch_number(number: Tensor) -> float:
    return float(np.asarray(number).reshape(()))


def fetch(measured: Mapping[str, Tensor], names: Sequence[str]) -> Fetched:
    return lambda: {name: np.asarray(measured[name]) for name in names}
