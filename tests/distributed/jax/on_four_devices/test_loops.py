"""Loops of one's own on several devices: `jit` with sharded arrays, `shard_map`, eager."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gradwatch import Kind, Site
from gradwatch.core.reference import summarize
from tests.distributed.jax import collectives

pytestmark = pytest.mark.usefixtures("no_complaint")

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
SPECS = {"hidden": {"w": PartitionSpec(None, "model")}, "out": {"w": PartitionSpec()}}
DATA = PartitionSpec("data")


def placed(tree, spec):
    return jax.device_put(tree, NamedSharding(mesh, spec))


def parameters():
    rng = np.random.default_rng(0)
    return {
        "hidden": {"w": rng.normal(size=(6, 8)).astype("float32")},
        "out": {"w": rng.normal(size=(8, 3)).astype("float32")},
    }


def batches(count):
    rng = np.random.default_rng(1)
    return [
        (rng.normal(size=(8, 6)).astype("float32"), rng.normal(size=(8, 3)).astype("float32"))
        for _ in range(count)
    ]


def loss_of(params, x, y):
    return jnp.mean((jax.nn.relu(x @ params["hidden"]["w"]) @ params["out"]["w"] - y) ** 2)


def true_gradients(params, x, y):
    """In float64, by hand."""
    w, v = (np.asarray(params[name]["w"], "float64") for name in ("hidden", "out"))
    hidden = np.maximum(x @ w, 0)
    slope = 2 * (hidden @ v - y) / y.size
    return {"hidden/w": x.T @ ((slope @ v.T) * (hidden > 0)), "out/w": hidden.T @ slope}


def assert_gradients(reading, truth, times=1):
    for path, values in truth.items():
        row = reading.summary.pack()[reading.position[Site(Kind.GRADIENT, path)]]
        true = summarize(values)
        np.testing.assert_array_equal(row[0], true[0] * times, err_msg=path)
        np.testing.assert_allclose(row[6:], true[6:], rtol=1e-5, err_msg=path)


optimizer = optax.sgd(0.1)


def make_step(monitor):
    @jax.jit
    def step(params, state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        after = optax.apply_updates(params, updates)
        if monitor is None:
            return after, state
        readings = monitor.measure(gradients=grads, parameters=after, previous=params, loss=loss)
        return after, state, readings

    return step


def test_a_jitted_step_on_sharded_arrays_records_the_whole_gradients(make_monitor):
    monitor, keep = make_monitor()
    params = jax.tree.map(placed, parameters(), SPECS)
    state, truths = optimizer.init(params), []
    plain, measured = make_step(None), make_step(monitor)
    bare = params
    for i, (x, y) in enumerate(batches(3)):
        truths.append(true_gradients(params, x, y))
        x, y = placed(x, DATA), placed(y, DATA)
        bare, _ = plain(bare, state, x, y)
        params, state, readings = measured(params, state, x, y)
        monitor.record(readings, step=i + 1)
    monitor.close()
    assert [reading.step for reading in keep.readings] == [1, 2, 3]
    for reading, truth in zip(keep.readings, truths, strict=True):
        assert_gradients(reading, truth)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), bare, params)
    without = collectives.of(plain, params, state, x, y)
    assert collectives.of(measured, params, state, x, y) - without == {"all-reduce": 2}


def test_the_number_of_all_reduces_does_not_grow_with_the_number_of_tensors(make_monitor):
    monitor, _ = make_monitor()
    params = {f"layer_{i}": placed(np.ones((4, 4), "float32"), DATA) for i in range(24)}
    measure = jax.jit(lambda p: monitor.measure(gradients=p, parameters=p))
    assert collectives.of(measure, params) == {"all-reduce": 2}


def test_sharded_arrays_can_be_recorded_outside_of_any_compiled_function(make_monitor):
    monitor, keep = make_monitor()
    params = parameters()
    (x, y), *_ = batches(1)
    truth = true_gradients(params, x, y)
    params = jax.tree.map(placed, params, SPECS)
    grads = jax.grad(loss_of)(params, placed(x, DATA), placed(y, DATA))
    monitor.record(gradients=grads, variables=params)
    monitor.close()
    assert_gradients(keep.readings[0], truth)


def test_inside_shard_map_what_is_recorded_is_all_parts_together(make_monitor):
    monitor, keep = make_monitor()
    params = parameters()
    (x, y), *_ = batches(1)

    def step(params, x, y):
        grads = jax.grad(lambda p: lax.pmean(loss_of(p, x, y), "data"))(params)
        own = jax.grad(loss_of)(lax.pcast(params, ("data",), to="varying"), x, y)
        return (
            monitor.measure(gradients=grads, parameters=params),
            monitor.measure(gradients=own, parameters=params, group="unreduced"),
        )

    mapped = jax.jit(
        jax.shard_map(
            step, mesh=mesh, in_specs=(PartitionSpec(), DATA, DATA), out_specs=PartitionSpec()
        )
    )
    whole, unreduced = mapped(params, x, y)
    monitor.record(whole, step=1)
    monitor.record(unreduced, step=1, group="unreduced")
    monitor.close()
    assert_gradients(keep.readings[0], true_gradients(params, x, y))
    # Each device's own gradient, of its half of the batch, before they are added up.
    halves = [true_gradients(params, x[at], y[at]) for at in (slice(4), slice(4, 8))]
    both = {f"unreduced/{path}": np.stack([h[path] for h in halves]) for path in halves[0]}
    assert_gradients(keep.readings[1], both)
