"""What measuring adds to the time that a training step takes to compile.

    python benchmarks/compile_cost.py                          # 30 and 300 tensors, all ways
    python benchmarks/compile_cost.py --tensors 3000 10000 --ways jax --measuring-only
    python benchmarks/compile_cost.py --stages --tensors 30 300 3000 10000 --write
    KERAS_BACKEND=tensorflow python benchmarks/compile_cost.py --ways keras

The step is that of a multilayer perceptron: in Keras `fit` ("keras", on the backend that
KERAS_BACKEND names), its first step with its compilation; in the other ways the least that
trains, written in the framework itself. The measured one also summarises all weights and all
gradients. With `--measuring-only` nothing but the measuring
is compiled: the step itself takes minutes where there are thousands of tensors. `--stages` tells
where the time of that goes, in seconds of all processors together, for tensors of two shapes,
matrices of 64 x 64 and vectors of 64, and for tensors that are all of different shapes.
"""

import argparse
import os
import statistics
import tempfile
import time

import numpy as np
from common import answer, keep, machine, worker

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
WAYS = ("jax", "tensorflow xla", "tensorflow graph", "keras")


def shapes(tensors, width=64):
    return [(width, width), (width,)] * (tensors // 2)


def in_jax(tensors, measured, alone):
    import jax
    import jax.numpy as jnp

    from gradwatch.measure.jax import measure

    weights = [jnp.full(shape, 0.01) for shape in shapes(tensors)]

    def loss(weights, x):
        for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
            x = jnp.tanh(x @ kernel + bias)
        return jnp.mean(x * x)

    def step(weights, means, squares, x):
        gradients = jax.grad(loss)(weights, x)
        means = [0.9 * m + 0.1 * g for m, g in zip(means, gradients, strict=True)]
        squares = [0.99 * s + 0.01 * g * g for s, g in zip(squares, gradients, strict=True)]
        weights = [
            w - 1e-3 * m / (jnp.sqrt(s) + 1e-7)
            for w, m, s in zip(weights, means, squares, strict=True)
        ]
        rows = measure(weights + gradients)[0] if measured else None
        return weights, means, squares, rows

    arguments = (weights, weights, weights, jnp.ones((32, 64)))
    jitted = jax.jit(step, donate_argnums=(0, 1, 2))
    if alone:
        arguments, jitted = (weights + weights,), jax.jit(lambda xs: measure(xs)[0])
    start = time.perf_counter()
    compiled = jitted.lower(*arguments).compile()
    took = time.perf_counter() - start
    memory = compiled.memory_analysis()
    held = memory.temp_size_in_bytes + memory.argument_size_in_bytes
    held += memory.output_size_in_bytes - memory.alias_size_in_bytes
    return took, held / 2**20


def in_tensorflow(tensors, measured, alone, jit_compile):
    import tensorflow as tf

    from gradwatch.measure.tensorflow import measure

    weights = [tf.Variable(tf.fill(shape, 0.01)) for shape in shapes(tensors)]
    means = [tf.Variable(tf.zeros(shape)) for shape in shapes(tensors)]

    def step(x):
        if alone:
            return measure(weights + means)[0]
        with tf.GradientTape() as tape:
            y = x
            for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
                y = tf.tanh(y @ kernel + bias)
            loss = tf.reduce_mean(y * y)
        gradients = tape.gradient(loss, weights)
        for w, m, g in zip(weights, means, gradients, strict=True):
            m.assign(0.9 * m + 0.1 * g)
            w.assign_sub(1e-3 * m)
        return measure(weights + gradients)[0] if measured else loss

    function = tf.function(step, autograph=False, jit_compile=jit_compile)
    start = time.perf_counter()
    function(tf.ones((32, 64)))
    return time.perf_counter() - start, float("nan")


def in_keras(tensors, measured):
    import keras

    import gradwatch

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(64, "tanh") for _ in range(tensors // 2)]
    model = keras.Sequential([keras.Input((64,)), *layers])
    model.compile("adam", "mse")
    x = np.ones((32, 64), np.float32)
    watch = [gradwatch.gradients(), gradwatch.weights()]
    with tempfile.TemporaryDirectory() as directory:
        monitor = gradwatch.Monitor(
            directory, every=1, watch=watch, sinks=[gradwatch.Store()], diagnose=False
        )
        start = time.perf_counter()
        model.fit(x, x, verbose=0, callbacks=[monitor] if measured else [])
        return time.perf_counter() - start, float("nan")


def different(tensors):
    return [(i // 2 + 17, 3) if i % 2 else (i + 5,) for i in range(tensors)]


def taken(function, clock=time.process_time):
    start = clock()
    result = function()
    return result, clock() - start


def stages_in_jax(arrays):
    import jax

    from gradwatch.measure.jax import measure

    arrays = [jax.device_put(x) for x in arrays]
    traced, trace = taken(lambda: jax.jit(lambda xs: measure(xs)[0]).trace(arrays))
    lowered, lower = taken(traced.lower)
    compiled, compiling = taken(lowered.compile)
    return [trace, lower, compiling], lambda: jax.block_until_ready(compiled(arrays))


def stages_in_tensorflow(arrays, jit_compile):
    import tensorflow as tf

    from gradwatch.measure.tensorflow import measure

    variables = [tf.Variable(x) for x in arrays]
    step = tf.function(lambda: measure(variables)[0], autograph=False, jit_compile=jit_compile)
    _, trace = taken(step.get_concrete_function)
    return [trace, float("nan"), float("nan")], lambda: step().numpy()


def stages(way, kind, tensors):
    """Seconds to trace, lower, compile and call first; milliseconds to call again."""
    rng = np.random.default_rng(0)
    of_kind = {"two": shapes, "different": different}[kind](tensors)
    arrays = [rng.normal(size=shape).astype("float32") for shape in of_kind]
    if way == "jax":
        spent, call = stages_in_jax(arrays)
    else:
        spent, call = stages_in_tensorflow(arrays, way == "tensorflow xla")
    spent.append(taken(call)[1])
    again = [taken(call, time.perf_counter)[1] for _ in range(10)]
    return [*spent, 1e3 * statistics.median(again)]


def write_stages(ways, counts, write):
    lines = [
        f"Machine: {machine()}. Measuring alone, without a training step: seconds of all",
        "processors together, and milliseconds by the clock of a later call. TensorFlow lowers",
        "and compiles in the first call.",
        "",
        "| way | shapes | tensors | trace s | lower s | compile s | first call s | later call ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    facts = []
    for way in ways:
        for kind in ("two", "different"):
            for tensors in counts:
                found = worker(__file__, ["--worker", way, kind, tensors])
                facts.append({"way": way, "shapes": kind, "tensors": tensors, "found": found})
                cells = ["" if x != x else f"{x:.2f}" for x in found]
                lines.append(f"| {way} | {kind} | {tensors} | {' | '.join(cells)} |")
        # After each way, since all of them take minutes.
        keep("compile-cpu", "\n".join(lines), {"machine": machine(), "stages": facts}, write)


def cost(way, tensors, measured, alone):
    if way == "keras":
        if alone:
            raise SystemExit("In Keras's fit measuring is not compiled by itself: name other ways.")
        return in_keras(tensors, measured)
    if way == "jax":
        return in_jax(tensors, measured, alone)
    return in_tensorflow(tensors, measured, alone, jit_compile=way == "tensorflow xla")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensors", nargs="+", type=int, default=[30, 300])
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measuring-only", action="store_true")
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--write", action="store_true", help="keep the stages in results/")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        answer(stages(*args.worker[:2], int(args.worker[2])))
        return
    if args.stages:
        write_stages([way for way in args.ways if way != "keras"], args.tensors, args.write)
        return
    print("| way | tensors | bare s | measured s | extra | MiB bare | MiB measured |")
    print("|---|---|---|---|---|---|---|")
    for way in args.ways:
        for tensors in args.tensors:
            turns = []
            for _ in range(args.rounds):
                both = (True,) if args.measuring_only else (False, True)
                turns.append([cost(way, tensors, each, args.measuring_only) for each in both])
            seconds = [statistics.median(turn[k][0] for turn in turns) for k in range(len(both))]
            size = [each[1] for each in turns[0]]
            if args.measuring_only:
                cells = ["", f"{seconds[0]:.1f} (measuring alone)", "", "", f"{size[0]:.1f}"]
            else:
                extra = f"{100 * (seconds[1] / seconds[0] - 1):.0f} %"
                cells = [
                    f"{seconds[0]:.1f}",
                    f"{seconds[1]:.1f}",
                    extra,
                    *(f"{s:.1f}" for s in size),
                ]
            print("|", " | ".join([way, str(tensors), *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
