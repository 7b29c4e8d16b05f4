"""Taps in functions of JAX: jit, scan, remat, branches, Flax and Equinox."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradwatch
from gradwatch import GradwatchWarning, Kind
from tests.loop.support import assert_measured, paths
from tests.loop.tapped import BLOCKS, WEIGHTS, X, assert_blocks, truth
from tests.variants import rarely

PATHS = [f"h/{i}" for i in range(BLOCKS)]


def block(h, w):
    return gradwatch.tap(jnp.tanh(h @ w), "h")


def scanned(block):
    def loss(weights, x):
        h, _ = jax.lax.scan(lambda h, w: (block(h, w), None), x, weights)
        return jnp.mean(h**2)

    return loss


def compiled_step(monitor, loss):
    @jax.jit
    def step(weights, x):
        (value, gradients), taps = gradwatch.with_taps(jax.value_and_grad(loss))(weights, x)
        readings = monitor.measure(gradients=gradients, loss=value, taps=taps)
        return value, gradients, readings

    return step


def inner_jit(block):
    return lambda h, w: jax.jit(block)(h, w)


def offloading(block):
    policy = jax.checkpoint_policies.dots_saveable
    return jax.checkpoint(block, policy=policy)


def branching(block):
    return lambda h, w: jax.lax.cond(w[0, 0] > -99.0, block, lambda h, w: h, h, w)


@pytest.mark.parametrize(
    "within", [jax.checkpoint, branching, *rarely(lambda block: block, inner_jit, offloading)]
)
def test_each_iteration_of_a_scan_is_recorded_as_the_unrolled_truth(make_monitor, within):
    monitor, keep = make_monitor()
    step = compiled_step(monitor, scanned(within(block)))
    value, gradients, readings = step(WEIGHTS, X)
    monitor.record(readings)
    monitor.close()
    (reading,) = keep.readings
    assert_blocks(reading, PATHS)
    plain = scanned(within(lambda h, w: jnp.tanh(h @ w)))
    expected = jax.jit(jax.value_and_grad(plain))(WEIGHTS, X)
    np.testing.assert_array_equal(value, expected[0])
    np.testing.assert_array_equal(gradients, expected[1])


def test_taps_of_an_unrolled_function_leave_jit_and_are_recorded_outside(make_monitor):
    monitor, keep = make_monitor()

    def loss(weights, x):
        for i in range(2):
            x = gradwatch.tap(jnp.tanh(x @ weights[i]), f"block/{i}")
        return jnp.mean(x**2)

    step = jax.jit(gradwatch.with_taps(jax.value_and_grad(loss)))
    (_, gradients), taps = step(jnp.asarray(WEIGHTS), X)
    monitor.record(gradients=[gradients], taps=taps)
    monitor.record(taps=taps)
    monitor.close()
    for reading in keep.readings:
        assert_blocks(reading, ["block/0", "block/1"])
    assert [paths(r, Kind.GRADIENT) for r in keep.readings] == [["0"], []]


def test_a_function_that_is_traced_once_and_called_twice_has_two_of_each(make_monitor):
    monitor, keep = make_monitor()
    once = jax.jit(block)

    def loss(weights, x):
        return jnp.mean(once(once(x, weights[0]), weights[1]) ** 2)

    step = jax.jit(gradwatch.with_taps(jax.grad(loss)))
    _, taps = step(jnp.asarray(WEIGHTS), X)
    with pytest.warns(GradwatchWarning, match="'h' is passed more than once"):
        monitor.record(taps=taps)
    monitor.close()
    assert_blocks(keep.readings[0], ["h", "h@2"])


def test_taps_that_would_have_one_path_have_two(make_monitor):
    monitor, keep = make_monitor()

    def loss(w, x):
        names = ["h", "h@2", "h"]
        return sum(jnp.sum(gradwatch.tap(i * (x @ w), n)) for i, n in enumerate(names, 1))

    weights, x = np.float32([[1.0, 2.0]]), np.float32([[3.0]])
    _, taps = gradwatch.with_taps(jax.grad(loss))(jnp.asarray(weights), x)
    with pytest.warns(GradwatchWarning, match="'h' is passed more than once"):
        monitor.record(taps=taps)
    monitor.record(outputs={"h": x}, taps=taps)
    monitor.close()
    sums = [
        {
            site.path: r.statistic("sum")[i]
            for i, site in enumerate(r.sites)
            if site.kind is Kind.OUTPUT
        }
        for r in keep.readings
    ]
    assert sums[0] == {"h": 9.0, "h@2": 18.0, "h@2 (2)": 27.0}
    assert sums[1] == {"h": 3.0, "h (tap)": 9.0, "h@2": 18.0, "h (tap)@2": 27.0}


def test_a_branch_that_is_not_taken_has_no_elements(make_monitor):
    monitor, keep = make_monitor()

    def loss(w, x):
        branches = [lambda: gradwatch.tap(x @ w, "left"), lambda: gradwatch.tap(x - w, "right")]
        return jnp.sum(jax.lax.cond(x.sum() > 1e9, *branches))

    _, taps = gradwatch.with_taps(jax.grad(loss))(jnp.asarray(WEIGHTS[0]), jnp.asarray(WEIGHTS[1]))
    monitor.record(taps=taps)
    monitor.close()
    (reading,) = keep.readings
    counts = {site.path: reading.summary[i].count for i, site in enumerate(reading.sites)}
    assert counts == {"left": 0, "right": WEIGHTS[1].size}


def test_scans_in_scans_count_both_and_long_ones_are_merged(make_monitor):
    monitor, keep = make_monitor()

    def loss(x):
        def inner(h, _):
            return gradwatch.tap(h * 0.5, "inner"), None

        def outer(h, _):
            return jax.lax.scan(inner, h, None, length=2)[0], None

        h = jax.lax.scan(outer, x, None, length=3)[0]
        long = jax.lax.scan(
            lambda h, _: (gradwatch.tap(h + 1.0, "long"), None), h, None, length=300
        )
        return jnp.sum(long[0])

    _, taps = jax.jit(gradwatch.with_taps(jax.grad(loss)))(jnp.asarray(X))
    monitor.record(taps=taps)
    monitor.close()
    x = X.astype("f8")
    nested = {f"inner/{i}/{j}": x * 0.5 ** (2 * i + j + 1) for i in range(3) for j in range(2)}
    long = np.stack([x / 64 + i for i in range(1, 301)])
    assert_measured(keep.readings[0], Kind.OUTPUT, {**nested, "long": long})
    slopes = {path: np.full_like(x, 0.5 ** (5 - k)) for k, path in enumerate(nested)}
    expected = {**slopes, "long": np.ones((300, *x.shape))}
    assert_measured(keep.readings[0], Kind.OUTPUT_GRADIENT, expected)


def vmapped(x):
    return jax.vmap(lambda row: gradwatch.tap(row * 2, "bad"))(x)


def looping(x):
    return jax.lax.while_loop(lambda h: h.sum() > 1e9, lambda h: gradwatch.tap(h * 2, "bad"), x)


def with_own_rule(x):
    function = jax.custom_vjp(lambda x: gradwatch.tap(x, "bad"))
    function.defvjp(lambda x: (x, None), lambda _, g: (g,))
    return function(x)


def of_whole_numbers(x):
    return gradwatch.tap(x.astype(int), "bad").astype(x.dtype)


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (vmapped, "inside jax.vmap.* Put the tap outside of the function that is mapped"),
        (looping, "inside a while loop.* use jax.lax.scan"),
        (with_own_rule, "inside of 'custom_vjp_call.* Put the tap outside"),
        (of_whole_numbers, "taps measure arrays of floats. Received: dtype=int32"),
    ],
)
def test_what_cannot_be_carried_out_is_told_and_the_result_is_the_same(
    make_monitor, function, remedy
):
    monitor, keep = make_monitor()
    result, taps = jax.jit(gradwatch.with_taps(function))(jnp.asarray(X))
    with pytest.warns(GradwatchWarning, match=f"tap 'bad' is not recorded: .*{remedy}"):
        monitor.record(taps=taps, gradients=[result])
    monitor.close()
    np.testing.assert_array_equal(result, function(jnp.asarray(X)))
    assert paths(keep.readings[0], Kind.OUTPUT) == []


def test_a_tap_outside_of_a_watched_step_compiles_to_nothing():
    def program(loss):
        return jax.jit(jax.value_and_grad(loss)).lower(WEIGHTS, X).compile()

    plain, tapped = program(scanned(lambda h, w: jnp.tanh(h @ w))), program(scanned(block))
    sizes = [each.memory_analysis().temp_size_in_bytes for each in (plain, tapped)]
    assert sizes[0] == sizes[1]
    costs = [each.cost_analysis()["flops"] for each in (plain, tapped)]
    assert costs[0] == costs[1]


def test_memory_of_a_watched_step_grows_by_less_than_a_hundredth():
    def residual(h, weights):
        wide = jnp.tanh(h @ weights[0])
        return gradwatch.tap(h + wide @ weights[1], "h")

    weights = jnp.zeros((BLOCKS, 128, 512)), jnp.zeros((BLOCKS, 512, 128))
    x = jnp.zeros((1024, 128))
    own = jax.jit(jax.value_and_grad(scanned(residual))).lower(weights, x).compile()
    watched = gradwatch.with_taps(jax.value_and_grad(scanned(residual)))
    measured = jax.jit(watched).lower(weights, x).compile()
    before, after = (each.memory_analysis().temp_size_in_bytes for each in (own, measured))
    assert after < 1.01 * before


@pytest.mark.skipif(jax.__version_info__ < (0, 5, 1), reason="Flax scans from JAX 0.5.1 on")
def test_flax_scans_blocks_with_taps(make_monitor):
    nn = pytest.importorskip("flax.linen")

    class Block(nn.Module):
        @nn.compact
        def __call__(self, h, _):
            h = nn.Dense(6, use_bias=False)(h)
            return gradwatch.tap(jnp.tanh(h), "h"), None

    class Blocks(nn.Module):
        @nn.compact
        def __call__(self, x):
            axes, rngs = {"params": 0}, {"params": True}
            scan = nn.scan(Block, variable_axes=axes, split_rngs=rngs, length=BLOCKS)
            return scan()(x, None)[0]

    model = Blocks()
    params = model.init(jax.random.key(0), X)
    (kernel,) = jax.tree.leaves(params)
    params = jax.tree.unflatten(jax.tree.structure(params), [WEIGHTS.reshape(kernel.shape)])
    monitor, keep = make_monitor()
    step = compiled_step(monitor, lambda params, x: jnp.mean(model.apply(params, x) ** 2))
    monitor.record(step(params, X)[-1])
    monitor.close()
    assert_blocks(keep.readings[0], PATHS)


def test_equinox_scans_stacked_layers_with_taps(make_monitor):
    eqx = pytest.importorskip("equinox")

    class Block(eqx.Module):
        kernel: jax.Array

        def __call__(self, h):
            return gradwatch.tap(jnp.tanh(h @ self.kernel), "h")

    def loss(model, x):
        arrays, static = eqx.partition(model, eqx.is_array)
        return scanned(lambda h, part: eqx.combine(part, static)(h))(arrays, x)

    @eqx.filter_jit
    def step(model, x):
        (_, gradients), taps = gradwatch.with_taps(eqx.filter_value_and_grad(loss))(model, x)
        return monitor.measure(gradients=gradients, taps=taps)

    monitor, keep = make_monitor()
    monitor.record(step(Block(jnp.asarray(WEIGHTS)), X))
    monitor.close()
    assert_blocks(keep.readings[0], PATHS)


def test_nnx_modules_are_split_and_one_that_is_not_is_told(make_monitor):
    nnx = pytest.importorskip("flax.nnx")

    class Block(nnx.Module):
        def __init__(self):
            self.kernel = nnx.Param(jnp.asarray(WEIGHTS[0]))

        def __call__(self, h):
            return gradwatch.tap(jnp.tanh(h @ self.kernel[...]), "h")

    def loss(model, x):
        return jnp.mean(model(x) ** 2)

    def split_loss(state, x):
        return loss(nnx.merge(graphdef, state), x)

    monitor, keep = make_monitor()
    model = Block()
    graphdef, state = nnx.split(model)
    gradients, taps = gradwatch.with_taps(jax.grad(split_loss))(state, jnp.asarray(X))
    own, none = gradwatch.with_taps(nnx.grad(loss))(model, jnp.asarray(X))
    monitor.record(taps=taps)
    with pytest.warns(GradwatchWarning, match=r"nnx.split\(model\)"):
        monitor.record(taps=none, gradients=jax.tree.leaves(own))
    monitor.close()
    assert_blocks(keep.readings[0], ["h"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), own, gradients)


def test_taps_of_arrays_that_are_not_arguments_and_unused_ones_are_told(make_monitor):
    monitor, _ = make_monitor()

    def unused(x):
        gradwatch.tap(x * 2, "unused")
        return jnp.sum(x)

    _, taps = gradwatch.with_taps(lambda: unused(jnp.ones(3)))()
    with pytest.warns(GradwatchWarning, match="'unused' is not recorded: .* arrays as arguments"):
        monitor.record(taps=taps)


def test_arrays_of_numpy_are_given_to_the_function_as_they_are():
    mask, returned = np.array([1, 0, 1]), np.arange(2)

    def loss(w, mask):
        chosen = gradwatch.tap(w[np.flatnonzero(mask)], "chosen")
        return chosen.sum(), returned

    step = gradwatch.with_taps(jax.grad(loss, has_aux=True))
    (gradient, aux), taps = step(jnp.ones(3), mask)
    np.testing.assert_array_equal(gradient, [1, 0, 1])
    assert aux is returned
    assert [site.path for sites in taps.sites for site in sites] == ["chosen", "chosen"]


def test_taps_of_several_steps_raise(make_monitor):
    monitor, _ = make_monitor()

    def step(x, _):
        return gradwatch.with_taps(lambda x: gradwatch.tap(x * 2, "x"))(x)

    _, taps = jax.lax.scan(step, jnp.ones(3), None, length=2)
    with pytest.raises(ValueError, match=r"those of one step.* Received: 'x' of shape \(2, 10\)"):
        monitor.record(taps=taps)


def test_an_error_of_the_function_is_raised_as_it_is():
    def failing(x):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        gradwatch.with_taps(jax.grad(failing))(jnp.ones(3))


def test_what_is_no_name_no_function_and_no_taps_raises(make_monitor):
    monitor, _ = make_monitor()
    with pytest.raises(TypeError, match=r"name of a tap .* Received: 3"):
        gradwatch.tap(X, 3)
    with pytest.raises(TypeError, match=r"with_taps.* Received: float"):
        gradwatch.with_taps(1.0)
    with pytest.raises(TypeError, match=r"taps= takes what gradwatch.with_taps gives"):
        monitor.record(taps={"h": X})
    with pytest.raises(RuntimeError, match="inside a compiled function"):
        jax.jit(lambda x: monitor.record(taps=gradwatch.with_taps(vmapped)(x)[1], loss=x.sum()))(X)
    assert truth()[0][0].dtype == np.float64
