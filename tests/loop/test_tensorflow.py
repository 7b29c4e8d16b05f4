"""TensorFlow: tapes, and measuring inside `tf.function`."""

import numpy as np
import pytest
import tensorflow as tf

import gradwatch
from gradwatch import Kind
from tests.loop.support import Line, assert_measured, assert_no_elements, paths

PER_STEP = [gradwatch.gradients(histogram=True), gradwatch.weights()]
COMPILED = [pytest.param(False, id="graph"), pytest.param(True, id="xla")]


class Net:
    """Variables of TensorFlow's own, and the loss that `Line` knows by heart."""

    def __init__(self, line):
        self.kernel = tf.Variable(line.kernel, name="dense/kernel")
        self.bias = tf.Variable(line.bias, name="dense/bias")
        self.variables = [self.kernel, self.bias]

    def loss(self, x, y):
        return tf.reduce_mean((x @ self.kernel + self.bias - y) ** 2)

    def apply(self, gradients):
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.assign_sub(0.1 * gradient)


def truth(line, net, x, y):
    """The gradients and the loss at the variables' present values."""
    kernel, bias = (v.numpy() for v in net.variables)
    slopes = line.gradients(kernel, bias, x, y)
    return dict(zip(["dense/kernel", "dense/bias"], slopes, strict=True)), line.loss(
        kernel, bias, x, y
    )


def test_a_tape_records_its_gradient_by_itself(make_monitor):
    line = Line()
    net = Net(line)
    monitor, keep = make_monitor(watch=PER_STEP)
    expected = []
    for _ in range(3):
        x, y = line.batch()
        expected.append((truth(line, net, x, y), [v.numpy() for v in net.variables]))
        with monitor.tape() as tape:
            loss = net.loss(x, y)
        net.apply(tape.gradient(loss, net.variables))
    monitor.close()
    assert keep.steps == [1, 2, 3]
    for reading, ((gradients, loss), (kernel, bias)) in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, gradients)
        assert_measured(reading, Kind.WEIGHT, {"dense/kernel": kernel, "dense/bias": bias})
        assert reading.losses()["loss"] == pytest.approx(loss, rel=1e-5)
    assert "before the step's update" in keep.runs[0].meaning[Kind.WEIGHT]


def test_a_tape_returns_what_tensorflows_own_does(make_monitor):
    net = Net(Line())
    monitor, _ = make_monitor()
    sources = {"a": net.kernel, "b": [net.bias, tf.Variable(1.0, name="unused")]}
    x, y = Line().batch()
    with tf.GradientTape() as plain:
        loss = net.loss(x, y)
    expected = plain.gradient(loss, sources)
    with monitor.tape() as tape:
        loss = net.loss(x, y)
    found = tape.gradient(loss, sources)
    monitor.close()
    assert isinstance(tape, tf.GradientTape)
    tf.nest.assert_same_structure(expected, found)
    np.testing.assert_array_equal(expected["a"], found["a"])
    np.testing.assert_array_equal(expected["b"][0], found["b"][0])
    assert found["b"][1] is None


def test_a_source_that_the_loss_does_not_touch_has_no_elements(make_monitor):
    net, unused = Net(Line()), tf.Variable([1.0, 2.0], name="unused")
    monitor, keep = make_monitor()
    x, y = Line().batch()
    with monitor.tape() as tape:
        loss = net.loss(x, y)
    tape.gradient(loss, [*net.variables, unused])
    monitor.close()
    assert_no_elements(keep.readings[0], Kind.GRADIENT, "unused")


def test_a_persistent_tape_is_one_step_and_tells_its_calls_apart(make_monitor):
    net = Net(Line())
    monitor, keep = make_monitor(watch=gradwatch.gradients())
    x, y = Line().batch()
    for _ in range(2):
        with monitor.tape(persistent=True) as tape:
            loss = net.loss(x, y)
            twice = 2.0 * loss
        first = tape.gradient(loss, net.variables)
        second = tape.gradient(twice, net.variables)
        named = tape.gradient(twice, net.bias, group="again")
        del tape
    monitor.close()
    assert keep.steps == [1, 1, 1, 2, 2, 2]
    one, two, three = keep.readings[:3]
    keys = ["dense/kernel", "dense/bias"]
    assert_measured(one, Kind.GRADIENT, dict(zip(keys, map(np.asarray, first), strict=True)))
    calls = {f"call_2/{k}": np.asarray(g) for k, g in zip(keys, second, strict=True)}
    assert_measured(two, Kind.GRADIENT, calls)
    assert two.losses()["call_2/loss"] == pytest.approx(2 * one.losses()["loss"])
    assert_measured(three, Kind.GRADIENT, {"again/dense/bias": np.asarray(named)})


def test_a_gradient_of_inputs_is_not_a_step(make_monitor):
    net = Net(Line())
    monitor, keep = make_monitor(watch=gradwatch.gradients())
    x, y = map(tf.constant, Line().batch())
    with monitor.tape(persistent=True) as tape:
        tape.watch(x)
        loss = net.loss(x, y)
    assert tape.gradient(loss, x).shape == x.shape
    tape.gradient(loss, net.variables)
    monitor.close()
    assert keep.steps == [1]


def test_a_loss_that_is_no_scalar_is_recorded_as_the_sum_that_tensorflow_differentiates(
    make_monitor,
):
    w = tf.Variable([1.0, 2.0], name="w")
    monitor, keep = make_monitor()
    with monitor.tape() as tape:
        loss = w * w
    tape.gradient(loss, w)
    monitor.close()
    assert_measured(keep.readings[0], Kind.GRADIENT, {"w": [2.0, 4.0]})
    assert keep.readings[0].losses() == {"loss": 5.0}


def test_a_consumed_tape_says_what_to_do(make_monitor):
    net = Net(Line())
    monitor, _ = make_monitor()
    x, y = Line().batch()
    with monitor.tape() as tape:
        loss = net.loss(x, y)
    tape.gradient(loss, net.variables)
    with pytest.raises(RuntimeError, match=r"monitor\.tape\(persistent=True\)"):
        tape.gradient(loss, net.variables)
    monitor.close()


def test_a_tape_inside_a_function_is_refused_with_the_way_out(make_monitor):
    monitor, _ = make_monitor()

    @tf.function
    def step():
        with monitor.tape():
            pass

    with pytest.raises(RuntimeError, match=r"monitor\.measure"):
        step()


def test_recording_inside_a_function_is_refused_with_the_way_out(make_monitor):
    monitor, _ = make_monitor()
    net = Net(Line())

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = net.loss(x, y)
        monitor.record(gradients=tape.gradient(loss, net.variables), variables=net.variables)

    with pytest.raises(RuntimeError, match=r"monitor\.measure"):
        step(*Line().batch())


@pytest.mark.parametrize("jit_compile", COMPILED)
def test_a_compiled_step_is_measured_without_retracing_or_callbacks(make_monitor, jit_compile):
    line = Line()
    net = Net(line)
    monitor, keep = make_monitor(watch=[*PER_STEP, gradwatch.updates()])
    traces = 0

    @tf.function(jit_compile=jit_compile)
    def step(x, y):
        nonlocal traces
        traces += 1
        before = [tf.identity(v) for v in net.variables]
        with tf.GradientTape() as tape:
            loss = net.loss(x, y)
        gradients = tape.gradient(loss, net.variables)
        for variable, gradient in zip(net.variables, gradients):  # noqa: B905  (AutoGraph)
            variable.assign_sub(0.1 * gradient)
        return monitor.measure(
            gradients=gradients, parameters=net.variables, previous=before, loss=loss
        )

    expected = []
    for i in range(4):
        x, y = line.batch()
        before = [v.numpy() for v in net.variables]
        slopes = truth(line, net, x, y)
        readings = step(x, y)
        after = [v.numpy() for v in net.variables]
        expected.append((slopes, before, after))
        monitor.record(readings, step=10 * (i + 1))
    monitor.close()

    assert traces == 1
    operations = {op.type for op in _operations(step.get_concrete_function(x, y).graph)}
    assert not operations & {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
    if jit_compile:
        compiled = step.experimental_get_compiler_ir(x, y)(stage="hlo")
        assert "callback" not in compiled.lower()
    assert keep.steps == [10, 20, 30, 40]
    for reading, ((gradients, loss), before, after) in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, gradients)
        assert_measured(reading, Kind.WEIGHT, dict(zip(gradients, after, strict=True)))
        changes = [a.astype("f8") - b for a, b in zip(after, before, strict=True)]
        assert_measured(reading, Kind.UPDATE, dict(zip(gradients, changes, strict=True)), 1e-4)
        assert reading.losses()["loss"] == pytest.approx(loss, rel=1e-5)
        for i, site in enumerate(reading.sites):
            if site.kind is Kind.GRADIENT:
                assert reading.histogram(i).cells.sum() == gradients[site.path].size


def _operations(graph):
    yield from graph.get_operations()
    for function in graph._functions.values():
        inner = getattr(function, "graph", None)
        if inner is not None:
            yield from _operations(inner)


@pytest.mark.parametrize("jit_compile", [None, *COMPILED])
def test_training_is_bit_identical_with_and_without(make_monitor, jit_compile):
    def train(monitor):
        line = Line()
        net = Net(line)

        def step(x, y):
            with tf.GradientTape() as tape:
                loss = net.loss(x, y)
            gradients = tape.gradient(loss, net.variables)
            for variable, gradient in zip(net.variables, gradients):  # noqa: B905
                variable.assign_sub(0.1 * gradient)
            if monitor is None:
                return {}
            return monitor.measure(gradients=gradients, parameters=net.variables, loss=loss)

        if jit_compile is not None:
            step = tf.function(step, jit_compile=jit_compile)
        for i in range(5):
            readings = step(*line.batch())
            if monitor is not None:
                monitor.record(readings, step=i)
        return [v.numpy() for v in net.variables]

    monitor, keep = make_monitor()
    watched, alone = train(monitor), train(None)
    monitor.close()
    assert keep.steps == [0, 1, 2, 3, 4]
    for a, b in zip(watched, alone, strict=True):
        if jit_compile:  # XLA may fuse a measured step differently.
            np.testing.assert_allclose(a, b, rtol=1e-6)
        else:
            np.testing.assert_array_equal(a, b)


def test_the_sparse_gradient_of_an_embedding_is_measured_as_the_dense_one(make_monitor):
    table = tf.Variable(np.arange(12.0, dtype="f").reshape(6, 2), name="table")
    monitor, keep = make_monitor(watch=gradwatch.gradients(histogram=True))
    with monitor.tape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 3, 1]) * [[1.0], [2.0], [3.0]])
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    dense = np.zeros((6, 2))
    dense[1], dense[3] = 1.0 + 3.0, 2.0
    monitor.close()
    assert_measured(keep.readings[0], Kind.GRADIENT, {"table": dense})
    assert keep.readings[0].histogram(0).cells.sum() == 12


class Block(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[1.0, -2.0]])
        self.frozen = tf.Variable([3.0], trainable=False)


class Stack(tf.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(), Block()]
        self.head = {"out": tf.Variable([0.5])}


def test_a_module_gives_the_paths_of_its_attributes(make_monitor):
    module = Stack()
    monitor, keep = make_monitor()
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(v**2) for v in module.trainable_variables)
    gradients = tape.gradient(loss, module.trainable_variables)
    monitor.record(gradients=gradients, variables=module, loss=loss)
    monitor.close()
    (reading,) = keep.readings
    learned = {"blocks/0/w": [[2.0, -4.0]], "blocks/1/w": [[2.0, -4.0]], "head/out": [1.0]}
    assert_measured(reading, Kind.GRADIENT, learned)
    weights = {path: np.asarray(slope) / 2 for path, slope in learned.items()}
    frozen = {"blocks/0/frozen": [3.0], "blocks/1/frozen": [3.0]}
    assert_measured(reading, Kind.WEIGHT, weights | frozen)


def test_variables_of_one_name_are_told_apart(make_monitor):
    variables = [tf.Variable([1.0]), tf.Variable([2.0]), tf.Variable([3.0], name="layer/w")]
    monitor, keep = make_monitor()
    monitor.record(gradients=[v.value() for v in variables], variables=variables)
    monitor.close()
    assert paths(keep.readings[0], Kind.GRADIENT) == ["Variable", "Variable#2", "layer/w"]


def test_a_legacy_keras_model_is_recorded_under_its_own_names(make_monitor):
    import tf_keras

    layer = tf_keras.layers.Dense(2, name="dense")
    model = tf_keras.Sequential([tf_keras.Input((3,)), layer, tf_keras.layers.BatchNormalization()])
    line = Line()
    layer.set_weights([line.kernel, line.bias])
    monitor, keep = make_monitor(watch=PER_STEP)
    x, y = line.batch()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((layer(x) - y) ** 2)
    gradients = tape.gradient(loss, layer.trainable_variables)
    monitor.record(gradients=gradients, variables=layer.trainable_variables, loss=loss)
    monitor.record(gradients=[*gradients, None, None], variables=model)
    with monitor.tape() as tape:
        loss = tf.reduce_mean((layer(x) - y) ** 2)
    tape.gradient(loss, model.trainable_variables)
    monitor.close()
    kernel, bias = line.gradients(line.kernel, line.bias, x, y)
    slopes = {"dense/kernel": kernel, "dense/bias": bias}
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)
    for reading in keep.readings[1:]:
        assert_no_elements(reading, Kind.GRADIENT, "batch_normalization/gamma")
    assert "batch_normalization/moving_mean" in paths(keep.readings[1], Kind.WEIGHT)


def test_a_histogram_flag_that_the_step_computes_is_obeyed(make_monitor):
    w = tf.Variable([1.0, 2.0], name="w")
    monitor, _ = make_monitor(watch=gradwatch.gradients(histogram=True))

    @tf.function
    def step(flag):
        return monitor.measure(gradients=[w * 1.0], variables=[w], histograms=flag)

    assert int(tf.reduce_sum(step(tf.constant(True))["cells"])) == 2
    assert int(tf.reduce_sum(step(tf.constant(False))["cells"])) == 0
    monitor.close()
