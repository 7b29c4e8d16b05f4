"""Updates are what a step really changed, whichever rule made the change."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from tests.keras.support_behaviour import (
    EVERYTHING,
    KERNEL,
    StatesOfSteps,
    assert_measured,
    batch,
    change,
    copied,
    fit,
    linear_gradients,
    linear_model,
    named,
)
from tests.keras.ways import mostly_on_torch

RULES = {
    "SGD": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: keras.optimizers.Adam(0.1),
    "AdamW": lambda: keras.optimizers.AdamW(0.1, weight_decay=0.1),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.1),
    "Lion": lambda: keras.optimizers.Lion(0.1),
    "Adafactor": lambda: keras.optimizers.Adafactor(0.1),
    "Muon": lambda: keras.optimizers.Muon(0.1),
    "SGD with weight decay": lambda: keras.optimizers.SGD(0.1, weight_decay=0.5),
    "EMA": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5),
    "EMA that overwrites": lambda: keras.optimizers.SGD(
        0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2
    ),
}
if not hasattr(keras.optimizers, "Muon"):  # before Keras 3.10
    del RULES["Muon"]


def run(optimizer: Any, *callbacks: Any) -> Any:
    keras.utils.set_random_seed(4)
    model = linear_model(optimizer)
    fit(model, 4, *callbacks)
    return model


@pytest.mark.parametrize("rule", mostly_on_torch(RULES, ["Adam", "EMA that overwrites"]))
def test_updates_are_the_change_and_gradients_the_losss(make_monitor: Any, rule: str) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    model = run(RULES[rule](), states, monitor)
    bare = run(RULES[rule]())

    assert keep.steps == [1, 2, 3, 4]
    for i, reading in enumerate(keep.readings):
        changes = change(states.before[i], states.after[i])
        assert_measured(reading, Kind.UPDATE, changes)
        assert_measured(reading, Kind.WEIGHT, named(states.after[i]), rtol=1e-6)
        assert_measured(reading, Kind.GRADIENT, linear_gradients(states.before[i], *batch(i + 1)))
        ratios = reading.update_ratios()
        for path, weight in named(states.after[i]).items():
            size = np.linalg.norm(weight)  # Lion's steps of 0.1 can lead back to 0.
            truth = np.linalg.norm(changes[path]) / size if size else np.nan
            np.testing.assert_allclose(ratios[path], truth, rtol=1e-5)
    for ours, theirs in zip(
        copied(model.variables + model.optimizer.variables),
        copied(bare.variables + bare.optimizer.variables),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


def test_the_update_follows_a_learning_rate_schedule(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1, watch=[gradwatch.updates("kernel")])
    rates = keras.optimizers.schedules.PiecewiseConstantDecay([1, 3], [0.4, 0.2, 0.0])
    states = StatesOfSteps()
    fit(linear_model(keras.optimizers.SGD(rates)), 6, states, monitor)
    sizes = keep.series(Kind.UPDATE, KERNEL, "l2")
    kernels = [linear_gradients(states.before[i], *batch(i + 1))[KERNEL] for i in range(6)]
    factors = [0.4, 0.4, 0.2, 0.2, 0.0, 0.0]
    truth = [r * np.linalg.norm(g) for r, g in zip(factors, kernels, strict=True)]
    np.testing.assert_allclose(sizes, truth, rtol=1e-4, atol=1e-7)


@pytest.mark.any_backend
def test_the_weights_come_along_with_their_updates(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1, watch=[gradwatch.updates("kernel")])
    fit(linear_model(), 1, monitor)
    assert [str(s) for s in keep.readings[0].sites] == [f"weight {KERNEL}", f"update {KERNEL}"]
