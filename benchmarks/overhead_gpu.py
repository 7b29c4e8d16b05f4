"""What the monitor adds to a step of Keras `fit` on a GPU, and that it tells the truth there.

Needs JAX or torch with a GPU, and Keras:

    KERAS_BACKEND=jax   python benchmarks/overhead_gpu.py --output results
    KERAS_BACKEND=torch python benchmarks/overhead_gpu.py --output results

First it measures tensors of several types and sizes on the GPU against the float64
NumPy reference, and a training step against the change of the weights. Then the
variants take turns, as in `overhead.py`.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
from common import row

import gradwatch
from gradwatch.core import reference
from gradwatch.measure import framework

SETTLING = 3


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


def transformer(samples, width=1024, depth=16, length=256, vocabulary=32_000):
    """A model of 267 million parameters in bfloat16."""
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
    data = rng.integers(0, vocabulary, (samples, length)).astype("int32")
    return model, data, np.roll(data, -1, axis=1)


def peak_bytes():
    """The most memory held on the GPU: on torch since the last call, on JAX since the start."""
    if keras.backend.backend() == "torch":
        import torch

        peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return peak
    import jax

    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def measure(rounds, steps, batch, chosen, directory):
    """Milliseconds per step by variant and round; costs; peak memory as variants come in."""

    def monitor(name, **options):
        sinks = [gradwatch.Store(), gradwatch.TensorBoard()]
        return gradwatch.Monitor(Path(directory, name), sinks=sinks, **options)

    def every(schedule, **options):
        kinds = (gradwatch.gradients, gradwatch.weights)
        return [kind(every=schedule, **options) for kind in kinds]

    def plain(name, schedule, **options):
        """Gradients and weights alone: a diagnosis wants updates and outputs as well."""
        return monitor(name, watch=every(schedule, **options), diagnose=False)

    variants = {
        "bare": None,
        "never": plain("never", gradwatch.schedule.never()),
        "every step": plain("each", 1),
        "every 10th": plain("tenth", 10),
        "default (budget 1 %, with diagnosis)": monitor("default"),
        "every step, with histograms": plain("full", 1, histogram=True),
    }
    variants = {n: m for n, m in variants.items() if not chosen or n.split(" (")[0] in chosen}
    model, x, y = transformer(steps * batch)
    times = {name: [] for name in variants}
    first, peaks = {}, {}

    def fit(name):
        callbacks = [variants[name]] if variants[name] else []
        start = time.perf_counter()
        model.fit(x, y, batch_size=batch, verbose=0, callbacks=callbacks, shuffle=False)
        return time.perf_counter() - start

    peak_bytes()
    for name in variants:  # Compile, one by one; the default has time to settle.
        first[name] = fit(name)
        peaks[name] = peak_bytes()
        for _ in range(SETTLING if name.startswith("default") else 0):
            fit(name)
        print(f"{name}: first fit {first[name]:.1f} s", flush=True)
    for _ in range(rounds):
        for name in variants:
            times[name].append(1e3 * fit(name) / steps)
    return {
        "parameters": model.count_params(),
        "tensors": len(model.weights),
        "ms_per_step": times,
        "seconds_of_first_fit": first,
        "peak_bytes": peaks,
        "cost": {n: m.cost_facts() for n, m in variants.items() if m is not None},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200, help="in a fit")
    parser.add_argument("--batch", type=int, default=28, help="samples in a batch")
    parser.add_argument("--variants", nargs="+", help="only these: bare, 'every step', ...")
    parser.add_argument("--output", type=Path, help="a folder for the result: JSON, Markdown")
    args = parser.parse_args()
    check_measuring()
    with tempfile.TemporaryDirectory() as directory:
        check_training(Path(directory, "check"))
        facts = measure(args.rounds, args.steps, args.batch, args.variants, directory)
    times, backend = facts["ms_per_step"], keras.backend.backend()
    lines = [
        f"{backend}, transformer of {facts['parameters'] / 1e6:.0f} M parameters in "
        f"{facts['tensors']} tensors, batches of {args.batch} x 256 tokens, "
        f"{args.rounds} rounds of {args.steps} steps.",
        "",
        "| backend | variant | ms per step (median) | spread | against bare | peak memory, GB |",
        "|---|---|---|---|---|---|",
    ]
    for name, values in times.items():
        chosen = facts["cost"].get(name, {}).get("interval")
        label = f"{name}: every {chosen}" if chosen else name
        peak = facts["peak_bytes"][name]
        memory = "?" if peak is None else f"{peak / 1e9:.3f}"
        lines.append(f"{row((backend, label), values, times['bare'])} {memory} |")
    text = "\n".join(lines)
    print(text)
    if args.output:
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / f"overhead-gpu-{backend}.md").write_text(text + "\n")
        (args.output / f"overhead-gpu-{backend}.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
