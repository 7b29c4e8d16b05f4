"""The part of `compiled_gpu.py` that watches outputs of a compiled transformer, or by default."""

import time

from compiled_gpu_torch import NEVER, STEPS, Training, compare, described, synchronise

import gradwatch


def prepare(is_small):
    """Compile, without and with outputs; returns what measures, within so many seconds."""
    size = "small" if is_small else "large"
    outputs = [gradwatch.outputs(), gradwatch.output_gradients()]
    variants = {
        "outputs and their gradients, every step": ({"every": 1, "watch": outputs}, None),
        "outputs, not due": ({"every": NEVER, "watch": outputs}, 1.005),
    }
    typed = {"as typed, its first steps: `watch(module, optimizer)`": ({}, None)}
    start = time.perf_counter()
    bare = Training(size)
    bare.steps(2)
    synchronise()
    seconds = time.perf_counter() - start
    seen = Training(size)
    for options, _ in reversed(variants.values()):
        seen.timed(options, 1)
    compiled = time.perf_counter() - start - seconds
    facts = (
        f"{described(bare, size)}; bare step compiled in {seconds:.0f} s, the two with outputs in "
        f"{compiled:.0f} s; of outputs were recorded {dict(seen.count.kinds)}"
    )

    def measure(seconds):
        yield {"text": facts}
        yield from compare("torch.compile", seen, bare, variants, STEPS[size], seconds * 0.7)
        yield from compare("torch.compile", bare, bare, typed, STEPS[size], seconds * 0.3)

    return measure
