"""A GAN-like model: two networks, trained against each other by two optimizers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from tests.keras.own_steps import own_step
from tests.keras.support_behaviour import (
    EVERYTHING,
    StatesOfSteps,
    assert_measured,
    batch,
    copied,
    fit,
)


def against_each_other(parts: Any, x: Any, y: Any) -> dict[str, Any]:
    """The critic learns to tell y from the maker's work; then the maker learns from it."""
    maker, critic = parts.model.layers

    def critics_loss() -> Any:
        made = parts.call(critic, parts.call(maker, x))
        return keras.ops.mean(made) - keras.ops.mean(parts.call(critic, y))

    loss, gradients = parts.gradients(critic.trainable_variables, critics_loss)
    parts.apply(parts.model.second, gradients, critic.trainable_variables)

    def makers_loss() -> Any:
        return -keras.ops.mean(parts.call(critic, parts.call(maker, x)))

    other, gradients = parts.gradients(maker.trainable_variables, makers_loss)
    parts.apply(parts.model.optimizer, gradients, maker.trainable_variables)
    return {"critic": loss, "maker": other}


RATES = {"maker": 0.3, "critic": 0.05}


def make_gan(second: Any = None) -> Any:
    keras.utils.clear_session()
    keras.utils.set_random_seed(2)
    networks = [
        keras.Input((3,)),
        keras.layers.Dense(2, use_bias=False, name="maker"),
        keras.layers.Dense(1, use_bias=False, name="critic"),
    ]
    model = own_step(against_each_other)(networks, name="gan")
    model.second = second or keras.optimizers.SGD(RATES["critic"], momentum=0.9)
    model.compile(keras.optimizers.SGD(RATES["maker"]), jit_compile=False, run_eagerly=False)
    if keras.backend.backend() == "jax":
        model.compile(model.optimizer)
    model.optimizer.build(model.layers[0].trainable_variables)
    model.second.build(model.layers[1].trainable_variables)
    return model


def gradients_by_hand(maker: Any, critic: Any, new_critic: Any, step: int) -> dict[str, Any]:
    """critic: d/dC [mean(x M C) - mean(y C)]; maker: d/dM [-mean(x M C')]."""
    x, y = (np.asarray(a, "float64") for a in batch(step))
    mean_x, mean_y = x.mean(axis=0, keepdims=True).T, y.mean(axis=0, keepdims=True).T
    return {
        "gan/critic/kernel": maker.T @ mean_x - mean_y,
        "gan/maker/kernel": -mean_x @ new_critic.T,
    }


def test_both_networks_gradients_are_recorded_each_by_its_own_optimizer(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    model = make_gan()
    paths = [v.path for v in model.variables][:2]
    assert paths == ["gan/maker/kernel", "gan/critic/kernel"]
    history = fit(model, 4, states, monitor).history

    assert keep.steps == [1, 2, 3, 4]
    assert set(history) == {"critic", "maker"}
    velocity = np.zeros((2, 1))
    for i, reading in enumerate(keep.readings):
        maker, critic = (w.astype("float64") for w in states.before[i][:2])
        truth = gradients_by_hand(maker, critic, states.after[i][1], i + 1)
        assert_measured(reading, Kind.GRADIENT, truth)
        assert_measured(reading, Kind.APPLIED_GRADIENT, truth)
        velocity = 0.9 * velocity - RATES["critic"] * truth["gan/critic/kernel"]
        moves = {
            "gan/critic/kernel": velocity,
            "gan/maker/kernel": -RATES["maker"] * truth["gan/maker/kernel"],
        }
        assert_measured(reading, Kind.UPDATE, moves, rtol=1e-4)


def test_a_gan_trains_as_without_the_monitor(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=2)
    model, bare = make_gan(), make_gan()
    fit(model, 4, monitor, epochs=2)
    fit(bare, 4, epochs=2)
    assert keep.steps == [2, 4, 6, 8]
    for ours, theirs in zip(
        copied(model.variables + model.optimizer.variables + model.second.variables),
        copied(bare.variables + bare.optimizer.variables + bare.second.variables),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.any_backend
def test_the_meaning_is_said_for_each_optimizer_where_they_differ(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    model = make_gan(second=keras.optimizers.SGD(0.1, clipnorm=0.5, name="critics"))
    fit(model, 1, monitor)
    meaning = keep.runs[0].meaning[Kind.GRADIENT]
    assert "critics: " in meaning
    assert "before clipping (clipnorm=0.5)" in meaning
    assert meaning.count("gradient of the training loss") == 2


@pytest.mark.any_backend
def test_a_selection_of_one_network_leaves_the_other_out(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1, watch=[gradwatch.gradients("critic")])
    fit(make_gan(), 1, monitor)
    assert [site.path for site in keep.readings[0].sites] == ["gan/critic/kernel"]


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_steps_of_two_optimizers_are_counted_once(make_monitor: Any, epochs: int) -> None:
    monitor, keep = make_monitor(every=1)
    model = make_gan()
    fit(model, 2, monitor, epochs=epochs)
    fit(model, 1, monitor)
    assert keep.steps == list(range(1, 2 * epochs + 2))
