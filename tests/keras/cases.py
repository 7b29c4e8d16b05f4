"""How a model and its data are put together for the tests.

`CASES` maps a name to a function that makes a fresh `Case`; `models.py` fills it.
All data is two batches of `BATCH` samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras

from tests.keras.support import normal

BATCH = 8
SAMPLES = 2 * BATCH


@dataclass(frozen=True)
class Case:
    """A model to be trained, and what to train it on.

    Attributes:
        build: makes the compiled model; its arguments are further ones for `compile`.
        x, y: all the data, for `fit`.
        fit: further arguments for `fit`.
        random: whether the step draws random numbers.
        untouched: the paths of trainable variables that the loss does not depend on.
    """

    build: Callable[..., Any]
    x: Any
    y: Any
    fit: dict[str, Any] = field(default_factory=dict)
    random: bool = False
    untouched: frozenset[str] = frozenset()


CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__] = function
    return function


def compiled(make: Callable[[], Any], **compile_with: Any) -> Callable[..., Any]:
    """A builder of the model, compiled; optimizers are given as functions that make one."""

    def build(**more: Any) -> Any:
        model = make()
        optimizer = compile_with["optimizer"]()
        model.compile(**{**compile_with, "optimizer": optimizer, **more})
        return model

    return build


def sgd(rate: float = 0.1, **arguments: Any) -> Callable[[], Any]:
    return lambda: keras.optimizers.SGD(rate, **arguments)


def adam() -> Any:
    return keras.optimizers.Adam(0.01)


def fit_noise(
    make: Callable[[], Any], features: tuple[int, ...], targets: int = 1, **more: Any
) -> Case:
    """The model trained by SGD on the squared error, from noise to noise."""
    build = compiled(make, optimizer=sgd(), loss="mse")
    return Case(build, normal(SAMPLES, *features), normal(SAMPLES, targets), **more)
