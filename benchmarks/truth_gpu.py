"""That measuring on a GPU, or wherever Keras trains, tells the truth.

    KERAS_BACKEND=jax   python benchmarks/truth_gpu.py
    KERAS_BACKEND=torch python benchmarks/truth_gpu.py

It measures tensors of several types and sizes on the device against the float64 NumPy reference,
and the steps of a `fit` against the change of the weights.
"""

import tempfile

import keras
import numpy as np

import gradwatch
from gradwatch.core import reference
from gradwatch.measure import framework


def on_device(x, dtype):
    """An array on the GPU, in another type perhaps."""
    if keras.backend.backend() == "torch":
        import torch

        return torch.tensor(x, device="cuda").to(getattr(torch, dtype))
    import jax.numpy as jnp

    return jnp.asarray(x).astype(dtype)


def as_float64(tensor):
    if keras.backend.backend() == "torch":
        return tensor.double().cpu().numpy()
    return np.asarray(tensor.astype("float32")).astype(np.float64)


def check_measuring():
    """Summaries and histograms on the GPU equal the reference."""
    own = framework(keras.backend.backend())
    rng = np.random.default_rng(0)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, 1e-40, -3e38], np.float32)
    sizes = {"small": 1000, "large": 2**24 + 5}
    checked = 0
    for name, size in sizes.items():
        for dtype in ("float32", "bfloat16", "float16", "float8_e4m3fn"):
            x = rng.normal(size=size).astype(np.float32)
            x[:6] = special
            if dtype.startswith("float8"):
                x = np.clip(np.nan_to_num(x), -400, 400)
            tensor = on_device(x, dtype)
            measured = dict(zip(("rows", "cells"), own.measure([tensor], [0]), strict=True))
            got = own.fetch(measured, ["rows", "cells"])()
            truth = as_float64(tensor)
            row, expected = got["rows"][0], reference.summarize(truth)
            np.testing.assert_array_equal(row[:5], expected[:5], err_msg=f"{name} {dtype}")
            scale = np.array([expected[6], expected[6], expected[7]])
            assert (np.abs(row[5:8] - expected[5:8]) <= 1e-6 * scale).all(), (name, dtype)
            np.testing.assert_allclose(row[8:], expected[8:], rtol=1e-6)
            np.testing.assert_array_equal(got["cells"][0], reference.count_cells(truth))
            checked += 1
    print(f"measuring: {checked} tensors equal the reference", flush=True)


def check_training(directory):
    """In fit, gradients are the change of the weights over the rate; training is unchanged."""

    class Keep(gradwatch.Sink):
        def __init__(self):
            self.readings = []

        def write(self, reading):
            self.readings.append(reading)

    def train(callbacks):
        keras.utils.set_random_seed(0)
        layers = [keras.Input((32,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(8)]
        model = keras.Sequential(layers, name="net")
        model.compile(keras.optimizers.SGD(0.5), "mse")
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(256, 32)), rng.normal(size=(256, 8))
        before = model.get_weights()
        model.fit(x, y, batch_size=64, epochs=1, verbose=0, callbacks=callbacks, shuffle=False)
        return model, before

    keep = Keep()
    monitor = gradwatch.Monitor(
        directory, every=1, sinks=[keep], watch=[gradwatch.gradients(), gradwatch.updates()]
    )
    model, before = train([monitor])
    bare, _ = train([])
    for a, b in zip(model.get_weights(), bare.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    sums = {}
    for reading in keep.readings:
        for site, total in zip(reading.sites, reading.statistic("sum"), strict=True):
            sums[site] = sums.get(site, 0.0) + total
    for variable, start in zip(model.trainable_variables, before, strict=True):
        end = keras.ops.convert_to_numpy(variable.value)
        change = (end.astype(float) - start).sum()
        size = np.abs(end.astype(float) - start).sum()
        for kind, factor in ((gradwatch.Kind.UPDATE, 1.0), (gradwatch.Kind.GRADIENT, -0.5)):
            total = sums[gradwatch.Site(kind, variable.path)] * factor
            assert abs(total - change) <= 1e-4 * size, (kind, variable.path)
    print("training: gradients and updates add up to the change of the weights")


if __name__ == "__main__":
    check_measuring()
    with tempfile.TemporaryDirectory() as place:
        check_training(place)
