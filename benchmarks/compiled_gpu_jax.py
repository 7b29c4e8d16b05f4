"""The part of `compiled_gpu.py` that scans the blocks of a transformer in JAX."""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from common import turns

import gradwatch

DEPTH = 24
SIZES = {
    "large": {"width": 768, "heads": 12, "length": 512, "vocabulary": 32_000},
    "small": {"width": 32, "heads": 2, "length": 16, "vocabulary": 100},
}
BATCH = {"large": 16, "small": 2}
STEPS = {"large": 20, "small": 3}
WARM = 5
NEVER = 10**9


def make_weights(width, length, vocabulary, **_):
    rng = np.random.default_rng(0)

    def draw(*shape):
        return jnp.asarray(rng.standard_normal(shape, np.float32) / shape[-2] ** 0.5)

    blocks = {
        "qkv": draw(DEPTH, width, 3 * width),
        "out": draw(DEPTH, width, width) / 5,
        "wide": draw(DEPTH, width, 4 * width),
        "narrow": draw(DEPTH, 4 * width, width) / 5,
        "norm_1": jnp.ones((DEPTH, width)),
        "norm_2": jnp.ones((DEPTH, width)),
    }
    tokens = jnp.asarray(rng.standard_normal((vocabulary, width), np.float32))
    head = draw(width, vocabulary)
    return {"tokens": tokens, "positions": draw(length, width), "blocks": blocks, "head": head}


def block(x, weights, heads):
    """A block of a causal transformer, in the type of x."""

    def norm(x, scale):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale

    w = jax.tree.map(lambda w: w.astype(x.dtype), weights)
    batch, length, width = x.shape
    split = (norm(x, w["norm_1"]) @ w["qkv"]).reshape(batch, length, 3, heads, -1)
    q, k, v = jnp.moveaxis(split, 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width / heads) ** 0.5
    causal = jnp.tril(jnp.ones((length, length), bool))
    # At least float32, and float64 where that is the truth.
    exact = jnp.promote_types(x.dtype, jnp.float32)
    scores = jax.nn.softmax(jnp.where(causal, scores, -1e9).astype(exact)).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(batch, length, width)
    x = x + mixed @ w["out"]
    return x + jax.nn.gelu(norm(x, w["norm_2"]) @ w["wide"]) @ w["narrow"]


def loss_function(heads, dtype, tap):
    """The mean loss of predicting tokens, with the blocks scanned and recomputed."""

    def loss(weights, x, y):
        def body(h, w):
            return tap(block(h, w, heads)), None

        h = (weights["tokens"][x] + weights["positions"]).astype(dtype)
        h, _ = jax.lax.scan(jax.checkpoint(body), h, weights["blocks"])
        logits = (h @ weights["head"].astype(dtype)).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()

    return loss


def adam(weights, gradients, state):
    count, first, second = state
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradients)

    def update(w, m, v):
        return w - 1e-4 * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.99**count)) + 1e-8)

    return jax.tree.map(update, weights, first, second), (count, first, second)


def tapped(h):
    return gradwatch.tap(h, "block")


def make_steps(heads, monitor):
    """Functions of a step, by what they do besides training."""

    def make(tap, with_taps, is_measured):
        differentiate = jax.value_and_grad(loss_function(heads, jnp.bfloat16, tap))

        def step(weights, state, x, y):
            taps = None
            if with_taps:
                (loss, gradients), taps = gradwatch.with_taps(differentiate)(weights, x, y)
            else:
                loss, gradients = differentiate(weights, x, y)
            weights, state = adam(weights, gradients, state)
            if not is_measured:
                return weights, state, loss
            own = {"gradients": gradients, "parameters": weights, "loss": loss}
            taps = {} if taps is None else {"taps": taps}
            return weights, state, monitor.measure(**own, **taps)

        return step

    def same(h):
        return h

    return {
        "bare": make(same, with_taps=False, is_measured=False),
        "gradients and weights, every step": make(same, with_taps=False, is_measured=True),
        "the same and a tap in each block": make(tapped, with_taps=True, is_measured=True),
        "taps, not due": make(tapped, with_taps=False, is_measured=False),
    }


def bytes_of(compiled):
    """What a compiled step holds at most, with its arguments."""
    sizes = compiled.memory_analysis()
    own = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
    return own - sizes.alias_size_in_bytes


def prepare(is_small):
    """Compile; returns what measures, within so many seconds."""
    size = "small" if is_small else "large"
    sizes, start = SIZES[size], time.perf_counter()
    directory = tempfile.TemporaryDirectory()
    sinks = [gradwatch.Store(), gradwatch.TensorBoard()]
    two = [gradwatch.gradients(), gradwatch.weights()]
    monitor = gradwatch.Monitor(f"{directory.name}/run", every=1, watch=two, sinks=sinks)
    never = gradwatch.Monitor(f"{directory.name}/never", every=NEVER, watch=two, sinks=sinks)
    weights = make_weights(**sizes)
    count = sum(w.size for w in jax.tree.leaves(weights))
    zeros = jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights)
    x = jax.random.randint(jax.random.key(0), (BATCH[size], sizes["length"]), 0, 100)
    args = [weights, (jnp.zeros(()), *zeros), x, jnp.roll(x, -1, 1)]
    functions = make_steps(sizes["heads"], monitor)
    lowered = {n: jax.jit(f, donate_argnums=(0, 1)).lower(*args) for n, f in functions.items()}
    with ThreadPoolExecutor() as pool:
        steps_of = pool.map(lambda step: step.compile(), lowered.values())
        compiled = dict(zip(lowered, steps_of, strict=True))
    peaks = {name: bytes_of(step) for name, step in compiled.items()}
    counts = {"due": 0, "never": 0}

    def steps(name, many):
        for _ in range(many):
            if name == "not due":
                counts["never"] += 1
                assert not never.due(counts["never"])
                *args[:2], _ = compiled["bare"](*args)
                continue
            *args[:2], result = compiled[name](*args)
            if isinstance(result, dict):
                counts["due"] += 1
                monitor.record(result, step=counts["due"])

    def fit(name):
        name = "bare" if name is None else name
        steps(name, WARM)
        jax.block_until_ready(args[:2])
        begin = time.perf_counter()
        steps(name, STEPS[size])
        jax.block_until_ready(args[:2])
        return (time.perf_counter() - begin) / STEPS[size] * 1e3

    goals = {
        "gradients and weights, every step": 1.05,
        "the same and a tap in each block": None,
        "not due": 1.005,
        "taps, not due": 1.005,
    }
    for name in (None, *goals):
        fit(name)
    facts = (
        f"jax: {count / 1e6:.1f} M parameters, {DEPTH} scanned blocks with jax.checkpoint, "
        f"{sizes}, batch {BATCH[size]}, bfloat16, on {jax.devices()[0].platform}; all four steps "
        f"compiled in {time.perf_counter() - start:.0f} s. Memory is what XLA says of a step"
    )

    def measure(seconds):
        yield {"text": facts}
        times, beside = turns(fit, {name: name for name in goals}, 12, seconds)
        for name, own in times.items():
            yield {
                "training": "jax.lax.scan",
                "step": name,
                "ms": own,
                "bare": beside[name],
                "goal": goals[name],
                "peak": peaks.get(name, peaks["bare"]),
                "bare_peak": peaks["bare"],
            }
        monitor.close()
        never.close()

    return measure
