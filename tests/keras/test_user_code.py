"""Code of the user's is called as often as without the monitor, and draws the same numbers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import GradwatchWarning, Kind
from gradwatch.capture.keras.ahead import compiled_ahead
from gradwatch.core import schedule
from tests.keras.support import normal, seed_everything
from tests.keras.support_behaviour import KERAS_AND_NUMPY_2, copied
from tests.keras.ways import BACKEND, EAGERLY

pytestmark = pytest.mark.filterwarnings(KERAS_AND_NUMPY_2)


class Counted(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, step: Any) -> Any:
        self.calls += 1
        return 0.1


class Clipped(keras.optimizers.SGD):
    """An optimizer that counts how often it clips."""

    clippings = 0

    def _clip_gradients(self, grads: Any) -> Any:
        self.clippings += 1
        return super()._clip_gradients(grads)


def fit(model: Any, *callbacks: Any) -> Any:
    x, y = normal(24, 4), normal(24, 1, seed=1)
    return model.fit(x, y, batch_size=4, verbose=0, shuffle=False, callbacks=list(callbacks))


def test_a_schedule_of_the_users_is_asked_no_more_often(make_monitor: Any) -> None:
    def calls(*callbacks: Any) -> int:
        seed_everything()
        schedule = Counted()
        model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
        model.compile(keras.optimizers.SGD(schedule), "mse", **EAGERLY)
        fit(model, *callbacks)
        return schedule.calls

    monitor, keep = make_monitor(every=1)
    assert calls(monitor) == calls()
    assert keep.series(Kind.SCALAR, "learning_rate", "mean") == pytest.approx([0.1] * 6)


def test_a_clipping_of_the_users_is_called_no_more_often(make_monitor: Any) -> None:
    def clippings(*callbacks: Any) -> int:
        seed_everything()
        optimizer = Clipped(0.1)
        model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
        model.compile(optimizer, "mse", **EAGERLY)
        fit(model, *callbacks)
        return optimizer.clippings

    monitor, keep = make_monitor(every=1, watch=gradwatch.applied_gradients())
    assert clippings(monitor) == clippings()
    assert keep.steps


class Noise(layers.Layer):
    """Noise by an operation whose state is inside of the compiled step."""

    def call(self, x: Any) -> Any:
        import tensorflow as tf

        return x + tf.random.normal(tf.shape(x), stddev=0.1)


def train_with_noise(*callbacks: Any) -> list[np.ndarray]:
    seed_everything()
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), Noise(), layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    fit(model, *callbacks)
    return copied(model.weights)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only TensorFlow keeps such a state")
def test_random_numbers_with_a_state_in_the_step_are_the_same_from_the_first_step_on(
    make_monitor: Any,
) -> None:
    bare = train_with_noise()
    monitor, keep = make_monitor(watch=gradwatch.gradients(every=schedule.at(1, 3, 5)))
    np.testing.assert_equal(train_with_noise(monitor), bare)
    assert keep.steps == [1, 3, 5]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only TensorFlow keeps such a state")
def test_they_are_the_same_where_the_measured_step_would_be_compiled_on_a_thread(
    make_monitor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = train_with_noise()
    monkeypatch.setattr(compiled_ahead, "QUICK", dict.fromkeys(compiled_ahead.QUICK, -1.0))
    monitor, keep = make_monitor()
    np.testing.assert_equal(train_with_noise(monitor), bare)
    assert keep.steps[0] == 1


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only TensorFlow keeps such a state")
def test_later_they_are_refused_with_the_reason(make_monitor: Any) -> None:
    bare = train_with_noise()
    monitor, keep = make_monitor(every=3)
    with pytest.warns(GradwatchWarning, match=r"draws random numbers by operations of tf\.random"):
        np.testing.assert_equal(train_with_noise(monitor), bare)
    assert keep.steps == []
