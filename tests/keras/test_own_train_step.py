"""Models with a train step of the user's own."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import GradwatchWarning, Kind
from tests.keras.own_steps import BACKEND, own_step, squared_error
from tests.keras.support_behaviour import (
    BIAS,
    EVERYTHING,
    KERNEL,
    StatesOfSteps,
    assert_measured,
    batch,
    change,
    copied,
    counts,
    fit,
    linear_gradients,
    linear_model,
    named,
    ours,
)


def halved(parts: Any, x: Any, y: Any) -> dict[str, Any]:
    """Half the squared error, and a log of its own."""
    model = parts.model
    variables = model.trainable_variables
    loss, gradients = parts.gradients(variables, lambda: squared_error(parts, x, y) / 2)
    parts.apply(model.optimizer, gradients, variables)
    return {"half": loss, "thrice": 3.0 * loss}


def built(step: Any, **compiling: Any) -> Any:
    model = linear_model(cls=own_step(step), **compiling)
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.mark.parametrize("eagerly", [False, True], ids=["compiled", "eager"])
def test_the_gradients_of_the_users_own_loss_are_recorded(make_monitor: Any, eagerly: bool) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    history = fit(built(halved, run_eagerly=eagerly), 3, states, monitor).history
    assert keep.steps == [1, 2, 3]
    for i, reading in enumerate(keep.readings):
        gradients = linear_gradients(states.before[i], *batch(i + 1))
        halves = {path: g / 2 for path, g in gradients.items()}
        assert_measured(reading, Kind.GRADIENT, halves)
        assert_measured(reading, Kind.UPDATE, {p: -0.1 * g for p, g in halves.items()}, rtol=1e-4)
    keras.utils.set_random_seed(7)
    bare = fit(built(halved, run_eagerly=eagerly), 3).history
    assert set(history) == set(bare) == {"half", "thrice"}
    np.testing.assert_allclose(history["thrice"], np.multiply(3.0, history["half"]), rtol=1e-6)


def twice(parts: Any, x: Any, y: Any) -> dict[str, Any]:
    """Applies the gradient of each half of the batch, one after the other."""
    model = parts.model
    variables = model.trainable_variables
    for half in (slice(0, 2), slice(2, 4)):
        cut = x[half], y[half]
        loss, gradients = parts.gradients(variables, lambda: squared_error(parts, *cut))  # noqa: B023
        parts.apply(model.optimizer, gradients, variables)
    return {"loss": loss}


def test_of_gradients_applied_twice_in_a_step_the_last_is_recorded_and_it_is_said(
    make_monitor: Any,
) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    said = f"{KERNEL}, {BIAS} are applied more than once in a training step; the last one"
    model = built(twice)
    with pytest.warns(GradwatchWarning, match=said) as warned:
        fit(model, 3, states, monitor)
    assert len(ours(warned)) == 1
    assert keep.steps == [1, 2, 3]
    for i, reading in enumerate(keep.readings):
        x, y = batch(i + 1)
        weights = [w.astype("float64") for w in states.before[i][:2]]
        first = linear_gradients(weights, x[:2], y[:2])
        weights = [w - 0.1 * g for w, g in zip(weights, first.values(), strict=True)]
        assert_measured(reading, Kind.GRADIENT, linear_gradients(weights, x[2:], y[2:]), rtol=1e-4)
        whole = change(states.before[i], states.after[i])
        assert_measured(reading, Kind.UPDATE, whole, rtol=1e-4)
    # Two applications a step, but the steps are those of fit.
    assert int(model.optimizer.iterations.value) == 6
    fit(model, 2, monitor)
    assert keep.steps == [1, 2, 3, 4, 5]


def with_a_stranger(parts: Any, x: Any, y: Any) -> dict[str, Any]:
    variables = parts.model.trainable_variables
    loss, gradients = parts.gradients(variables, lambda: squared_error(parts, x, y))
    parts.apply(STRANGER[0], gradients, variables)
    return {"loss": loss}


STRANGER: list[Any] = []


def test_an_optimizer_that_the_model_does_not_hold_is_said_to_be_unseen(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    model = built(with_a_stranger)
    STRANGER[:] = [keras.optimizers.SGD(0.1)]
    STRANGER[0].build(model.trainable_variables)
    said = f"No optimizer that the model holds was given a gradient of {KERNEL}, {BIAS}"
    with pytest.warns(GradwatchWarning, match=said) as warned:
        fit(model, 2, states, monitor, epochs=2)
    assert len(ours(warned)) == 1
    assert keep.steps == [1, 2, 3, 4]
    for i, reading in enumerate(keep.readings):
        assert counts(reading, Kind.GRADIENT, KERNEL) == 0
        assert_measured(reading, Kind.WEIGHT, named(states.after[i]), rtol=1e-6)
    assert not np.array_equal(states.before[0][0], states.after[0][0])


@pytest.mark.filterwarnings("ignore:.*No optimizer that the model holds was given a gradient")
def test_gradients_that_are_not_seen_are_none_that_are_missing_also_afterwards(
    make_monitor: Any,
) -> None:
    monitor, _ = make_monitor(every=1, watch=EVERYTHING, sinks=[gradwatch.Store()])
    model = built(with_a_stranger)
    STRANGER[:] = [keras.optimizers.SGD(0.1)]
    STRANGER[0].build(model.trainable_variables)
    fit(model, 3, monitor, epochs=4)
    monitor.close()
    with gradwatch.open(monitor.directory) as run:
        assert len(run.steps("gradient")) > 3
        found = gradwatch.diagnose(run).findings
    assert [finding.rule for finding in found] == [finding.rule for finding in monitor.findings]
    assert "zero-gradients" not in {finding.rule for finding in found}


def in_a_loop(parts: Any, x: Any, y: Any) -> dict[str, Any]:
    """Two steps on the same batch, in a loop of the framework's own."""
    model = parts.model
    variables = model.trainable_variables

    def once() -> None:
        _, gradients = parts.gradients(variables, lambda: squared_error(parts, x, y))
        parts.apply(model.optimizer, gradients, variables)

    if BACKEND == "tensorflow":
        import tensorflow as tf

        def body(i: Any) -> Any:
            once()
            return (i + 1,)

        tf.while_loop(lambda i: i < 2, body, (0,))
    else:
        import jax

        def scanned(values: Any, _: Any) -> Any:
            parts.values = dict(zip(keys, values, strict=True))
            once()
            return [parts.values[key] for key in keys], None

        keys = list(parts.values)
        values, _ = jax.lax.scan(scanned, list(parts.values.values()), length=2)
        parts.values = dict(zip(keys, values, strict=True))
    return {"loss": squared_error(parts, x, y)}


def in_a_branch(parts: Any, x: Any, y: Any) -> dict[str, Any]:
    """One step, in a conditional of the framework's own."""
    model = parts.model
    variables = model.trainable_variables

    def once() -> None:
        _, gradients = parts.gradients(variables, lambda: squared_error(parts, x, y))
        parts.apply(model.optimizer, gradients, variables)

    if BACKEND == "tensorflow":
        import tensorflow as tf

        tf.cond(tf.reduce_sum(x) < 1e9, once, lambda: None)
    else:
        import jax

        keys = list(parts.values)

        def taken(values: Any) -> Any:
            parts.values = dict(zip(keys, values, strict=True))
            once()
            return [parts.values[key] for key in keys]

        is_small = keras.ops.sum(x) < 1e9
        values = list(parts.values.values())
        values = jax.lax.cond(is_small, taken, lambda same: same, values)
        parts.values = dict(zip(keys, values, strict=True))
    return {"loss": squared_error(parts, x, y)}


@pytest.mark.skipif(
    BACKEND == "torch", reason="torch has no loops of its own: Python's are covered above"
)
@pytest.mark.parametrize("step", [in_a_loop, in_a_branch], ids=["loop", "branch"])
def test_gradients_that_cannot_leave_a_loop_are_said_to_be_missing_and_weights_are_kept(
    make_monitor: Any, step: Any
) -> None:
    def train(*callbacks: Any) -> Any:
        keras.utils.set_random_seed(9)
        model = built(step)
        fit(model, 3, *callbacks)
        return model

    monitor, keep = make_monitor(every=1, watch=EVERYTHING)
    states = StatesOfSteps()
    with pytest.warns(GradwatchWarning, match="inside a loop or branch") as warned:
        model = train(states, monitor)
    assert len(ours(warned)) == 1
    bare = train()
    for one, other in zip(copied(model.variables), copied(bare.variables), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert keep.steps == [1, 2, 3]
    for i, reading in enumerate(keep.readings):
        assert_measured(reading, Kind.WEIGHT, named(states.after[i]), rtol=1e-6)
        for kind in (Kind.GRADIENT, Kind.APPLIED_GRADIENT):
            assert counts(reading, kind, KERNEL) == counts(reading, kind, BIAS) == 0
