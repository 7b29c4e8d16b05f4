"""What optimizers hold, by hand: NumPy in float64, from the gradients they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradwatch import Kind, Reading, Site

# As frameworks round them to float32: the truth is that of the numbers they work with.
B1, B2 = float(np.float32(0.9)), float(np.float32(0.999))
EPSILON = 1e-5
STEPS, SIZE = 200, 7


def gradients(steps: int = STEPS, size: int = SIZE) -> Any:
    """Of sizes around epsilon and far above; some elements are never touched."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** np.linspace(-8, 1, size)
    found = (rng.normal(size=(steps, size)) + 0.3) * sizes
    found[:, -2] = 0.0
    return found.astype(np.float32)


@dataclass
class State:
    """After a step; `correction` is that of the second moment, `floor` is added to its root."""

    gradient: Any
    first: Any = None
    second: Any = None
    divisor: Any = None
    correction: float = 1.0
    floor: float = 0.0
    sign: float = 1.0


def average(decay: float, every: Sequence[Any], power: int = 1) -> Iterator[Any]:
    held = np.zeros_like(every[0], np.float64)
    for each in every:
        held = decay * held + (1 - decay) * each.astype(np.float64) ** power
        yield held


def adam(
    given: Any, *, is_epsilon_corrected: bool = True, amsgrad: bool = False, corrects: bool = True
) -> list[State]:
    """Epsilon is added to the root of the corrected second moment, or to that of the other."""
    found, largest = [], np.zeros_like(given[0], np.float64)
    pairs = zip(average(B1, given), average(B2, given, 2), strict=True)
    for t, (g, (m, v)) in enumerate(zip(given, pairs, strict=True), 1):
        correction = 1 - B2**t if corrects else 1.0
        largest = np.maximum(largest, v)
        floor = EPSILON if is_epsilon_corrected else EPSILON / np.sqrt(correction)
        found.append(State(g, m, v, largest if amsgrad else v, correction, floor))
    return found


def rmsprop(given: Any, *, centered: bool = False, in_root: bool = False) -> list[State]:
    found = []
    floor = EPSILON**0.5 if in_root else EPSILON
    for g, m, v in zip(given, average(B1, given), average(B1, given, 2), strict=True):
        found.append(State(g, None, v, v - m**2 if centered else v, floor=floor))
    return found


def adagrad(given: Any, start: float = 0.0, *, in_root: bool = False) -> list[State]:
    floor = EPSILON**0.5 if in_root else EPSILON
    sums = start + np.cumsum(given.astype(np.float64) ** 2, axis=0)
    return [State(g, None, v, v, floor=floor) for g, v in zip(given, sums, strict=True)]


def momentum(given: Any, decay: float = B1, scale: float = 1.0) -> list[State]:
    """`scale` is what gradients are multiplied by as they are added."""
    held, found = np.zeros_like(given[0], np.float64), []
    for g in given:
        held = decay * held + scale * g.astype(np.float64)
        found.append(State(g, held, sign=np.sign(scale)))
    return found


def adadelta(given: Any) -> list[State]:
    held = average(B1, given, 2)
    return [State(g, None, v, v, floor=EPSILON**0.5) for g, v in zip(given, held, strict=True)]


def adamax(given: Any) -> list[State]:
    """Its second moment is no square."""
    return [State(g, m) for g, m in zip(given, average(B1, given), strict=True)]


def lion(given: Any) -> list[State]:
    return [State(g, m) for g, m in zip(given, average(B2, given), strict=True)]


def truth(state: State) -> dict[Kind, Any]:
    """By kind, the tensor that is summarised."""
    found = {}
    g = state.gradient.astype(np.float64)
    if state.first is not None:
        norms = np.linalg.norm(g) * np.linalg.norm(state.first)
        found[Kind.FIRST_MOMENT] = state.first
        found[Kind.MOMENTUM_COSINE] = np.array([state.sign * (g @ state.first) / norms])
    if state.second is not None:
        root = np.sqrt(state.divisor / state.correction)
        found[Kind.SECOND_MOMENT] = state.second
        found[Kind.NORMALIZED_GRADIENT] = g / np.maximum(root, state.floor)
        found[Kind.EPSILON_RULED] = (root < state.floor).astype(float)
    return found


def assert_state(reading: Reading, path: str, expected: State) -> None:
    """The reading has just these kinds of the state, with the truth's sums and extremes."""
    tensors = truth(expected)
    there = {s.kind for s in reading.sites if s.path == path} & set(KINDS)
    assert there == set(tensors)
    for kind, x in tensors.items():
        got = reading.summary[reading.position[Site(kind, path)]]
        size = np.abs(x).sum()
        assert got.count == x.size, kind
        assert float(got.sum) == pytest.approx(x.sum(), rel=1e-6, abs=1e-6 * size), kind
        assert float(got.sum_squares) ** 0.5 == pytest.approx(np.linalg.norm(x), rel=1e-6), kind
        for name in ("min", "max"):
            truly = getattr(x, name)()
            assert float(getattr(got, name)) == pytest.approx(truly, rel=1e-6, abs=1e-6 * size), (
                kind
            )


KINDS = (
    Kind.FIRST_MOMENT,
    Kind.SECOND_MOMENT,
    Kind.NORMALIZED_GRADIENT,
    Kind.EPSILON_RULED,
    Kind.MOMENTUM_COSINE,
)

Rule = Callable[[Any], list[State]]
