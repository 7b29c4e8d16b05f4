"""Summaries and histograms of arrays that lie on several devices, against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from gradwatch.core.reference import count_cells as true_cells
from gradwatch.core.reference import summarize as true_summary
from gradwatch.measure import jax_sharded
from gradwatch.measure.jax import dead_units, measure
from tests.distributed.jax import collectives

rng = np.random.default_rng(7)


def normal(*shape):
    return rng.normal(size=shape).astype("float32")


def strange(*shape):
    x = normal(*shape)
    x[0, 0], x[-1, -1], x[1, 2], x[2, :3] = np.nan, np.inf, -np.inf, 0
    return x


ARRAYS = {
    "kernel": (normal(16, 8), (None, "model")),
    "replicated bias": (np.ones(8, "float32"), ()),
    "batch with NaN and infinities": (strange(8, 16), ("data",)),
    "large, divided both ways": (normal(600, 512), ("data", "model")),
    "over all devices in one dimension": (normal(8, 3), (("data", "model"),)),
    "bfloat16": (normal(16, 8).astype(jnp.bfloat16), ("data",)),
    "whole numbers": (np.arange(6), ("data",)),
    "nothing": (np.zeros((0, 4), "float32"), ()),
    "all alike": ((3 + 1e-4 * normal(64, 4)).astype("float32"), ("model", "data")),
    "a scalar": (np.float32(2.5), ()),
}


def on_mesh(kind, arrays=ARRAYS):
    mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(kind, kind))
    return [
        jax.device_put(x, NamedSharding(mesh, PartitionSpec(*spec))) for x, spec in arrays.values()
    ]


def assert_true(rows, arrays):
    for row, (name, (x, _)) in zip(np.asarray(rows), arrays.items(), strict=True):
        true = true_summary(np.asarray(x, "float64"))
        np.testing.assert_array_equal(row[:5], true[:5], err_msg=name)
        np.testing.assert_allclose(row[6:], true[6:], rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(row[5], true[5], atol=1e-6 * true[6], err_msg=name)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_summaries_are_of_the_whole_arrays_and_take_two_all_reduces(kind):
    xs = on_mesh(kind)
    summarize = jax.jit(lambda xs: measure(xs)[0])
    assert collectives.of(summarize, xs) == {"all-reduce": 2}
    rows = summarize(xs)
    assert rows.is_fully_replicated
    assert_true(rows, ARRAYS)


@pytest.mark.parametrize("due", [True, False])
def test_histograms_travel_with_the_sums(due):
    both = jax.jit(lambda xs, due: measure(xs, [0, 2, 3, 7], due))
    xs = on_mesh(AxisType.Auto)
    assert collectives.of(both, xs, np.bool_(due)) == {"all-reduce": 2}
    rows, cells = both(xs, np.bool_(due))
    assert_true(rows, ARRAYS)
    arrays = [x for x, _ in ARRAYS.values()]
    for i, counted in zip([0, 2, 3, 7], np.asarray(cells), strict=True):
        np.testing.assert_array_equal(counted, true_cells(arrays[i]) * due)


def test_copies_are_counted_once_and_without_any_collective():
    copies = {name: (x, ()) for name, (x, _) in ARRAYS.items()}
    summarize = jax.jit(lambda xs: measure(xs)[0])
    xs = on_mesh(AxisType.Auto, copies)
    assert collectives.of(summarize, xs) == {}
    assert_true(summarize(xs), copies)


def test_what_a_step_computes_is_measured_as_xla_has_divided_it():
    x, w = normal(8, 16), normal(16, 12)

    def step(x, w):
        hidden = jax.nn.relu(x @ w)
        grad = jax.grad(lambda w: (jax.nn.relu(x @ w) ** 2).sum())(w)
        return measure([hidden, grad, w + 1, hidden[:5, :7]])[0]

    placed = on_mesh(AxisType.Auto, {"x": (x, ("data",)), "w": (w, (None, "model"))})
    rows = np.asarray(jax.jit(step)(*placed))
    wide = np.maximum(x.astype("f8") @ w, 0)
    truths = [wide, 2 * x.T.astype("f8") @ wide, w + 1.0, wide[:5, :7]]
    for row, true in zip(rows, map(true_summary, truths), strict=True):
        np.testing.assert_allclose(row, true, rtol=1e-5, atol=1e-5 * true[6])


@pytest.mark.parametrize("spec", [("data", "model"), (None, "model"), ()])
def test_a_unit_is_dead_if_it_is_so_on_all_devices(spec):
    outputs = np.maximum(normal(8, 12), 0)
    outputs[:, [1, 7]] = 0
    outputs[:4, 3] = 0
    outputs[4:, 3] = 1
    (x,) = on_mesh(AxisType.Auto, {"outputs": (outputs, spec)})
    count = jax.jit(lambda x: measure([x * 2, dead_units(x, 1)])[0])
    assert collectives.of(count, x).total() <= 2
    dead = (outputs == 0).all(0).astype("float32")
    assert dead.sum() == 2
    np.testing.assert_array_equal(np.asarray(count(x))[1], true_summary(dead))


def test_measuring_is_neither_differentiated_nor_stopped_by_vmap():
    def loss(w):
        return (w**2).sum(), measure([w])[0]

    w = normal(16, 8)
    placed = on_mesh(AxisType.Auto, {"w": (w, (None, "model"))})[0]
    grad, rows = jax.jit(jax.grad(loss, has_aux=True))(placed)
    np.testing.assert_allclose(grad, 2 * w)
    assert_true(rows, {"w": (w, ())})
    several = jax.jit(jax.vmap(lambda w: measure([w])[0]))(w)
    np.testing.assert_allclose(several[3, 0], true_summary(w[3]), rtol=1e-6)


def test_a_fault_while_compiling_costs_time_and_not_the_training(monkeypatch):
    def broken(*args):
        raise RuntimeError("of ours")

    monkeypatch.setattr(jax_sharded, "_on_parts", broken)
    rows = jax.jit(lambda xs: measure(xs)[0])(on_mesh(AxisType.Auto))
    assert_true(rows, ARRAYS)


def test_arrays_bound_to_different_devices_are_measured_each_where_it_lies():
    devices = jax.devices()
    stages = [normal(4, 5), normal(3), normal(2, 2)]
    placed = [jax.device_put(x, devices[i]) for x, i in zip(stages, (1, 3, 1), strict=True)]
    rows, cells = measure([*placed, None, jnp.ones(3)], [0, 1, 4], True)
    truths = [*stages, np.zeros(0, "float32"), np.ones(3, "float32")]
    assert_true(rows, {str(i): (x, ()) for i, x in enumerate(truths)})
    for i, counted in zip([0, 1, 4], np.asarray(cells), strict=True):
        np.testing.assert_array_equal(counted, true_cells(truths[i]))
