"""Gradients before clipping, applied gradients after it; both worked out by hand."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from gradwatch import Kind
from tests.keras.support_behaviour import (
    EVERYTHING,
    StatesOfSteps,
    assert_measured,
    batch,
    fit,
    linear_gradients,
    linear_model,
)

LIMIT = 0.05
STEPS = 3


def to_norm(array: np.ndarray, norm: float, limit: float = LIMIT) -> np.ndarray:
    return array * min(1.0, limit / norm)


def each_to_norm(gradients: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {path: to_norm(g, float(np.linalg.norm(g))) for path, g in gradients.items()}


def all_to_norm(gradients: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    norm = float(np.sqrt(sum(np.square(g).sum() for g in gradients.values())))
    return {path: to_norm(g, norm) for path, g in gradients.items()}


def each_value(gradients: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {path: np.clip(g, -LIMIT, LIMIT) for path, g in gradients.items()}


@pytest.mark.parametrize(
    ("option", "clip"),
    [("clipnorm", each_to_norm), ("global_clipnorm", all_to_norm), ("clipvalue", each_value)],
)
def test_gradients_are_recorded_before_clipping_and_applied_ones_after(
    make_monitor: Any, option: str, clip: Any
) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    model = linear_model(keras.optimizers.SGD(0.5, **{option: LIMIT}))
    fit(model, STEPS, states, monitor)

    assert keep.steps == [1, 2, 3]
    for i, reading in enumerate(keep.readings):
        gradients = linear_gradients(states.before[i], *batch(i + 1))
        clipped = clip(gradients)
        # The limit bites, or nothing is shown here.
        assert any(np.linalg.norm(clipped[p]) < np.linalg.norm(gradients[p]) for p in gradients)
        assert_measured(reading, Kind.GRADIENT, gradients)
        assert_measured(reading, Kind.APPLIED_GRADIENT, clipped)
        # Plain SGD moves by the clipped gradient.
        updates = {path: -0.5 * g for path, g in clipped.items()}
        assert_measured(reading, Kind.UPDATE, updates, rtol=1e-4)


def test_without_clipping_the_applied_gradient_is_the_gradient(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    fit(linear_model(), STEPS, states, monitor)
    for i, reading in enumerate(keep.readings):
        gradients = linear_gradients(states.before[i], *batch(i + 1))
        assert_measured(reading, Kind.GRADIENT, gradients)
        assert_measured(reading, Kind.APPLIED_GRADIENT, gradients)
