"""JAX: measuring inside `jax.jit`, over any tree of parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gradwatch
from gradwatch import Kind, Site
from tests.loop.support import Line, assert_measured, paths

KEYS = ("net/dense/kernel", "net/dense/bias")


def params_of(line):
    return {"net": {"dense": {"kernel": jnp.asarray(line.kernel), "bias": jnp.asarray(line.bias)}}}


def loss_of(params, x, y):
    dense = params["net"]["dense"]
    return jnp.mean((x @ dense["kernel"] + dense["bias"] - y) ** 2)


def arrays(params):
    dense = params["net"]["dense"]
    return np.asarray(dense["kernel"]), np.asarray(dense["bias"])


def make_step(optimizer, monitor, traces):
    @jax.jit
    def step(params, state, x, y):
        traces.append(1)
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        after = optax.apply_updates(params, updates)
        if monitor is None:
            return after, state, {}
        readings = monitor.measure(gradients=grads, parameters=after, previous=params, loss=loss)
        return after, state, readings

    return step


def test_a_jitted_step_of_a_fresh_process_is_traced_once(run_script):
    done = run_script(
        """
        import jax, jax.numpy as jnp
        import gradwatch

        monitor = gradwatch.Monitor(every=1, sinks=[], diagnose=False)
        traces = []

        @jax.jit
        def step(weight):
            traces.append(1)
            gradient = jax.grad(lambda w: (w**2).sum())(weight)
            after = weight - 0.1 * gradient
            return after, monitor.measure(gradients=[gradient], parameters=[after])

        weight = jnp.ones(3)
        for _ in range(3):
            weight, readings = step(weight)
            monitor.record(readings)
        monitor.close()
        print(len(traces))
        """
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr


def test_a_jitted_step_is_measured_without_retracing_or_callbacks(make_monitor):
    line = Line()
    params, optimizer, traces = params_of(line), optax.adam(0.1), []
    state = optimizer.init(params)
    monitor, keep = make_monitor(
        watch=[gradwatch.gradients(histogram=True), gradwatch.weights(), gradwatch.updates()]
    )
    step = make_step(optimizer, monitor, traces)
    expected = []
    for i in range(4):
        x, y = line.batch()
        before = arrays(params)
        truth = line.gradients(*before, x, y), line.loss(*before, x, y)
        params, state, readings = step(params, state, x, y)
        expected.append((*truth, before, arrays(params)))
        monitor.record(readings, step=i + 1)
    monitor.close()

    assert len(traces) == 1
    text = step.lower(params, state, x, y).as_text()
    assert "callback" not in text
    assert keep.steps == [1, 2, 3, 4]
    for reading, (slopes, loss, before, after) in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, dict(zip(KEYS, slopes, strict=True)))
        assert_measured(reading, Kind.WEIGHT, dict(zip(KEYS, after, strict=True)))
        changes = [a.astype("f8") - b for a, b in zip(after, before, strict=True)]
        assert_measured(reading, Kind.UPDATE, dict(zip(KEYS, changes, strict=True)), 1e-4)
        assert reading.losses()["loss"] == pytest.approx(loss, rel=1e-5)
        counted = {reading.sites[i]: cells.sum() for i, cells in reading.cells.items()}
        assert counted == {
            Site(Kind.GRADIENT, k): s.size for k, s in zip(KEYS, slopes, strict=True)
        }


def test_training_agrees_with_and_without(make_monitor):
    def train(monitor):
        line = Line()
        params, optimizer = params_of(line), optax.sgd(0.1)
        state = optimizer.init(params)
        step = make_step(optimizer, monitor, [])
        for i in range(5):
            params, state, readings = step(params, state, *line.batch())
            if monitor is not None:
                monitor.record(readings, step=i + 1)
        return arrays(params)

    monitor, _ = make_monitor()
    for a, b in zip(train(monitor), train(None), strict=True):
        # Under XLA, which may fuse a measured step differently.
        np.testing.assert_allclose(a, b, rtol=1e-6)
    monitor.close()


def test_eager_training_is_bit_identical_with_and_without(make_monitor):
    def train(monitor):
        line = Line()
        params = params_of(line)
        for _ in range(3):
            x, y = line.batch()
            loss, grads = jax.value_and_grad(loss_of)(params, x, y)
            params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
            if monitor is not None:
                monitor.record(gradients=grads, variables=params, loss=loss)
        return arrays(params)

    monitor, keep = make_monitor()
    for a, b in zip(train(monitor), train(None), strict=True):
        np.testing.assert_array_equal(a, b)
    monitor.close()
    assert keep.steps == [1, 2, 3]


def test_two_compiled_steps_are_chosen_between_with_due(make_monitor):
    line = Line()
    params, optimizer, state = params_of(line), optax.sgd(0.1), None
    state = optimizer.init(params)
    monitor, keep = make_monitor(watch=gradwatch.gradients(every=3))
    measured, plain = make_step(optimizer, monitor, []), make_step(optimizer, None, [])
    for step in range(1, 10):
        chosen = measured if monitor.due(step) else plain
        params, state, readings = chosen(params, state, *line.batch())
        monitor.record(readings, step=step)
    monitor.close()
    assert keep.steps == [3, 6, 9]


def test_recording_drops_what_is_not_due(make_monitor):
    line = Line()
    params, optimizer = params_of(line), optax.sgd(0.1)
    monitor, keep = make_monitor(
        watch=[gradwatch.gradients(every=2, histogram=4), gradwatch.weights("kernel", every=4)]
    )
    step = make_step(optimizer, monitor, [])
    state = optimizer.init(params)
    for i in range(1, 5):
        params, state, readings = step(params, state, *line.batch())
        monitor.record(readings, step=i)
    monitor.close()
    measured = [reading for reading in keep.readings if paths(reading, Kind.GRADIENT)]
    assert [reading.step for reading in measured] == [2, 4]
    two, four = measured
    assert paths(two, Kind.WEIGHT) == []
    assert not two.cells
    assert paths(four, Kind.WEIGHT) == ["net/dense/kernel"]
    assert len(four.cells) == 2


def test_a_histogram_flag_that_the_step_computes_is_obeyed(make_monitor):
    monitor, _ = make_monitor(watch=gradwatch.gradients(histogram=True))

    @jax.jit
    def step(grads, flag):
        return monitor.measure(gradients=grads, histograms=flag)

    grads = {"w": jnp.ones(3)}
    assert int(np.asarray(step(grads, True)["cells"]).sum()) == 3
    assert int(np.asarray(step(grads, False)["cells"]).sum()) == 0


def test_probes_look_at_the_values_of_the_step(make_monitor):
    kernel = jnp.asarray(Line().kernel)
    monitor, keep = make_monitor(watch=gradwatch.spectral_norms(every=2))

    @jax.jit
    def step(w):
        return monitor.measure(gradients={"w": w}, parameters={"w": w + 1.0})

    for i in (1, 2):
        monitor.record(step(kernel), step=i)
    monitor.close()
    (reading,) = keep.readings
    truth = np.linalg.norm(Line().kernel.astype("f8") + 1.0, 2)
    assert reading.numbers(Kind.SPECTRAL_NORM)["w"] == pytest.approx(truth, rel=1e-3)


def test_names_are_the_paths_in_the_tree(make_monitor):
    from typing import NamedTuple

    class Pair(NamedTuple):
        first: object
        second: object

    one = jnp.ones(2)
    tree = {"params": {"Dense_0": {"kernel": one}}, "rest": [one, Pair(one, (one,))]}
    monitor, keep = make_monitor()
    monitor.record(gradients=tree, parameters=tree)
    monitor.close()
    assert paths(keep.readings[0], Kind.GRADIENT) == [
        "params/Dense_0/kernel",
        "rest/0",
        "rest/1/first",
        "rest/1/second/0",
    ]


def test_flax_linen_parameters_have_their_names(make_monitor):
    nn = pytest.importorskip("flax.linen")
    model = nn.Dense(2)
    x = np.ones((4, 3), "float32")
    params = model.init(jax.random.PRNGKey(0), x)
    monitor, keep = make_monitor()

    @jax.jit
    def step(params, x):
        grads = jax.grad(lambda p: jnp.sum(model.apply(p, x) ** 2))(params)
        return monitor.measure(gradients=grads, parameters=params)

    monitor.record(step(params, x))
    monitor.close()
    kernel, bias = (np.asarray(params["params"][k], np.float64) for k in ("kernel", "bias"))
    error = 2 * (x @ kernel + bias)
    slopes = {"params/kernel": x.T @ error, "params/bias": error.sum(0)}
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)


def test_flax_nnx_state_has_names_without_the_attribute_of_the_array(make_monitor):
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    grads = nnx.grad(lambda m: jnp.sum(m(jnp.ones((1, 3)))))(model)
    monitor, keep = make_monitor()
    monitor.record(gradients=grads, parameters=nnx.state(model, nnx.Param))
    monitor.close()
    assert sorted(paths(keep.readings[0], Kind.GRADIENT)) == ["bias", "kernel"]
    assert_measured(
        keep.readings[0], Kind.GRADIENT, {"kernel": np.ones((3, 2)), "bias": np.ones(2)}
    )


def test_an_equinox_module_is_measured_without_what_is_no_array(make_monitor):
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.PRNGKey(0))
    x = jnp.ones(3)
    monitor, keep = make_monitor()

    @eqx.filter_jit
    def step(model, x):
        grads = eqx.filter_grad(lambda m: jnp.sum(m(x)))(model)
        return grads, monitor.measure(gradients=grads, parameters=model)

    grads, readings = step(model, x)
    monitor.record(readings)
    monitor.close()
    layers = {
        f"layers/{i}/{name}": np.asarray(getattr(grads.layers[i], name))
        for i in (0, 1)
        for name in ("weight", "bias")
    }
    assert_measured(keep.readings[0], Kind.GRADIENT, layers)
    assert set(paths(keep.readings[0], Kind.WEIGHT)) == set(layers)


def test_recording_inside_jit_is_refused_with_the_way_out(make_monitor):
    monitor, _ = make_monitor()

    @jax.jit
    def step(w):
        monitor.record(gradients={"w": w}, variables={"w": w})
        return w

    with pytest.raises(RuntimeError, match=r"monitor\.measure"):
        step(jnp.ones(2))

    @jax.jit
    def inside(w):
        monitor.record(monitor.measure(gradients={"w": w}))
        return w

    with pytest.raises(RuntimeError, match="outside"):
        inside(jnp.ones(2))


def test_readings_of_a_scan_are_refused_as_a_stack(make_monitor):
    monitor, keep = make_monitor()

    def body(w, _):
        return w, monitor.measure(gradients={"w": w})

    _, readings = jax.lax.scan(body, jnp.ones(2), length=3)
    with pytest.raises(ValueError, match="one by one"):
        monitor.record(readings)
    for i in range(3):
        monitor.record(jax.tree.map(lambda a, i=i: a[i], readings), step=i + 1)
    monitor.close()
    assert keep.steps == [1, 2, 3]


def test_readings_of_another_monitor_are_not_mistaken_for_ones_own(make_monitor, tmp_path):
    monitor, keep = make_monitor()
    other = gradwatch.Monitor(tmp_path / "other", every=1, sinks=[])
    monitor.record(monitor.measure(gradients={"w": jnp.ones(2)}))
    monitor.record(other.measure(gradients={"w": jnp.ones(2)}))
    with pytest.warns(gradwatch.GradwatchWarning) as said:
        monitor.close()
    assert any("another monitor" in str(w.message) for w in said)
    assert keep.steps == [1]


def test_random_keys_and_complex_arrays_are_left_out(make_monitor):
    tree = {"w": jnp.ones(2), "key": jax.random.key(0), "z": jnp.ones(2, jnp.complex64)}
    monitor, keep = make_monitor()
    with pytest.warns(gradwatch.GradwatchWarning, match="the numbers are complex: z\\."):
        monitor.record(variables=tree)
    monitor.close()
    assert paths(keep.readings[0], Kind.WEIGHT) == ["w"]
