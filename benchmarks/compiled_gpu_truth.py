"""The part of `compiled_gpu.py` that compares taps in scanned blocks with unrolled blocks."""

import os
import tempfile

# The truth is of float64; the scanned blocks stay what their arrays are.
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jnp
import numpy as np
from compiled_gpu_jax import DEPTH, SIZES, block, loss_function, make_weights, tapped

import gradwatch

LENGTH, BATCH, MOST = 64, 2, 1e-5


class Keep(gradwatch.Sink):
    def __init__(self):
        self.readings = []

    def write(self, reading):
        self.readings.append(reading)


def unrolled(weights, x, y, heads):
    """Of each block, what it returns and the gradient with respect to it."""
    shape = (*x.shape, weights["positions"].shape[-1])
    shifts = [jnp.zeros(shape, weights["head"].dtype) for _ in range(DEPTH)]

    def loss(shifts):
        outputs, h = [], weights["tokens"][x] + weights["positions"]
        for i, shift in enumerate(shifts):
            own = jax.tree.map(lambda w, i=i: w[i], weights["blocks"])
            h = block(h, own, heads) + shift
            outputs.append(h)
        logits = jax.nn.log_softmax(h @ weights["head"])
        return -jnp.take_along_axis(logits, y[..., None], -1).mean(), outputs

    gradients, outputs = jax.jit(jax.grad(loss, has_aux=True))(shifts)
    return {
        "output": [np.asarray(a, np.float64) for a in outputs],
        "output_gradient": [np.asarray(a, np.float64) for a in gradients],
    }


def measured(weights, x, y, heads):
    """The summaries of what passes the tap in the scanned blocks, by kind and block."""
    keep = Keep()
    differentiate = jax.value_and_grad(loss_function(heads, jnp.float32, tapped))
    with tempfile.TemporaryDirectory() as directory:
        monitor = gradwatch.Monitor(f"{directory}/run", every=1, sinks=[keep], diagnose=False)

        @jax.jit
        def step(weights, x, y):
            _, taps = gradwatch.with_taps(differentiate)(weights, x, y)
            return monitor.measure(taps=taps)

        monitor.record(step(weights, x, y))
        monitor.close()
    found = {}
    for reading in keep.readings:
        for name in ("l2", "sum", "l1", "min", "max"):
            for site, value in zip(reading.sites, reading.statistic(name), strict=True):
                kind, index = str(site.kind), int(site.path.rpartition("/")[2])
                found.setdefault((kind, index), {})[name] = float(value)
    return found


def differences(found, truth):
    """The largest relative difference, and how many sites there are."""
    worst = 0.0
    for (kind, index), own in found.items():
        x = truth[kind][index]
        size, most = np.abs(x).sum(), np.abs(x).max()
        norm = np.linalg.norm(x)
        worst = max(
            worst,
            abs(own["l2"] - norm) / norm,
            abs(own["sum"] - x.sum()) / size,
            abs(own["l1"] - size) / size,
            abs(own["min"] - x.min()) / most,
            abs(own["max"] - x.max()) / most,
        )
    return worst, len(found)


def prepare(is_small):
    sizes = SIZES["small" if is_small else "large"] | {"length": LENGTH}
    heads = sizes["heads"]
    x = jax.random.randint(jax.random.key(0), (BATCH, LENGTH), 0, 100)
    y = jnp.roll(x, -1, 1)
    lines = []
    with jax.default_matmul_precision("highest"):
        weights = jax.tree.map(lambda w: w.astype(jnp.float32), make_weights(**sizes))
        found = measured(weights, x, y, heads)
        for dtype in (jnp.float32, jnp.float64):
            wide = jax.tree.map(lambda w, dtype=dtype: w.astype(dtype), weights)
            worst, count = differences(found, unrolled(wide, x, y, heads))
            name = jnp.dtype(dtype).name
            words = f"{count} rows of {DEPTH} scanned blocks; the largest difference to {name}"
            line = f"truth: {words}, unrolled, is {worst:.2e} of the tensor's size"
            if count != 2 * DEPTH or not worst <= MOST:
                line += f" **more than {MOST}, or rows are missing**"
            lines.append({"text": line, "worst": worst, "sites": count})
    return lambda seconds: iter(lines)
