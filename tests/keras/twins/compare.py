"""What a training leaves behind, and telling any difference between two."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwatch

EVERYTHING = (
    gradwatch.gradients(histogram=True),
    gradwatch.applied_gradients(),
    gradwatch.weights(histogram=True),
    gradwatch.updates(),
    gradwatch.outputs(per_unit=True, histogram=True),
    gradwatch.output_gradients(),
)
MONITORS: dict[str, dict[str, Any]] = {
    "Monitor(dir)": {},
    "Monitor(dir, every=1)": {"every": 1},
    "Monitor(dir, every=1, watch=everything)": {"every": 1, "watch": EVERYTHING},
}
SINGLE = 2.0**-23
"""The relative rounding error of float32, twice over."""
_FAULT = "Internal error in gradwatch"


@dataclass(frozen=True)
class Outcome:
    """All that a training leaves behind, as arrays by name."""

    losses: dict[str, Sequence[float]]
    arrays: dict[str, np.ndarray]

    @property
    def named(self) -> dict[str, np.ndarray]:
        """Both, as arrays."""
        return {name: np.array(values) for name, values in self.losses.items()} | self.arrays


class DifferentError(AssertionError):
    """A training under a monitor is not the bare one."""


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Print nothing, and take no warning for an error, unless it is of a fault of ours.

    Raises:
        DifferentError: gradwatch told of one.
    """
    with (
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(io.StringIO()),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("always")
        yield
    for warning in warned:
        if _FAULT in str(warning.message):
            raise DifferentError(str(warning.message))


def differences(bare: Outcome, watched: Outcome) -> Iterator[str]:
    """What is not the same to the bit, in words."""
    if list(bare.named) != list(watched.named):
        yield f"there are {list(watched.named)}, not {list(bare.named)}"
        return
    for name, array in bare.named.items():
        if not is_same(array, watched.named[name]):
            yield f"{name}: {_far(array, watched.named[name])}"


def beyond_rounding(
    bare: Outcome, watched: Outcome, nudged: Sequence[Outcome], unit: float, slack: float = 8.0
) -> Iterator[str]:
    """What differs by more than a compiler's other order of rounding can explain, in words.

    Args:
        bare: what came of a training.
        watched: what came of it under a monitor.
        nudged: what came of it when each initial weight was moved by one unit of rounding.
        unit: that unit, relative to a number.
        slack: how much further than those it may stray.
    """
    first, ours = bare.losses["loss"][0], watched.losses["loss"][0]
    if abs(ours - first) > 2 * unit * max(abs(first), 1e-30):
        yield f"the first loss: {ours!r}, not {first!r}"
    for name, array in bare.named.items():
        if array.dtype.kind not in "fV":
            continue
        a, b = np.asarray(array, "float64"), np.asarray(watched.named[name], "float64")
        with np.errstate(all="ignore"):
            others = [np.asarray(each.named[name], "float64") for each in nudged]
            reach = max(_most(other - a) for other in others)
            if not np.array_equal(np.isfinite(a), np.isfinite(b)):
                yield f"{name}: not finite elsewhere"
            elif _most(a - b) > slack * max(reach, unit * _most(a)):
                yield f"{name}: {_far(array, b)}, where rounding leads {reach:.3g} far"


def nudge(array: np.ndarray, unit: float, seed: int) -> np.ndarray:
    """Each number moved by one unit of rounding, up or down."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], array.shape)
    return (array * (1 + unit * signs)).astype(array.dtype)


def is_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit; any NaN is as good as another."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fV":
        return bool(np.array_equal(a, b))
    a, b = np.asarray(a, "float64"), np.asarray(b, "float64")
    equal = (a == b) & (np.signbit(a) == np.signbit(b))
    return bool(np.all(equal | (np.isnan(a) & np.isnan(b))))


def _most(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))


def _far(a: np.ndarray, b: np.ndarray) -> str:
    """How far two arrays are from each other, in words."""
    if a.shape != b.shape:
        return f"shape {b.shape}, not {a.shape}"
    if a.size <= 4:
        return f"{b.tolist()}, not {a.tolist()}"
    a, b = np.asarray(a, "float64"), np.asarray(b, "float64")
    return f"off by up to {_most(a - b):.3g} of {_most(a):.3g}"
