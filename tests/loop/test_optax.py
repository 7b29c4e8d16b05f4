"""`monitor.optax`: a link of an optimizer of optax that measures what passes through it."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import gradwatch
from gradwatch import Kind
from tests.loop.support import assert_measured, paths

EVERYTHING = [
    gradwatch.gradients(histogram=True),
    gradwatch.applied_gradients(),
    gradwatch.weights(),
    gradwatch.updates(),
]
MOST = 0.5


def batch(step):
    draw = np.random.default_rng(step)
    x = draw.normal(size=(16, 4)).astype("float32")
    return x, x.sum(1, keepdims=True)


def start():
    draw = np.random.default_rng(0)
    return {"b": jnp.zeros(1), "w": jnp.asarray(draw.normal(size=(4, 1)), jnp.float32)}


def loss_of(params, x, y):
    return ((x @ params["w"] + params["b"] - y) ** 2).mean()


def slopes_of(params, x, y):
    """The gradients in float64, by hand."""
    params = {name: np.asarray(p, np.float64) for name, p in params.items()}
    error = 2 * (x.astype("f8") @ params["w"] + params["b"] - y) / len(x)
    return {"b": error.sum(0), "w": x.astype("f8").T @ error}


def train(optimizer, monitor=None, steps=12, donate=True):
    """Trains; returns the parameters before each step and after the last."""

    @jax.jit if not donate else lambda f: jax.jit(f, donate_argnums=(0, 1))
    def step(params, state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    params, course = start(), []
    state = optimizer.init(params)
    for i in range(steps):
        course.append({name: np.asarray(p).copy() for name, p in params.items()})
        params, state, loss = step(params, state, *batch(i))
        if monitor is not None:
            monitor.record(state, loss=loss)
    if monitor is not None:
        monitor.close()
    return [*course, {name: np.asarray(p) for name, p in params.items()}], state, step


def of_kind(keep, kind):
    return {r.step: r for r in keep.readings if any(site.kind is kind for site in r.sites)}


def test_what_passes_is_measured_at_the_steps_that_are_due(make_monitor):
    monitor, keep = make_monitor(every=3, watch=EVERYTHING)
    link = monitor.optax(optax.sgd(0.1), clipping=optax.clip_by_global_norm(MOST))
    course, state, step = train(link, monitor)
    readings = of_kind(keep, Kind.GRADIENT)
    assert list(readings) == [3, 6, 9, 12]
    for number, reading in readings.items():
        before = course[number - 1]
        slopes = slopes_of(before, *batch(number - 1))
        norm = np.sqrt(sum(np.square(g).sum() for g in slopes.values()))
        clipped = {name: g * min(1.0, MOST / norm) for name, g in slopes.items()}
        assert_measured(reading, Kind.GRADIENT, slopes)
        assert_measured(reading, Kind.APPLIED_GRADIENT, clipped)
        assert_measured(reading, Kind.WEIGHT, before)
        assert_measured(reading, Kind.UPDATE, {n: -0.1 * g for n, g in clipped.items()})
        counts = {reading.sites[i].path: cells.sum() for i, cells in reading.cells.items()}
        assert counts == {"b": 1, "w": 4}
    losses = {r.step: r.losses()["loss"] for r in keep.readings if r.losses()}
    assert list(losses) == list(range(1, 13))
    text = step.lower(start(), state, *batch(0)).as_text()
    assert "callback" not in text
    assert "stablehlo.case" in text


def test_training_is_the_same_but_for_rounding_by_the_compiler(make_monitor):
    monitor, _ = make_monitor(every=None)
    watched, *_ = train(monitor.optax(optax.adam(1e-2)), monitor, 50)
    bare, *_ = train(optax.adam(1e-2), None, 50)
    for name, value in bare[-1].items():
        np.testing.assert_allclose(watched[-1][name], value, rtol=1e-5, atol=1e-7)


def test_eager_training_is_bit_identical_with_and_without(make_monitor):
    def trained(optimizer, record):
        params, state = start(), optimizer.init(start())
        for i in range(10):
            grads = jax.grad(loss_of)(params, *batch(i))
            updates, state = optimizer.update(grads, state, params)
            params = optax.apply_updates(params, updates)
            record(state)
        return params

    monitor, _ = make_monitor(every=2)
    watched = trained(monitor.optax(optax.adam(1e-2)), monitor.record)
    bare = trained(optax.adam(1e-2), lambda state: None)
    monitor.close()
    for name, value in bare.items():
        np.testing.assert_array_equal(watched[name], value)


def test_under_a_budget_the_same_steps_are_measured_everywhere(make_monitor):
    monitor, keep = make_monitor(every=None, watch=[gradwatch.gradients()])
    train(monitor.optax(optax.sgd(0.1)), monitor, 50)
    expected = [*range(1, 21), *range(22, 51, 2)]
    assert list(of_kind(keep, Kind.GRADIENT)) == expected


def test_a_schedule_of_steps_is_kept(make_monitor):
    monitor, keep = make_monitor(every=[2, 5], watch=[gradwatch.gradients()])
    train(monitor.optax(optax.sgd(0.1)), monitor)
    assert list(of_kind(keep, Kind.GRADIENT)) == [2, 5]


def test_a_link_in_a_chain_and_a_learning_rate(make_monitor):
    monitor, keep = make_monitor(every=4, watch=[gradwatch.gradients()])
    course = optax.linear_schedule(0.1, 0.0, 10)
    chain = optax.chain(optax.clip_by_global_norm(MOST), monitor.optax(), optax.scale(-1.0))
    optimizer = optax.inject_hyperparams(
        lambda learning_rate: optax.chain(chain, optax.scale(learning_rate))
    )(learning_rate=course)
    params, *_ = train(optimizer, monitor)
    reading = of_kind(keep, Kind.GRADIENT)[8]
    slopes = slopes_of(params[7], *batch(7))
    norm = np.sqrt(sum(np.square(g).sum() for g in slopes.values()))
    assert_measured(reading, Kind.GRADIENT, {n: g * min(1, MOST / norm) for n, g in slopes.items()})
    rates = {s: r.statistic("sum")[0] for s, r in of_kind(keep, Kind.SCALAR).items()}
    assert rates == pytest.approx({4: 0.07, 8: 0.03, 12: 0.0}, abs=1e-8)


def test_parts_of_a_partition_have_a_group_each(make_monitor):
    monitor, keep = make_monitor(every=1, watch=[gradwatch.gradients()])
    parts = {
        "one": optax.chain(monitor.optax(group="one"), optax.sgd(0.1)),
        "two": monitor.optax(optax.sgd(0.01), group="two"),
    }
    _course, *_ = train(optax.partition(parts, {"w": "one", "b": "two"}), monitor, 3)
    found = {}
    for reading in keep.readings:
        for path in paths(reading, Kind.GRADIENT):
            found.setdefault(path, []).append(reading.step)
    assert found == {"one/w": [1, 2, 3], "two/b": [1, 2, 3]}


def test_masked_parameters_are_left_out(make_monitor):
    monitor, keep = make_monitor(every=1, watch=[gradwatch.gradients()])
    optimizer = optax.masked(monitor.optax(optax.sgd(0.1)), {"w": True, "b": False})
    course, *_ = train(optimizer, monitor, 2)
    assert_measured(
        of_kind(keep, Kind.GRADIENT)[2],
        Kind.GRADIENT,
        {"w": slopes_of(course[1], *batch(1))["w"]},
    )


def test_of_several_micro_batches_the_mean_is_measured(make_monitor):
    monitor, keep = make_monitor(every=1, watch=[gradwatch.gradients()])
    optimizer = optax.MultiSteps(monitor.optax(optax.sgd(0.1)), 2)
    params, state = start(), optimizer.init(start())
    update = jax.jit(optimizer.update)
    for i in range(4):
        grads = jax.grad(loss_of)(params, *batch(i))
        updates, state = update(grads, state, params)
        if i % 2:
            monitor.record(state)
            parts = [slopes_of(params, *batch(j)) for j in (i - 1, i)]
            mean = {name: (parts[0][name] + parts[1][name]) / 2 for name in parts[0]}
        params = optax.apply_updates(params, updates)
    monitor.close()
    assert list(of_kind(keep, Kind.GRADIENT)) == [1, 2]
    assert_measured(of_kind(keep, Kind.GRADIENT)[2], Kind.GRADIENT, mean)


def test_a_state_that_is_recorded_too_often_is_a_notice_and_nothing_false(make_monitor):
    monitor, keep = make_monitor(every=2, watch=[gradwatch.gradients()])
    link = monitor.optax(optax.sgd(0.1))
    state = link.init(start())

    def record_each_twice():
        nonlocal state
        for i in range(0, 6, 2):
            _, state = link.update(jax.grad(loss_of)(start(), *batch(i)), state, start())
            monitor.record(state)
            monitor.record(state)
        monitor.close()

    with pytest.warns(UserWarning, match="once for each update"):
        record_each_twice()
    for step, reading in of_kind(keep, Kind.GRADIENT).items():
        assert_measured(reading, Kind.GRADIENT, slopes_of(start(), *batch(2 * (step - 1))))


def test_two_monitors_in_one_chain_record_their_own_links(make_monitor):
    (one, first), (other, second) = [make_monitor(every=1) for _ in range(2)]
    links = [one.optax(group="before"), optax.clip(0.01), other.optax(group="after")]
    chain = optax.chain(*links)
    slopes, state = jax.grad(loss_of)(start(), *batch(0)), chain.init(start())
    _, state = chain.update(slopes, state, start())
    for monitor in (one, other):
        monitor.record(state)
        monitor.close()
    assert paths(first.readings[0], Kind.GRADIENT) == ["before/b", "before/w"]
    assert paths(second.readings[0], Kind.GRADIENT) == ["after/b", "after/w"]
    clipped = {f"after/{name}": np.clip(x, -0.01, 0.01) for name, x in slopes.items()}
    assert_measured(second.readings[0], Kind.GRADIENT, clipped)


def test_links_that_cannot_be_told_apart_and_those_of_nobody_are_told(make_monitor):
    monitor, keep = make_monitor(every=1)
    chain = optax.chain(monitor.optax(), monitor.optax(optax.sgd(0.1)))
    with pytest.warns(UserWarning, match="Several links.*the same group"):
        monitor.record(chain.init(start()))
    other, _ = make_monitor(every=1)
    with pytest.warns(UserWarning, match="no link of this monitor"):
        other.record(chain.init(start()))
    assert not keep.readings


def test_a_restored_state_goes_on_with_its_steps(make_monitor):
    monitor, keep = make_monitor(every=1, watch=[gradwatch.gradients()])
    link = monitor.optax(optax.sgd(0.1))
    state = link.init(start())._replace(step=jnp.asarray(41, jnp.int32))
    _, state = link.update(jax.grad(loss_of)(start(), *batch(0)), state, start())
    monitor.record(state)
    monitor.close()
    assert list(of_kind(keep, Kind.GRADIENT)) == [42]


@pytest.mark.skipif(
    "model" not in inspect.signature(nnx.Optimizer.update).parameters,
    reason="before Flax 0.11 it keeps the model",
)
def test_an_optimizer_of_nnx_is_recorded(make_monitor):
    monitor, keep = make_monitor(every=2, watch=[gradwatch.gradients(), gradwatch.updates()])
    model = nnx.Linear(4, 1, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, monitor.optax(optax.sgd(0.1)), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, x, y):
        loss, grads = nnx.value_and_grad(lambda model: ((model(x) - y) ** 2).mean())(model)
        optimizer.update(model, grads)
        return loss

    for i in range(4):
        before = {"b": np.asarray(model.bias[...]), "w": np.asarray(model.kernel[...])}
        monitor.record(optimizer, loss=step(model, optimizer, *batch(i)))
    monitor.close()
    slopes = slopes_of(before, *batch(3))
    readings = of_kind(keep, Kind.GRADIENT)
    assert list(readings) == [2, 4]
    assert_measured(readings[4], Kind.GRADIENT, {"kernel": slopes["w"], "bias": slopes["b"]})
    changes = {"kernel": -0.1 * slopes["w"], "bias": -0.1 * slopes["b"]}
    assert_measured(readings[4], Kind.UPDATE, changes)


def test_a_model_of_equinox_is_recorded(make_monitor):
    monitor, keep = make_monitor(every=1, watch=[gradwatch.gradients()])
    model = eqx.nn.Linear(4, 1, key=jax.random.key(0))
    optimizer = monitor.optax(optax.sgd(0.1))
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state, x, y):
        grads = eqx.filter_grad(lambda model: ((jax.vmap(model)(x) - y) ** 2).mean())(model)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state

    slopes = slopes_of({"w": model.weight.T, "b": model.bias}, *batch(0))
    model, state = step(model, state, *batch(0))
    monitor.record(state)
    monitor.close()
    truth = {"weight": slopes["w"].T, "bias": slopes["b"]}
    assert_measured(of_kind(keep, Kind.GRADIENT)[1], Kind.GRADIENT, truth)


def test_an_internal_error_does_not_reach_training(make_monitor, monkeypatch):
    from gradwatch.capture.loop.loop_capture import LoopCapture

    monitor, _keep = make_monitor(every=1)

    def broken(*arguments):
        raise RuntimeError("planted")

    monkeypatch.setattr(LoopCapture, "measure", broken)
    with pytest.warns(UserWarning, match="planted"):
        watched, *_ = train(monitor.optax(optax.sgd(0.1)), monitor, 3)
    bare, *_ = train(optax.sgd(0.1), None, 3)
    np.testing.assert_array_equal(watched[-1]["w"], bare[-1]["w"])


def test_the_number_of_a_step_is_that_of_the_state(make_monitor):
    monitor, _ = make_monitor()
    link = monitor.optax(optax.sgd(0.1))
    with pytest.raises(TypeError, match="takes no step="):
        monitor.record(link.init(start()), step=3)
