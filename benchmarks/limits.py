"""How close measuring on a CPU comes to the least that a framework can do.

    python benchmarks/limits.py --write

A summary needs six reductions: the sum, the sum of magnitudes and of squares, the minimum, the
maximum, and how many elements are not 0. Here they are written plainly, as whole reductions of each
tensor in the framework's own words, with no care for rounding, infinities or NaN, beside a
single sum, which is reading everything once, and beside gradwatch's summary. The tensors are
the weights and gradients of an MLP of 1.3 million parameters. All take turns, warm.
"""

import argparse
import statistics
import sys
import time

import numpy as np
from common import answer, keep, machine, worker

FRAMEWORKS = ("tensorflow", "tensorflow xla", "jax", "torch")
SHAPES = [(784, 1024), (1024,), (1024, 512), (512,), (512, 10), (10,)] * 2


def tensors():
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype("float32") for shape in SHAPES]


def in_jax():
    import jax
    import jax.numpy as jnp

    from gradwatch.measure.jax import measure

    xs = [jnp.asarray(x) for x in tensors()]

    def six(xs):
        every = (jnp.sum, lambda x: jnp.sum(jnp.abs(x)), lambda x: jnp.sum(x * x))
        every += (jnp.min, jnp.max, lambda x: jnp.sum(x != 0, dtype=jnp.int32))
        return [[one(x) for one in every] for x in xs]

    def timed(function):
        compiled = jax.jit(function)
        return lambda: jax.block_until_ready(compiled(xs))

    return timed(lambda xs: [x.sum() for x in xs]), timed(six), timed(lambda xs: measure(xs)[0])


def in_tensorflow(jit_compile):
    import tensorflow as tf

    from gradwatch.measure.tensorflow import measure

    variables = [tf.Variable(x) for x in tensors()]

    def six(xs):
        every = (tf.reduce_sum, lambda x: tf.reduce_sum(tf.abs(x)), lambda x: tf.reduce_sum(x * x))
        every += (tf.reduce_min, tf.reduce_max, tf.math.count_nonzero)
        return [[one(x) for one in every] for x in xs]

    def timed(function):
        # Of variables, as constants may be worked out beforehand.
        return tf.function(
            lambda: function([x.value() for x in variables]),
            autograph=False,
            jit_compile=jit_compile,
        )

    return (
        timed(lambda xs: [tf.reduce_sum(x) for x in xs]),
        timed(six),
        timed(lambda xs: measure(xs)[0]),
    )


def in_torch():
    import torch

    from gradwatch.measure.torch import measure

    xs = [torch.from_numpy(x) for x in tensors()]

    def six():
        every = (torch.sum, lambda x: x.abs().sum(), torch.linalg.vector_norm)
        every += (torch.aminmax, torch.count_nonzero)
        return [[one(x) for one in every] for x in xs]

    return lambda: [x.sum() for x in xs], six, lambda: measure(xs)[0]


def measure(framework, rounds):
    makers = {
        "jax": in_jax,
        "torch": in_torch,
        "tensorflow": lambda: in_tensorflow(False),
        "tensorflow xla": lambda: in_tensorflow(True),
    }
    names = ("reading once", "six plain reductions", "gradwatch")
    functions = dict(zip(names, makers[framework](), strict=True))
    times = {name: [] for name in names}
    for turn in range(rounds + 3):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn >= 3:  # The first ones compile, and warm up.
                times[name].append(1e3 * (time.perf_counter() - start))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    parser.add_argument("--worker", choices=FRAMEWORKS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        answer(measure(args.worker, args.rounds))
        return
    results = {}
    lines = [
        f"Machine: {machine()}. 2.6 million floats in 12 tensors, {args.rounds} rounds;",
        "medians, and the shortest in brackets.",
        "",
        "| framework | reading once, ms | six plain reductions, ms | gradwatch's summary, ms |",
        "|---|---|---|---|",
    ]
    for framework in FRAMEWORKS:
        print(f"{framework} ...", file=sys.stderr, flush=True)
        times = worker(__file__, ["--worker", framework, "--rounds", args.rounds])
        results[framework] = times
        cells = [f"{statistics.median(t):.2f} ({min(t):.2f})" for t in times.values()]
        lines.append(f"| {framework} | {' | '.join(cells)} |")
    keep("limits-cpu", "\n".join(lines), {"machine": machine(), "ms": results}, args.write)


if __name__ == "__main__":
    main()
