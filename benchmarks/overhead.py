"""What the monitor adds to Keras `fit` on a CPU: as typed, and measuring alone.

Runs each backend and model in a process of its own, since Keras has one backend a process:

    python benchmarks/overhead.py --write                # all, half an hour
    python benchmarks/overhead.py --backends jax --models mlp --rounds 5
    python benchmarks/overhead.py --models mlp --steps 1000 --variants "bare again" "Monitor(dir)"

Within a process all variants train one and the same model, since on a CPU two models of one
shape differ in speed by where their memory lies. All are warmed up, and then they take turns, with
a bare `fit` between any two; a ratio is to the bare ones before and after, so that a slow spell
of the machine falls on both. "bare again" shows what is noise. Each turn is one epoch of a
`fit`, its beginning and end included. The default is given time to settle before.

`Monitor(dir)` and `Monitor(dir, every=1)` are as typed: with diagnosis and all sinks. The others
measure gradients and weights alone, without diagnosis. The first fit of those as typed, with all
that is compiled for it, has a process of its own, and so has the bare one. Times are of
the wall clock and, after it, of the CPU in all threads, which says more on a busy machine.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from common import answer, clocks, keep, machine, turns, worker

BACKENDS = ("tensorflow", "jax", "torch")
MODELS = ("mlp", "cnn", "deep")
TYPED = ("Monitor(dir)", "Monitor(dir, every=1)")
VARIANTS = (*TYPED, "bare again", "never", "every 10th", "every step")
STEPS = {"mlp": 200, "cnn": 60, "deep": 150}
SETTLING = 400


def build(name, steps):
    """A compiled model and one epoch of data for it."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    dense, conv = keras.layers.Dense, keras.layers.Conv2D
    if name == "mlp":  # 1.3 million parameters
        layers = [keras.Input((784,)), dense(1024, "relu"), dense(512, "relu"), dense(10)]
        x = rng.normal(size=(steps * 128, 784)).astype("float32")
    elif name == "cnn":
        layers = [keras.Input((28, 28, 1))]
        for filters in (32, 64, 64):
            layers += [conv(filters, 3, activation="relu", padding="same")]
            layers += [keras.layers.BatchNormalization(), keras.layers.MaxPooling2D()]
        layers += [keras.layers.Flatten(), dense(128, "relu"), dense(10)]
        x = rng.normal(size=(steps * 64, 28, 28, 1)).astype("float32")
    else:  # 80 layers, 160 small tensors
        layers = [keras.Input((48,)), *(dense(48, "tanh") for _ in range(79)), dense(10)]
        x = rng.normal(size=(steps * 32, 48)).astype("float32")
    model = keras.Sequential(layers)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, x, rng.integers(0, 10, len(x))


def variants(directory):
    """What is compared: a name and the monitor that makes it."""
    import gradwatch

    def plain(name, schedule):
        kinds = (gradwatch.gradients, gradwatch.weights)
        return gradwatch.Monitor(
            Path(directory, name),
            sinks=[gradwatch.Store(), gradwatch.TensorBoard()],
            watch=[kind(every=schedule) for kind in kinds],
            diagnose=False,
        )

    return {
        "Monitor(dir)": gradwatch.Monitor(Path(directory, "default")),  # A budget of 1 %.
        "Monitor(dir, every=1)": gradwatch.Monitor(Path(directory, "typed"), every=1),
        "bare again": None,
        "never": plain("never", gradwatch.schedule.never()),
        "every 10th": plain("tenth", 10),
        "every step": plain("each", 1),
    }


def measure(name, rounds, steps, chosen):
    """Seconds per step, wall and CPU, of each variant in each round, and of the bare beside it."""
    model, x, y = build(name, steps)
    with tempfile.TemporaryDirectory() as directory:
        monitors = {v: m for v, m in variants(directory).items() if v in chosen}

        def fit(monitor):
            start = clocks()
            model.fit(
                x,
                y,
                batch_size=len(x) // steps,
                callbacks=[monitor] if monitor else [],
                verbose=0,
                shuffle=False,
            )
            return (clocks() - start) / steps

        if rounds == 0:  # The first fit of one, or a bare one.
            return {"first": fit(next(iter(monitors.values()), None)) * steps}
        for monitor in monitors.values():  # Compile; and have the default find its interval.
            settles = monitor is not None and monitor.cost.budget is not None
            for _ in range(-(-SETTLING // steps) if settles else 1):
                fit(monitor)
        times, beside = turns(fit, monitors, rounds)
        costs = {v: monitor.cost_facts() for v, monitor in monitors.items() if monitor is not None}
    return {"warm": times, "beside": beside, "cost": costs}


def row(label, own, beside):
    """A line of the table: for each clock the median, the bare one, and the ratio of rounds."""
    cells = []
    for clock in (0, 1):
        pairs = [(a[clock], b[clock]) for a, b in zip(own, beside, strict=True)]
        middle, bare = (1e3 * statistics.median(each) for each in zip(*pairs, strict=True))
        ratios = sorted(a / b for a, b in pairs)
        spread = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else ""
        cells.append(f"{middle:.2f} | {bare:.2f} | x{statistics.median(ratios):.2f}{spread}")
    return f"| {' | '.join(label)} | {' | '.join(cells)} |"


def table(results):
    lines = [
        "| backend | model | variant | fit | ms per step | bare | ratio | CPU ms | bare | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for backend, models in results.items():
        for name, result in models.items():
            for variant, seconds in result["first"].items():
                per_step = [[each / result["steps"] for each in seconds]]
                bare = [[each / result["steps"] for each in result["first"]["bare"]]]
                if variant != "bare":
                    lines.append(row((backend, name, variant, "first"), per_step, bare))
            for variant, values in result["warm"].items():
                chosen = result["cost"].get(variant, {}).get("interval")
                label = f"{variant}: every {chosen}" if chosen else variant
                lines.append(row((backend, name, label, "warm"), values, result["beside"][variant]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="steps of each fit; else some, by the model")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=[*VARIANTS, "bare"])
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        steps = args.steps or STEPS[args.worker]
        answer(measure(args.worker, args.rounds, steps, args.variants))
        return
    results = {}
    for backend in args.backends:
        results[backend] = {}
        for name in args.models:
            print(f"{backend} {name} ...", file=sys.stderr, flush=True)
            steps = args.steps or STEPS[name]

            def run(rounds, variants, name=name, steps=steps, backend=backend):
                options = ["--worker", name, "--rounds", rounds, "--steps", steps]
                options += ["--variants", *variants]
                return worker(__file__, options, KERAS_BACKEND=backend)

            typed = [variant for variant in TYPED if variant in args.variants]
            ways = ["bare", *typed] if typed else []
            first = {way: run(0, [way])["first"] for way in ways}
            own = {"steps": steps, "first": first, **run(args.rounds, args.variants)}
            results[backend][name] = own
            print(table({backend: {name: own}}), file=sys.stderr, flush=True)
    text = f"Machine: {machine()}. {args.rounds} rounds.\n\n{table(results)}"
    keep("overhead-cpu", text, {"machine": machine(), "results": results}, args.write)


if __name__ == "__main__":
    main()
