"""Running a training bare and under monitors, and telling any difference."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
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
    "everything watched": {"every": 1, "watch": EVERYTHING},
}
# What a fault of ours is told by; nothing in these programs may be one.
_FAULT = "gradwatch failed at something"


@dataclass(frozen=True)
class Outcome:
    """All that a training leaves behind, as arrays by name."""

    history: dict[str, list[float]]
    arrays: dict[str, np.ndarray]


class Different(AssertionError):
    """A training under a monitor is not the bare one."""


def outcome(train: Callable[[list[Any]], tuple[Any, dict[str, Any]]], *callbacks: Any) -> Outcome:
    """Train, and collect what is left behind."""
    model, history = train(list(callbacks))
    arrays: dict[str, np.ndarray] = {}
    for i, variable in enumerate([*model.variables, *model.optimizer.variables]):
        arrays[f"{i} {variable.path}"] = np.array(keras.ops.convert_to_numpy(variable))
    arrays["random numbers"] = np.array(drawn())
    return Outcome(history, arrays)


def drawn() -> list[float]:
    """What every random generator in reach gives next."""
    numbers = [random.random(), np.random.rand()]
    numbers.append(float(keras.ops.convert_to_numpy(keras.random.uniform(()))))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        numbers.append(float(tf.random.uniform(())))
    if keras.backend.backend() == "torch":
        import torch

        numbers.append(float(torch.rand(())))
    return numbers


def differences(bare: Outcome, watched: Outcome) -> Iterator[str]:
    """What is not the same to the bit, in words."""
    if list(bare.history) != list(watched.history):
        yield f"history has {list(watched.history)}, not {list(bare.history)}"
    for name, values in bare.history.items():
        if not same(np.array(values), np.array(watched.history.get(name, ()))):
            yield f"{name}: {watched.history.get(name)}, not {values}"
    if list(bare.arrays) != list(watched.arrays):
        yield f"variables are {list(watched.arrays)}, not {list(bare.arrays)}"
        return
    for name, array in bare.arrays.items():
        if not same(array, watched.arrays[name]):
            yield f"{name}: {far(array, watched.arrays[name])}"


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit; any NaN is as good as another."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    kind = a.dtype.kind
    if kind not in "fV":
        return bool(np.array_equal(a, b))
    numbers = np.asarray(a, "float64"), np.asarray(b, "float64")
    equal = (numbers[0] == numbers[1]) & (np.signbit(numbers[0]) == np.signbit(numbers[1]))
    return bool(np.all(equal | (np.isnan(numbers[0]) & np.isnan(numbers[1]))))


def far(a: np.ndarray, b: np.ndarray) -> str:
    """How far two arrays are from each other, in words."""
    if a.shape != b.shape:
        return f"shape {b.shape}, not {a.shape}"
    a, b = np.asarray(a, "float64"), np.asarray(b, "float64")
    with np.errstate(all="ignore"):
        return f"up to {np.nanmax(np.abs(a - b), initial=0.0):.3g} of {np.nanmax(np.abs(a), initial=0.0):.3g}"


@contextlib.contextmanager
def quietly() -> Iterator[list[str]]:
    """Print nothing; gives the warnings that were raised, once it is over."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        np.seterr(all="ignore")
        yield said
    said += [str(warning.message) for warning in warned]


def monitored(train: Any, **arguments: Any) -> Outcome:
    """Train under a monitor.

    Raises:
        Different: a fault of ours came to light.
    """
    with tempfile.TemporaryDirectory() as directory, quietly() as said:
        monitor = gradwatch.Monitor(directory, **arguments)
        found = outcome(train, monitor)
        monitor.close()
    faults = [text for text in said if _FAULT in text]
    if faults:
        raise Different(faults[0])
    return found


class Nudge(keras.callbacks.Callback):
    """Moves every weight by one unit in its last place, up or down, before training.

    How far such a training strays is how far rounding alone may lead.

    Args:
        unit: the unit, relative to the weight.
        seed: which of them go up.
    """

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self._unit = unit
        self._random = np.random.default_rng(seed)

    def on_train_begin(self, logs: Any = None) -> None:
        for variable in self.model.trainable_variables:
            value = np.asarray(keras.ops.convert_to_numpy(variable))
            signs = self._random.choice([-1.0, 1.0], value.shape)
            variable.assign((value * (1 + self._unit * signs)).astype(value.dtype))


def beyond_rounding(
    train: Any, bare: Outcome, watched: Outcome, unit: float, slack: float = 8.0
) -> Iterator[str]:
    """What differs by more than a compiler's other order of rounding can explain, in words.

    Args:
        train: the training.
        bare: what came of it.
        watched: what came of it under a monitor.
        unit: the relative rounding error of the types it computes in.
        slack: how much further than nudged trainings it may stray.
    """
    nudged = []
    for seed in range(3):
        with quietly():
            nudged.append(outcome(train, Nudge(unit, seed)))
    first = abs(watched.history["loss"][0] - bare.history["loss"][0])
    if first > 2 * unit * max(abs(bare.history["loss"][0]), 1e-30):
        yield f"the first loss: {watched.history['loss'][0]!r}, not {bare.history['loss'][0]!r}"
    pairs = [
        (name, values, watched.history[name], [n.history[name] for n in nudged])
        for name, values in bare.history.items()
    ]
    pairs += [
        (name, array, watched.arrays[name], [n.arrays[name] for n in nudged])
        for name, array in bare.arrays.items()
        if array.dtype.kind in "fV"
    ]
    for name, ours, theirs, others in pairs:
        a, b = np.asarray(ours, "float64"), np.asarray(theirs, "float64")
        with np.errstate(all="ignore"):
            reach = np.nanmax([np.abs(np.asarray(o, "float64") - a) for o in others], initial=0.0)
            allowed = slack * max(reach, unit * np.nanmax(np.abs(a), initial=0.0))
            if not np.array_equal(np.isfinite(a), np.isfinite(b)):
                yield f"{name}: not finite elsewhere"
            elif np.nanmax(np.abs(a - b), initial=0.0) > allowed:
                yield f"{name}: {far(a, b)}, where rounding leads {reach:.3g} far"
