"""Taps in eager TensorFlow and inside of tf.function, and in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import gradwatch
from gradwatch import GradwatchWarning, Kind
from tests.loop.support import assert_measured, paths
from tests.loop.tapped import WEIGHTS, X, assert_blocks

PATHS = ["h/0", "h/1", "h/2"]


def loss_and_gradients(x, variables):
    with tf.GradientTape() as tape:
        for i, w in enumerate(variables):
            x = gradwatch.tap(tf.tanh(x @ w), f"h/{i}")
        loss = tf.reduce_mean(x**2)
    return loss, tape.gradient(loss, variables)


@pytest.mark.parametrize("options", [None, {}, {"jit_compile": True}])
def test_taps_are_recorded_as_the_truth(make_monitor, options):
    monitor, keep = make_monitor()
    variables = [tf.Variable(w) for w in WEIGHTS[:3]]

    def step(x):
        (loss, gradients), taps = gradwatch.with_taps(loss_and_gradients)(x, variables)
        return gradients, monitor.measure(gradients=gradients, loss=loss, taps=taps)

    run = step if options is None else tf.function(step, **options)
    gradients, readings = run(tf.constant(X))
    monitor.record(readings)
    monitor.close()
    assert_blocks(keep.readings[0], PATHS)
    _, expected = loss_and_gradients(tf.constant(X), variables)
    for a, b in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)


def test_a_tap_inside_of_a_loop_is_told(make_monitor):
    monitor, keep = make_monitor()

    @tf.function
    def step(x):
        def body(i, h):
            return i + 1, gradwatch.tap(h * 2.0, "bad")

        def loop(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                _, h = tf.while_loop(lambda i, h: i < 3, body, (0, x))
                h = gradwatch.tap(h + 0.0, "good")
            return h, tape.gradient(h, x)

        (h, gradient), taps = gradwatch.with_taps(loop)(x)
        return h, monitor.measure(taps=taps, gradients=[gradient])

    with pytest.warns(GradwatchWarning, match="'bad' is not recorded: it is inside a loop"):
        h, readings = step(tf.constant(X))
    monitor.record(readings)
    monitor.close()
    np.testing.assert_array_equal(h, X * 8)
    assert_measured(keep.readings[0], Kind.OUTPUT, {"good": X * 8})


def test_numpy_arrays_have_no_gradient_and_whole_numbers_are_told(make_monitor):
    monitor, keep = make_monitor()

    def step(x):
        gradwatch.tap(x.astype(int), "bad")
        return gradwatch.tap(x, "x")

    _, taps = gradwatch.with_taps(step)(X)
    with pytest.warns(GradwatchWarning, match="'bad' is not recorded: .* Received: dtype=int64"):
        monitor.record(taps=taps)
    monitor.close()
    assert_measured(keep.readings[0], Kind.OUTPUT, {"x": X})
    assert paths(keep.readings[0], Kind.OUTPUT_GRADIENT) == []
