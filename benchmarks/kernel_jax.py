"""How fast JAX measures, alone and inside a training step, on whatever device it finds.

    python benchmarks/kernel_jax.py                 # a GPU: 335 M floats in 289 tensors
    python benchmarks/kernel_jax.py --scale 16      # a CPU: widths a sixteenth of that

It needs JAX alone. Printed: milliseconds (median and smallest of repeated runs), the share of
the device's own read bandwidth, seconds to compile, and the temporary memory that XLA asks for.
First it checks what is measured against NumPy in float64.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from gradwatch.core import reference
from gradwatch.measure.jax import measure
from gradwatch.measure.kernels import jax_rows


def summarize(tensors):
    return measure(tensors)[0]


def bert_large(scale):
    """The shapes of 335 M floats in 289 tensors: matrices of a transformer, and its biases."""
    width = 1024 // scale
    layer = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    layer += [(width,)] * 5 + [(4 * width,)]
    return [(30522 // scale, width)] + layer * 24


def make(shapes, dtype="float32"):
    keys = jax.random.split(jax.random.key(0), len(shapes))
    draw = jax.jit(
        lambda ks: [jax.random.normal(k, s, dtype) for k, s in zip(ks, shapes, strict=True)]
    )
    return draw(keys)


def timed(function, *args, repeats=20, donate=()):
    """(median ms, smallest ms, seconds to compile, MiB of temporary memory)."""
    start = time.perf_counter()
    compiled = jax.jit(function, donate_argnums=donate).lower(*args).compile()
    took = time.perf_counter() - start
    temporary = compiled.memory_analysis().temp_size_in_bytes / 2**20
    jax.block_until_ready(compiled(*args))
    times = []
    for _ in range(repeats):
        # Several calls in one timing, so that launching them is not what is timed.
        start = time.perf_counter()
        out = [compiled(*args) for _ in range(5)]
        jax.block_until_ready(out)
        times.append(1e3 * (time.perf_counter() - start) / 5)
    return statistics.median(times), min(times), took, temporary


def say(name, function, tensors, **options):
    try:
        median, best, took, temporary = timed(function, tensors, **options)
        size = sum(x.nbytes for x in tensors)
        rate = size / median / 1e6
        print(
            f"{name:44} {median:8.3f} ms (best {best:.3f})  {rate:7.0f} GB/s  "
            f"compile {took:5.1f} s  temporary {temporary:7.1f} MiB",
            flush=True,
        )
    except Exception as error:
        text = str(error).strip().splitlines()
        print(
            f"{name:44} failed: {type(error).__name__}: {text[0][:200] if text else ''}", flush=True
        )


def check():
    rng = np.random.default_rng(0)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -3e38, 1e-30], np.float32)
    for size in (9, 1000, 2**17, 2**24 + 5):
        for dtype in ("float32", "bfloat16"):
            for with_special in (False, True):
                x = rng.normal(size=size).astype(np.float32)
                if with_special:
                    x[: len(special)] = special
                tensor = jnp.asarray(x).astype(dtype)
                true = np.asarray(tensor.astype("float32")).astype(np.float64)
                row, expected = (
                    np.asarray(jax.jit(lambda t: summarize([t]))(tensor))[0],
                    reference.summarize(true),
                )
                np.testing.assert_array_equal(row[:5], expected[:5], err_msg=f"{size} {dtype}")
                scale = np.array([expected[6], expected[6], expected[7]])
                assert (np.abs(row[5:8] - expected[5:8]) <= 1e-6 * scale).all(), (
                    size,
                    dtype,
                    row,
                    expected,
                )
                np.testing.assert_allclose(row[8:], expected[8:], rtol=1e-6)
    print("summaries equal the reference", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--variants", action="store_true", help="other layouts as well")
    args = parser.parse_args()
    print(jax.devices(), jax.__version__, flush=True)
    check()
    tensors = make(bert_large(args.scale))
    print(
        f"{sum(x.size for x in tensors) / 1e6:.0f} M floats in {len(tensors)} tensors", flush=True
    )
    one = [jnp.concatenate([x.reshape(-1) for x in tensors])]
    say("reading once (sum of one array)", lambda xs: jnp.sum(xs[0]), one)
    say(
        "L2 alone, one reduction a tensor",
        lambda xs: jnp.stack([jnp.sum(x * x) for x in xs]),
        tensors,
    )
    say("summary of one array", summarize, one)
    del one
    say("summary", summarize, tensors)
    if args.variants:
        for width in (512, 1024, 2048, 4096, 8192):
            for large in (1 << 14, 1 << 17, 1 << 21):
                jax_rows.GPU_WIDTH, jax_rows.GPU_LARGE = width, large
                jax.clear_caches()
                say(f"summary, width {width}, large {large}", summarize, tensors, repeats=8)


if __name__ == "__main__":
    main()
