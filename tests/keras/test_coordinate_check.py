"""`gradwatch.coordinate_check` of Keras models: sizes against NumPy, and its verdict."""

import keras
import numpy as np
import pytest

import gradwatch
from tests.keras.support import classes, normal

# Outputs are tested on all backends; the check sees nothing but them.
pytestmark = pytest.mark.any_backend
BASE = 16
EAGERLY = keras.backend.backend() != "jax"  # There it would compile each operation.
WIDTHS = [16, 64, 256]


class Scaled(keras.layers.Dense):
    """A dense layer of muP for Adam: as at a width of 16, times 16 / width."""

    def call(self, x):
        return super().call(x * BASE / self.kernel.shape[0])


def make(width, is_mup, **options):
    dense = keras.layers.Dense
    hidden = readout = dense
    initial = "lecun_normal"
    if is_mup:
        hidden = readout = Scaled
        initial = keras.initializers.RandomNormal(stddev=width**0.5 / BASE)
    model = keras.Sequential(
        [
            keras.Input((8,)),
            dense(width, "relu", kernel_initializer="lecun_normal"),
            hidden(width, "relu", kernel_initializer=initial),
            readout(5, kernel_initializer="zeros" if is_mup else "lecun_normal"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss, **options)
    return model


def test_the_standard_parametrisation_is_flagged_and_mup_is_not():
    keras.utils.set_random_seed(0)
    batch = normal(16, 8), classes(5, 16)
    verdicts = {}
    for is_mup in (False, True):
        verdicts[is_mup] = gradwatch.coordinate_check(
            lambda width, is_mup=is_mup: make(width, is_mup, run_eagerly=EAGERLY),
            WIDTHS,
            batch,
            repeats=2,
            show=False,
        )
    assert verdicts[False].layers[-1].scaling == "grows", str(verdicts[False])
    assert not verdicts[False].ok
    assert verdicts[True].ok, str(verdicts[True])


def test_sizes_are_those_of_a_compiled_step_in_float64_numpy():
    keras.utils.set_random_seed(1)
    x, y = normal(6, 8), classes(5, 6)
    weights = []

    def compiled(width):
        model = make(width, is_mup=False)
        weights.append([np.asarray(w, np.float64) for w in model.get_weights()])
        return model

    found = gradwatch.coordinate_check(
        compiled, [3, 5, 8], (x, y), steps=2, repeats=1, layers=["dense*"], show=False
    )
    assert [layer.path.rpartition("/")[2][:5] for layer in found.layers] == ["dense"] * 3
    for place, own in enumerate(weights):
        value = x.astype(np.float64)
        for i, layer in enumerate(found.layers):
            value = value @ own[2 * i] + own[2 * i + 1]
            value = np.maximum(value, 0) if i < 2 else value
            np.testing.assert_allclose(layer.sizes[0, place, 0], np.abs(value).mean(), rtol=1e-5)
