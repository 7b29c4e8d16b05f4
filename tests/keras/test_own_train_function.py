"""Models that make their train function in a way of their own."""

import keras
import numpy as np
import pytest

import gradwatch
from tests.keras.support import Keep, normal

X, Y = normal(8, 3), normal(8, 2)


def trained(model_class, callbacks):
    keras.utils.set_random_seed(3)
    model = model_class([keras.Input((3,)), keras.layers.Dense(2)], name="net")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(X, Y, batch_size=4, epochs=2, verbose=0, callbacks=callbacks)
    return [keras.ops.convert_to_numpy(v.value) for v in model.weights]


class Unforced(keras.Sequential):
    """It takes no `force`, as was usual once."""

    def make_train_function(self):
        return super().make_train_function()


class Counting(keras.Sequential):
    """Its train function counts its calls."""

    calls = 0

    def make_train_function(self, force=False):
        super().make_train_function(force)
        function = self.train_function

        def counted(*args):
            type(self).calls += 1
            return function(*args)

        self.train_function = counted


def test_a_train_function_that_cannot_be_made_again_is_left_alone_and_that_is_said(tmp_path):
    keep = Keep()
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[keep])
    with pytest.warns(gradwatch.GradwatchWarning, match=r"force") as said:
        watched = trained(Unforced, [monitor])
    ours = [w for w in said if issubclass(w.category, gradwatch.GradwatchWarning)]
    assert len(ours) == 1
    assert keep.readings == []
    for a, b in zip(watched, trained(Unforced, []), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_a_train_function_of_ones_own_does_is_done_in_measured_steps_too(tmp_path):
    keep = Keep()
    monitor = gradwatch.Monitor(tmp_path, watch=[gradwatch.gradients(every=2)], sinks=[keep])
    Counting.calls = 0
    trained(Counting, [monitor])
    assert Counting.calls == 4
    assert keep.steps == [2, 4]
