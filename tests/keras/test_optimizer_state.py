"""What Keras's optimizers hold is recorded as it is after the step, with what follows from it."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from tests import optimizer_truth as by_hand
from tests.keras.ways import mostly_on_torch
from tests.optimizer_truth import B1, B2, EPSILON, STEPS, assert_state

optimizers = keras.optimizers
BETAS: Any = {"beta_1": B1, "beta_2": B2}
ADAM = {**BETAS, "epsilon": EPSILON}
RATE = 2.0**-10
RULES: dict[str, tuple[Any, Any]] = {
    "Adam": (
        lambda: optimizers.Adam(RATE, **ADAM),
        partial(by_hand.adam, is_epsilon_corrected=False),
    ),
    "Adam with amsgrad": (
        lambda: optimizers.Adam(RATE, amsgrad=True, **ADAM),
        partial(by_hand.adam, is_epsilon_corrected=False, amsgrad=True),
    ),
    "AdamW": (
        lambda: optimizers.AdamW(RATE, weight_decay=0.1, **ADAM),
        partial(by_hand.adam, is_epsilon_corrected=False),
    ),
    "Nadam": (lambda: optimizers.Nadam(RATE, **ADAM), by_hand.adam),
    "Lamb": (lambda: optimizers.Lamb(RATE, **ADAM), by_hand.adam),
    "RMSprop": (
        lambda: optimizers.RMSprop(RATE, rho=B1, epsilon=EPSILON),
        partial(by_hand.rmsprop, in_root=True),
    ),
    "RMSprop, centered": (
        lambda: optimizers.RMSprop(RATE, rho=B1, epsilon=EPSILON, centered=True),
        partial(by_hand.rmsprop, in_root=True, centered=True),
    ),
    "Adagrad": (
        lambda: optimizers.Adagrad(RATE, initial_accumulator_value=0.25, epsilon=EPSILON),
        partial(by_hand.adagrad, start=0.25, in_root=True),
    ),
    "SGD with momentum": (
        lambda: optimizers.SGD(RATE, momentum=B1, nesterov=True),
        partial(by_hand.momentum, scale=-RATE),
    ),
    "Adadelta": (
        lambda: optimizers.Adadelta(RATE, rho=B1, epsilon=EPSILON),
        by_hand.adadelta,
    ),
    "Adamax": (lambda: optimizers.Adamax(RATE, beta_1=B1), by_hand.adamax),
    "Muon, of a vector": (
        lambda: optimizers.Muon(RATE, adam_beta_1=B1, adam_beta_2=B2, epsilon=EPSILON),
        partial(by_hand.adam, is_epsilon_corrected=False),
    ),
    "Lion": (lambda: optimizers.Lion(RATE, beta_1=B1, beta_2=B2), by_hand.lion),
}

if not hasattr(optimizers, "Muon"):  # before Keras 3.10
    del RULES["Muon, of a vector"]


class Scale(keras.layers.Layer):
    """The gradient of the sum of its outputs is its input, whatever the weight is."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), initializer="zeros", name="scale")

    def call(self, x: Any) -> Any:
        return keras.ops.sum(x * self.scale, axis=-1, keepdims=True)


def model_of(size: int, optimizer: Any, **options: Any) -> Any:
    model = keras.Sequential([keras.Input((size,)), Scale(name="layer")], name="net")
    model.compile(optimizer, loss=lambda y, outputs: keras.ops.mean(outputs), **options)
    return model


def trained(given: Any, optimizer: Any, monitor: Any, **options: Any) -> None:
    model = model_of(given.shape[1], optimizer, **options)
    y = np.zeros((len(given), 1), np.float32)
    model.fit(given, y, batch_size=1, shuffle=False, verbose=0, callbacks=[monitor])


def with_state(keep: Any) -> list[Any]:
    kinds = set(by_hand.KINDS)
    return [r for r in keep.readings if kinds & {site.kind for site in r.sites}]


@pytest.mark.parametrize(
    "rule", mostly_on_torch(RULES, ["Adam", "RMSprop, centered", "SGD with momentum"])
)
def test_state_is_that_of_the_rule_in_float64(make_monitor: Any, rule: str) -> None:
    monitor, keep = make_monitor(every=1, watch=[gradwatch.optimizer_state()], diagnose=False)
    make, expected = RULES[rule]
    given = by_hand.gradients(STEPS if rule == "Adam" else 20)
    trained(given, make(), monitor)
    readings = with_state(keep)
    assert len(readings) == len(given)
    for reading, state in zip(readings, expected(given), strict=True):
        assert_state(reading, "net/layer/scale", state)
        assert gradwatch.Site(Kind.UPDATE, "net/layer/scale") in reading.sites


def test_with_clipping_and_accumulation_the_gradient_is_the_one_that_was_applied(
    make_monitor: Any,
) -> None:
    monitor, keep = make_monitor(every=1, watch=[gradwatch.optimizer_state()], diagnose=False)
    given = by_hand.gradients(12)
    trained(
        given,
        optimizers.Adam(RATE, clipvalue=0.5, gradient_accumulation_steps=3, **ADAM),
        monitor,
    )
    applied = np.clip(given.reshape(4, 3, -1).astype(np.float64).mean(1), -0.5, 0.5)
    expected = by_hand.adam(applied, is_epsilon_corrected=False)
    kind = Kind.NORMALIZED_GRADIENT
    updates = [r for r in keep.readings if any(site.kind is kind for site in r.sites)]
    assert [r.step for r in updates] == [3, 6, 9, 12]
    for reading, state in zip(updates, expected, strict=True):
        assert_state(reading, "net/layer/scale", state)
    between = [r for r in with_state(keep) if r.step % 3]
    kinds = {site.kind for r in between for site in r.sites}
    assert Kind.SECOND_MOMENT in kinds
    assert Kind.NORMALIZED_GRADIENT not in kinds


@pytest.mark.any_backend
@pytest.mark.parametrize("make", [optimizers.Adafactor, optimizers.Ftrl])
def test_an_optimizer_of_another_form_is_refused_by_name(make_monitor: Any, make: Any) -> None:
    monitor, keep = make_monitor(
        every=1, watch=[gradwatch.optimizer_state(), gradwatch.weights()], diagnose=False
    )
    with pytest.warns(gradwatch.GradwatchWarning, match=f"The state of {make.__name__}"):
        trained(by_hand.gradients(2), make(RATE), monitor)
    assert not with_state(keep)
    assert keep.readings


@pytest.mark.any_backend
def test_an_optimizer_without_moments_is_told_about(make_monitor: Any) -> None:
    monitor, keep = make_monitor(
        every=1, watch=[gradwatch.optimizer_state(), gradwatch.weights()], diagnose=False
    )
    with pytest.warns(gradwatch.GradwatchWarning, match=r"\(SGD\) holds no moments"):
        trained(by_hand.gradients(2), optimizers.SGD(RATE), monitor)
    assert not with_state(keep)


def test_variables_are_chosen_by_name_and_steps_by_the_schedule(make_monitor: Any) -> None:
    watch = [gradwatch.optimizer_state("*/kernel", every=2, histogram=True)]
    monitor, keep = make_monitor(every=1, watch=watch, diagnose=False)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")], name="net")
    model.compile(optimizers.Adam(), loss="mse")
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    model.fit(x, x[:, :2], batch_size=1, verbose=0, callbacks=[monitor])
    readings = with_state(keep)
    assert [r.step for r in readings] == [1, 3] or [r.step for r in readings] == [2, 4]
    for reading in readings:
        paths = {s.path for s in reading.sites if s.kind in by_hand.KINDS}
        assert paths == {"net/a/kernel"}
        cells = {reading.sites[i].kind for i in reading.cells}
        assert cells == {Kind.FIRST_MOMENT, Kind.SECOND_MOMENT}
