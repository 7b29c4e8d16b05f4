"""What the monitor adds to Keras `fit` on a GPU, as typed: the first fit, and steps when warm.

Needs JAX, torch or both, with a GPU, and Keras; no TensorFlow:

    python benchmarks/overhead_gpu.py --output results        # JAX and torch, within 6 minutes
    python benchmarks/overhead_gpu.py --backends torch --seconds 300 --bare-bones
    python benchmarks/overhead_gpu.py --small                 # a tiny model, also on a CPU

Each way to train has a process of its own, because what a first fit waits for is compiled once a
process. After that, bare fits and monitored ones of the same model take turns; a ratio is to
the bare ones before and after. The first fit is compared with that of the bare process. Every line
is printed as soon as it is known, and no round begins after its share of the seconds is over.
`--bare-bones` adds gradients and weights alone at every step, without diagnosis. `truth_gpu.py`
checks the numbers.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from common import RESULTS, answer, clocks, turns, worker

BARE, DEFAULT, EVERY, PLAIN = "bare", "Monitor(dir)", "Monitor(dir, every=1)", "bare-bones"
SIZES = {
    "large": {"width": 1024, "depth": 16, "length": 256, "vocabulary": 32_000},
    "small": {"width": 32, "depth": 2, "length": 16, "vocabulary": 100},
}
BATCH = {"jax": 28, "torch": 8}
FIRST = {"jax": 300, "torch": 40}
"""Steps of the first fit."""
WARM = {"jax": 100, "torch": 40}
"""Steps of each later fit."""
FLOOR = 0.5
"""With `--settled`, what measured steps may add in all before only the budget decides, instead of
the seconds of `watches.budget.floor`, which take a training of many minutes to add up."""
HEADER = (
    "| backend | way | fit | ms per step | bare | ratio | CPU ms | bare | ratio | rounds "
    "| peak memory, GB |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def transformer(samples, width, depth, length, vocabulary):
    """A model of 267 million parameters in bfloat16, if it is the large one."""
    import keras
    import numpy as np

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
    model.compile(keras.optimizers.Adam(1e-4), loss)
    rng = np.random.default_rng(0)
    data = rng.integers(0, vocabulary, (samples, length)).astype("int32")
    # A token's label is the next number, which can be learned: there is nothing to look into.
    return model, data, (data + 1) % vocabulary


def peak_bytes():
    """The most memory held on the GPU so far; None on a CPU."""
    import keras

    if keras.backend.backend() == "torch":
        import torch

        return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    import jax

    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def monitor_of(way, directory):
    import gradwatch

    if way == PLAIN:
        watch = [gradwatch.gradients(every=1), gradwatch.weights(every=1)]
        sinks = [gradwatch.Store(), gradwatch.TensorBoard()]
        return gradwatch.Monitor(directory, watch=watch, sinks=sinks, diagnose=False)
    options = {DEFAULT: {}, EVERY: {"every": 1}}
    return gradwatch.Monitor(directory, **options[way]) if way in options else None


def measure(way, size, rounds, seconds, is_settled):
    """The seconds of a first fit, wall and CPU; and those of warm ones, beside bare ones."""
    import keras

    if is_settled:
        from gradwatch.watches.budget import floor

        floor.SECONDS, floor.BLIND_SECONDS = FLOOR, 6 * FLOOR

    backend, is_small = keras.backend.backend(), size == "small"
    batch = 2 if is_small else BATCH[backend]
    steps = 30 if is_small else FIRST[backend]
    warm_steps = 10 if is_small else WARM[backend]
    model, x, y = transformer(steps * batch, **SIZES[size])

    def fit(monitor, count=warm_steps):
        callbacks, rows, start = [monitor] if monitor else [], count * batch, clocks()
        model.fit(
            x[:rows], y[:rows], batch_size=batch, verbose=0, callbacks=callbacks, shuffle=False
        )
        return (clocks() - start) / count

    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as directory:
        monitor = monitor_of(way, directory)
        found = {"first": fit(monitor, steps) * steps, "steps": steps, "peak": peak_bytes()}
        print(f"{backend}, {way}: first fit {found['first'][0]:.1f} s", flush=True)
        found["parameters"], found["tensors"] = model.count_params(), len(model.weights)
        if monitor is not None:
            fit(None)  # Keras's own step may be yet to be compiled.
            for _ in range(10):  # The measured one may still be compiled, on a thread.
                fit(monitor)
                if monitor.cost.measured_steps >= 20 or time.monotonic() > until:
                    break
            left = until - time.monotonic()
            times, beside = turns(fit, {way: monitor}, rounds, left)
            found["warm"], found["beside"] = times[way], beside[way]
            found["cost"] = monitor.cost_facts()
    return found


def lines(backend, way, found, bare):
    """The rows of the table: the first fit, and warm steps."""
    peak = "?" if found["peak"] is None else f"{found['peak'] / 1e9:.3f}"
    interval = (found.get("cost") or {}).get("interval")
    name = f"`{way}`: every {interval}" if interval else f"`{way}`"
    rows = []
    if bare is not None:
        pairs = zip(found["first"], bare["first"], strict=True)
        cells = [f"{own:.1f} s | {other:.1f} s | x{own / other:.3f}" for own, other in pairs]
        rows = [f"| {backend} | {name} | first | {' | '.join(cells)} | 1 | {peak} |"]
    if "warm" in found:
        cells = []
        for clock in (0, 1):
            pairs = zip(found["warm"], found["beside"], strict=True)
            ratio = statistics.median(own[clock] / other[clock] for own, other in pairs)
            own = 1e3 * statistics.median(each[clock] for each in found["warm"])
            other = 1e3 * statistics.median(each[clock] for each in found["beside"])
            cells.append(f"{own:.2f} | {other:.2f} | x{ratio:.3f}")
        rows.append(
            f"| {backend} | {name} | warm | {' | '.join(cells)} | {len(found['warm'])} | {peak} |"
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=["jax", "torch"])
    parser.add_argument("--rounds", type=int, default=6, help="at most, as time allows")
    parser.add_argument("--seconds", type=float, default=330, help="for all of it, about")
    parser.add_argument("--small", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--bare-bones", action="store_true")
    parser.add_argument("--settled", action="store_true", help="as late in a training, see FLOOR")
    parser.add_argument("--ways", nargs="+", help="some of the ways to train, by their names")
    parser.add_argument("--output", type=Path, help=f"a folder for the result, such as {RESULTS}")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    args = parser.parse_args()
    size = "small" if args.small else "large"
    if args.way:
        answer(measure(args.way, size, args.rounds, args.seconds, args.settled))
        return
    ways = args.ways or [BARE, DEFAULT, EVERY, *([PLAIN] if args.bare_bones else [])]
    until = time.monotonic() + args.seconds
    jobs = [(backend, way) for backend in args.backends for way in ways]
    results, rows = {}, []
    print(HEADER, flush=True)
    for done, (backend, way) in enumerate(jobs):
        left = until - time.monotonic()
        if left < 25:
            print(f"left out for lack of time: {jobs[done:]}", flush=True)
            break
        # Torch compiles nothing: what is left is divided by the jobs, JAX's being the longer ones.
        share = left / sum(2 if job[0] == "jax" else 1 for job in jobs[done:])
        share *= 2 if backend == "jax" else 1
        options = ["--way", way, "--rounds", args.rounds, "--seconds", share]
        options += ["--small"] if args.small else []
        options += ["--settled"] if args.settled else []
        environment = {"KERAS_BACKEND": backend}
        own = results.setdefault(backend, {})
        own[way] = worker(__file__, options, **environment)
        new = lines(backend, way, own[way], own.get(BARE))
        rows += new
        print("\n".join(new), flush=True)
    some = next(iter(next(iter(results.values())).values()))
    text = (
        f"Transformer of {some['parameters'] / 1e6:.1f} M parameters in {some['tensors']} tensors, "
        f"mixed_bfloat16; {os.cpu_count()} CPU cores.\n\n{HEADER}\n" + "\n".join(rows)
    )
    if args.output:
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / "overhead-gpu-typed.md").write_text(text + "\n")
        (args.output / "overhead-gpu-typed.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
