"""Accumulated gradients: those of each micro-batch, and their mean where it is applied."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from gradwatch import Kind
from tests.keras.support_behaviour import (
    BIAS,
    EVERYTHING,
    KERNEL,
    StatesOfSteps,
    assert_measured,
    batch,
    fit,
    linear_gradients,
    linear_model,
)
from tests.keras.ways import mostly_on_torch

ACCUMULATED = 3
STEPS = 7


def mean(gradients: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {path: np.mean([g[path] for g in gradients], axis=0) for path in (KERNEL, BIAS)}


@pytest.mark.parametrize("clipvalue", mostly_on_torch([None, 0.02], [0.02]))
def test_micro_batches_are_recorded_each_and_their_mean_on_the_steps_that_apply_it(
    make_monitor: Any, clipvalue: float | None
) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    optimizer = keras.optimizers.SGD(
        0.5, gradient_accumulation_steps=ACCUMULATED, clipvalue=clipvalue
    )
    fit(linear_model(optimizer), STEPS, states, monitor)

    assert keep.steps == [1, 2, 3, 4, 5, 6, 7]
    computed = []
    for i, reading in enumerate(keep.readings):
        computed.append(linear_gradients(states.before[i], *batch(i + 1)))
        assert_measured(reading, Kind.GRADIENT, computed[-1])
        is_update = (i + 1) % ACCUMULATED == 0
        applied = mean(computed[-ACCUMULATED:])
        if clipvalue:
            applied = {path: np.clip(g, -clipvalue, clipvalue) for path, g in applied.items()}
        assert_measured(reading, Kind.APPLIED_GRADIENT, applied if is_update else {})
        moves = {p: -0.5 * g if is_update else np.zeros_like(g) for p, g in applied.items()}
        assert_measured(reading, Kind.UPDATE, moves, rtol=1e-4)


def test_the_steps_that_are_counted_are_the_micro_batches_over_fits_and_monitors(
    make_monitor: Any,
) -> None:
    monitor, keep = make_monitor(every=1)
    model = linear_model(keras.optimizers.SGD(0.5, gradient_accumulation_steps=ACCUMULATED))
    fit(model, 4, monitor)
    fit(model, 4)
    fit(model, 2, monitor)
    assert keep.steps == [1, 2, 3, 4, 9, 10]
    another, keep = make_monitor(every=1)
    fit(model, 1, another)
    assert keep.steps == [11]


@pytest.mark.any_backend
def test_the_meaning_says_so(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    optimizer = keras.optimizers.SGD(0.5, gradient_accumulation_steps=ACCUMULATED, clipnorm=1.0)
    fit(linear_model(optimizer), 1, monitor)
    meaning = keep.runs[0].meaning
    assert "of one micro-batch of 3" in meaning[Kind.GRADIENT]
    assert "before clipping (clipnorm=1.0)" in meaning[Kind.GRADIENT]
    assert "mean of 3 micro-batches" in meaning[Kind.APPLIED_GRADIENT]
    assert "after clipping (clipnorm=1.0)" in meaning[Kind.APPLIED_GRADIENT]
