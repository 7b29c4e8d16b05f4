"""`outputs_of` with modules of Flax (NNX and Linen) and Equinox: the truth by hand, in float64."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import gradwatch
from gradwatch import Kind
from tests.loop.support import assert_measured
from tests.variants import rarely

WATCH = [gradwatch.outputs(per_unit=True), gradwatch.output_gradients()]
X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")

LIST = getattr(nnx, "List", list)  # Before Flax 0.12 modules may have plain lists.


class OfNnx(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(3, 4, rngs=rngs)
        self.rest = LIST([nnx.Linear(4, 1, rngs=rngs)])

    def __call__(self, x):
        return self.rest[0](jnp.tanh(self.first(x)))


class OfLinen(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1, name="rest")(jnp.tanh(nn.Dense(self.width, name="first")(x)))


class OfEquinox(eqx.Module):
    first: eqx.nn.Linear
    rest: list

    def __init__(self):
        one, two = jax.random.split(jax.random.key(0))
        self.first = eqx.nn.Linear(3, 4, key=one)
        self.rest = [eqx.nn.Linear(4, 1, key=two)]

    def __call__(self, x):
        return self.rest[0](jnp.tanh(self.first(x)))


class Nnx:
    last = "rest/0"
    jit = staticmethod(nnx.jit)

    def __init__(self):
        self.model = self.params = OfNnx()
        first, rest = self.model.first, self.model.rest[0]
        self.weights = [np.asarray(v[...], "f8") for v in (first.kernel, first.bias, rest.kernel)]
        self.bias = np.asarray(rest.bias[...], "f8")

    def grad(self, model, x):
        return nnx.value_and_grad(lambda model: (model(x) ** 2).mean())(model)


class Linen:
    last = "rest"
    jit = staticmethod(jax.jit)

    def __init__(self):
        self.model = OfLinen(4)
        self.params = self.model.init(jax.random.key(0), X)
        first, rest = self.params["params"]["first"], self.params["params"]["rest"]
        names = ((first, "kernel"), (first, "bias"), (rest, "kernel"))
        self.weights = [np.asarray(tree[name], "f8") for tree, name in names]
        self.bias = np.asarray(rest["bias"], "f8")

    def grad(self, params, x):
        return jax.value_and_grad(lambda p: (self.model.apply(p, x) ** 2).mean())(params)


class Equinox:
    last = "rest/0"
    jit = staticmethod(eqx.filter_jit)

    def __init__(self):
        self.model = self.params = OfEquinox()
        first, rest = self.model.first, self.model.rest[0]
        self.weights = [np.asarray(v, "f8") for v in (first.weight.T, first.bias, rest.weight.T)]
        self.bias = np.asarray(rest.bias, "f8")

    def grad(self, model, x):
        return eqx.filter_value_and_grad(lambda m: (jax.vmap(m)(x) ** 2).mean())(model)


def truth(case):
    first_kernel, first_bias, kernel = case.weights
    first = X.astype("f8") @ first_kernel + first_bias
    last = np.tanh(first) @ kernel + case.bias
    of_last = 2 * last / last.size
    of_first = of_last @ kernel.T * (1 - np.tanh(first) ** 2)
    return {"first": first, case.last: last}, {"first": of_first, case.last: of_last}


def step_of(case, monitor):
    def step(params, x):
        with monitor.outputs_of(case.model) as seen:
            loss, grads = case.grad(params, x)
        return loss, grads, monitor.measure(outputs=seen, loss=loss)

    return step


@pytest.mark.parametrize("compiled", [True, *rarely(False)])
@pytest.mark.parametrize("kind", [Nnx, Linen, Equinox])
def test_outputs_and_their_gradients_are_those_of_float64(make_monitor, kind, compiled):
    case = kind()
    monitor, keep = make_monitor(watch=WATCH)
    step = step_of(case, monitor)
    step = case.jit(step) if compiled else step
    for _ in range(2):
        *_, readings = step(case.params, X)
        monitor.record(readings)
    monitor.close()
    outputs, gradients = truth(case)
    assert keep.steps == [1, 2]
    for reading in keep.readings:
        assert_measured(reading, Kind.OUTPUT, outputs)
        assert_measured(reading, Kind.OUTPUT_GRADIENT, gradients)


@pytest.mark.parametrize("kind", [Nnx, Linen, Equinox])
def test_gradients_are_bit_identical_and_classes_as_they_were(make_monitor, kind):
    case = kind()
    called = [type(case.model).__call__, nnx.Linear.__call__, eqx.nn.Linear.__call__]
    _, bare = case.grad(case.params, X)
    _, watched, _ = step_of(case, make_monitor(watch=WATCH)[0])(case.params, X)
    for a, b in zip(jax.tree.leaves(bare), jax.tree.leaves(watched), strict=True):
        np.testing.assert_array_equal(a, b)
    assert called == [type(case.model).__call__, nnx.Linear.__call__, eqx.nn.Linear.__call__]
    assert "__call__" in vars(nnx.Linear)


@pytest.mark.parametrize("kind", [Nnx, Linen, Equinox])
def test_only_the_chosen_modules_are_recorded(make_monitor, kind):
    case = kind()
    monitor, keep = make_monitor(watch=[gradwatch.outputs("rest*")])
    *_, readings = step_of(case, monitor)(case.params, X)
    monitor.record(readings)
    monitor.close()
    assert_measured(keep.readings[0], Kind.OUTPUT, {case.last: truth(case)[0][case.last]})


def test_a_module_without_parts_stands_for_itself(make_monitor):
    linear = eqx.nn.Linear(3, 4, key=jax.random.key(0))
    monitor, keep = make_monitor(watch=[gradwatch.outputs()])
    with monitor.outputs_of(linear) as seen:
        output = jax.vmap(linear)(X)
    monitor.record(outputs=seen)
    monitor.close()
    assert_measured(keep.readings[0], Kind.OUTPUT, {"linear": output})


def test_a_module_that_is_called_twice_has_a_site_for_each_call(make_monitor):
    model = OfNnx()
    monitor, keep = make_monitor(watch=[gradwatch.outputs("first*")])
    with monitor.outputs_of(model) as seen:
        outputs = model.first(X), model.first(2 * X)
    monitor.record(outputs=seen)
    monitor.close()
    expected = {"first": outputs[0], "first@2": outputs[1]}
    assert_measured(keep.readings[0], Kind.OUTPUT, expected)


def test_units_of_a_convolution_of_equinox_are_its_channels(make_monitor):
    conv = eqx.nn.Conv2d(1, 6, 3, key=jax.random.key(0))
    monitor, keep = make_monitor(watch=[gradwatch.outputs(per_unit=True)])
    with monitor.outputs_of(conv) as seen:
        jax.vmap(conv)(jnp.ones((2, 1, 5, 5)))
    monitor.record(outputs=seen)
    monitor.close()
    (reading,) = keep.readings
    counts = {s.kind: reading.statistic("count")[i] for i, s in enumerate(reading.sites)}
    assert counts == {Kind.OUTPUT: 2 * 6 * 3 * 3, Kind.DEAD_UNIT: 6}


def test_modules_in_a_scan_are_named_in_a_notice(make_monitor):
    blocks = eqx.filter_vmap(lambda key: eqx.nn.Linear(3, 3, key=key))
    arrays, static = eqx.partition(blocks(jax.random.split(jax.random.key(0), 2)), eqx.is_array)

    class Scanned(eqx.Module):
        block: eqx.nn.Linear
        head: eqx.nn.Linear

        def __call__(self, x):
            x, _ = jax.lax.scan(
                lambda x, part: (eqx.combine(part, static)(x), None),
                x,
                eqx.filter(self.block, eqx.is_array),
            )
            return self.head(x)

    head = eqx.nn.Linear(3, 1, key=jax.random.key(1))
    model = Scanned(eqx.combine(arrays, static), head)
    monitor, keep = make_monitor(watch=[gradwatch.outputs()])
    with monitor.outputs_of(model) as seen:
        output = jax.vmap(model)(X)
    with pytest.warns(UserWarning, match="block are not recorded"):
        monitor.record(outputs=seen)
    monitor.close()
    assert_measured(keep.readings[0], Kind.OUTPUT, {"head": output})


def test_an_error_of_the_model_is_raised_and_its_class_restored(make_monitor):
    class Broken(nnx.Module):
        def __init__(self):
            self.inner = nnx.Linear(3, 4, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return self.inner(x) @ x

    model, call = Broken(), Broken.__call__
    monitor, _ = make_monitor(watch=WATCH)
    with pytest.raises(TypeError, match="dot"), monitor.outputs_of(model):
        model(X)
    assert Broken.__call__ is call
