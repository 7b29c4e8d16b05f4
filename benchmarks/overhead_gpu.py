"""What the monitor adds to a step of Keras `fit` on a GPU, and that it tells the truth there.

Needs JAX or torch with a GPU, and Keras:

    KERAS_BACKEND=jax   python benchmarks/overhead_gpu.py
    KERAS_BACKEND=torch python benchmarks/overhead_gpu.py

First it measures tensors of several types and sizes on the GPU against the float64
NumPy reference, and a training step against the change of the weights. Then the
variants take turns, as in `overhead.py`.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import keras
import numpy as np

import gradwatch
from gradwatch.capture.frameworks import framework
from gradwatch.measure import numpy as reference

STEPS = 100


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
            measured = {"rows": own.summarize([tensor]), "cells": own.count_cells([tensor], True)}
            got = own.fetch(measured, ["rows", "cells"])()
            truth = as_float64(tensor)
            row, expected = got["rows"][0], reference.summarize(truth)
            np.testing.assert_array_equal(row[:5], expected[:5], err_msg=f"{name} {dtype}")
            scale = np.array([expected[6], expected[6], expected[7]])
            assert (np.abs(row[5:8] - expected[5:8]) <= 1e-6 * scale).all(), (name, dtype)
            np.testing.assert_allclose(row[8:], expected[8:], rtol=1e-6)
            np.testing.assert_array_equal(got["cells"][0], reference.count_cells(truth))
            checked += 1
    print(f"measuring: {checked} tensors equal the reference")


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


def transformer(width=1024, depth=8, length=256, vocabulary=16_000):
    """A model of some hundred million parameters in bfloat16."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    tokens = keras.Input((length,), dtype="int32")
    x = keras.layers.Embedding(vocabulary, width)(tokens)
    for _ in range(depth):
        h = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(16, width // 16)(h, h, use_causal_mask=True)
        h = keras.layers.LayerNormalization()(x)
        h = keras.layers.Dense(4 * width, activation="gelu")(h)
        x = x + keras.layers.Dense(width)(h)
    logits = keras.layers.Dense(vocabulary, dtype="float32")(x)
    model = keras.Model(tokens, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    rng = np.random.default_rng(0)
    data = rng.integers(0, vocabulary, (STEPS * 8, length)).astype("int32")
    return model, data, np.roll(data, -1, axis=1)


def measure(rounds, directory):
    def monitor(every, **options):
        watch = [kind(every=every, **options) for kind in (gradwatch.gradients, gradwatch.weights)]
        sinks = [gradwatch.TensorBoard(), gradwatch.CSV()]
        return [gradwatch.Monitor(Path(directory, f"{every}{options}"), watch=watch, sinks=sinks)]

    variants = {
        "bare": [],
        "never": monitor(gradwatch.schedule.never()),
        "every 10th": monitor(10),
        "every step": monitor(1),
        "every step, with histograms": monitor(1, histogram=True),
    }
    model, x, y = transformer()
    times = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, callbacks in variants.items():
            start = time.perf_counter()
            model.fit(x, y, batch_size=8, epochs=1, verbose=0, callbacks=callbacks, shuffle=False)
            if turn:
                times[name].append(1e3 * (time.perf_counter() - start) / STEPS)
    return model.count_params(), times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="a file for the result, as JSON")
    args = parser.parse_args()
    check_measuring()
    with tempfile.TemporaryDirectory() as directory:
        check_training(Path(directory, "check"))
        parameters, times = measure(args.rounds, directory)
    print(f"{keras.backend.backend()}, transformer of {parameters / 1e6:.0f} M parameters")
    for name, values in times.items():
        ratio = statistics.median(v / b for v, b in zip(values, times["bare"], strict=True))
        low, high = min(values), max(values)
        middle = statistics.median(values)
        print(f"  {name:30} {middle:8.2f} ms ({low:.2f} to {high:.2f})  x{ratio:.3f}")
    if args.output:
        facts = {"parameters": parameters, "ms_per_step": times}
        args.output.write_text(json.dumps({keras.backend.backend(): facts}))


if __name__ == "__main__":
    main()
