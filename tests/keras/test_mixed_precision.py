"""Loss scaling is undone; a step that overflows is recorded and skipped as without us."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import finite
from tests.keras.support_behaviour import (
    BIAS,
    EVERYTHING,
    KERNEL,
    StatesOfSteps,
    assert_measured,
    batch,
    batches,
    change,
    copied,
    fit,
    linear_gradients,
    linear_model,
    named,
)


def with_policy(policy: str, optimizer: Any, **compiling: Any) -> Any:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return linear_model(optimizer, **compiling)
    finally:
        keras.config.set_dtype_policy(before)


float64 = pytest.param(
    *("float64", 1e-6),  # Keras computes losses in float32.
    marks=pytest.mark.skipif(
        keras.backend.backend() == "jax",
        reason="JAX has no float64 unless the whole process is set to x64",
    ),
)


# float16 keeps 11 bits, bfloat16 8, of what the forward and backward pass compute.
@pytest.mark.parametrize(
    ("policy", "rtol"), [("mixed_float16", 4e-3), ("mixed_bfloat16", 4e-2), float64]
)
def test_gradients_are_those_of_the_loss_whatever_the_precision(
    make_monitor: Any, policy: str, rtol: float
) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    optimizer = keras.optimizers.SGD(0.1)
    if policy == "mixed_float16":
        # Keras's own scale to begin with, 2^15, makes the first step overflow.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024.0)
    model = with_policy(policy, optimizer)
    fit(model, 3, states, monitor)
    assert keep.steps == [1, 2, 3]
    for i, reading in enumerate(keep.readings):
        gradients = linear_gradients(states.before[i], *batch(i + 1))
        assert_measured(reading, Kind.GRADIENT, gradients, rtol)
        assert_measured(reading, Kind.APPLIED_GRADIENT, gradients, rtol)
        assert_measured(reading, Kind.UPDATE, change(states.before[i], states.after[i]), 1e-5)
        assert_measured(reading, Kind.WEIGHT, named(states.after[i]), 1e-6)


def test_a_fixed_loss_scale_is_undone(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    model = linear_model(keras.optimizers.SGD(0.1, loss_scale_factor=1024.0, clipvalue=0.05))
    fit(model, 3, states, monitor)
    for i, reading in enumerate(keep.readings):
        gradients = linear_gradients(states.before[i], *batch(i + 1))
        assert_measured(reading, Kind.GRADIENT, gradients)
        clipped = {path: np.clip(g, -0.05, 0.05) for path, g in gradients.items()}
        assert_measured(reading, Kind.APPLIED_GRADIENT, clipped)
    assert "loss scale divided out" in keep.runs[0].meaning[Kind.GRADIENT]


OVERFLOWING = 1  # the index of the batch whose gradients do not fit float16


def overflowing_fit(*callbacks: Any, epochs: int = 1) -> Any:
    keras.utils.set_random_seed(3)
    scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=1024.0)
    model = with_policy("mixed_float16", scaling)
    x, y = batches(4)
    y[4 * OVERFLOWING : 4 * OVERFLOWING + 4] = 6e4
    settings = {"batch_size": 4, "shuffle": False, "verbose": 0, "epochs": epochs}
    model.fit(x, y, callbacks=list(callbacks), **settings)
    return model


def test_a_step_that_overflows_is_recorded_and_training_goes_on_as_without_us(
    make_monitor: Any,
) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    model, bare = overflowing_fit(states, monitor), overflowing_fit()

    assert int(model.optimizer.inner_optimizer.iterations.value) == 3
    assert keep.steps == [1, 2, 3, 4]
    for ours, theirs in zip(copied(model.variables), copied(bare.variables), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    for ours, theirs in zip(
        copied(model.optimizer.variables), copied(bare.optimizer.variables), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)

    totals = [reading.total(Kind.GRADIENT) for reading in keep.readings]
    nonfinite = [float(total.count - finite(total)) for total in totals]
    assert nonfinite.pop(OVERFLOWING) > 0
    assert nonfinite == [0, 0, 0]
    # The update rule used nothing in that step, and nothing moved.
    skipped = keep.readings[OVERFLOWING]
    assert_measured(skipped, Kind.APPLIED_GRADIENT, {})
    assert_measured(skipped, Kind.UPDATE, {KERNEL: np.zeros((3, 2)), BIAS: np.zeros(2)})
    assert_measured(skipped, Kind.WEIGHT, named(states.before[OVERFLOWING]), 1e-6)


def test_the_step_numbers_go_on_over_skipped_steps(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    model = overflowing_fit(monitor, epochs=2)
    assert keep.steps == [1, 2, 3, 4, 5, 6, 7, 8]
    fit(model, 2, monitor)
    assert keep.steps[8:] == [9, 10]
