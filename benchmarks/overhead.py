"""What the monitor adds to a step of Keras `fit` on a CPU.

Runs each backend and model in a process of its own, since Keras has one backend a process:

    python benchmarks/overhead.py --write                # all, some minutes
    python benchmarks/overhead.py --backends jax --models mlp --rounds 5
    python benchmarks/overhead.py --models mlp --steps 1000 --variants "bare again" default

Within a process all variants train one and the same model, since on a CPU two models of one
shape differ in speed by where their memory lies. All are warmed up, and then they take turns, with
a bare `fit` between any two; a ratio is to the bare ones before and after, so that a slow spell
of the machine falls on both. "bare again" shows what is noise. Each turn is one epoch of a
`fit`, its beginning and end included. The default is given time to settle before.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from common import answer, keep, machine, row, turns, worker

BACKENDS = ("tensorflow", "jax", "torch")
MODELS = ("mlp", "cnn", "deep")
VARIANTS = ("bare again", "never", "default", "every 10th", "every step")
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
    else:  # 100 layers, 200 small tensors
        layers = [keras.Input((64,)), *(dense(64, "tanh") for _ in range(99)), dense(10)]
        x = rng.normal(size=(steps * 64, 64)).astype("float32")
    model = keras.Sequential(layers)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, x, rng.integers(0, 10, len(x))


def variants(directory):
    """What is compared: a name and the monitor that makes it."""
    import gradwatch

    def monitor(name, **options):
        sinks = [gradwatch.Store(), gradwatch.TensorBoard()]
        return gradwatch.Monitor(Path(directory, name), sinks=sinks, **options)

    def every(schedule):
        return [kind(every=schedule) for kind in (gradwatch.gradients, gradwatch.weights)]

    def plain(name, schedule):
        """Gradients and weights alone: a diagnosis wants updates and outputs as well."""
        return monitor(name, watch=every(schedule), diagnose=False)

    return {
        "bare again": None,
        "never": plain("never", gradwatch.schedule.never()),
        "default": monitor("default"),  # A budget of 1 %, with diagnosis.
        "every 10th": plain("tenth", 10),
        "every step": plain("each", 1),
    }


def measure(name, rounds, steps, chosen):
    """Milliseconds per step of each variant in each round, and of the bare ones beside it."""
    model, x, y = build(name, steps)

    def fit(monitor):
        start = time.perf_counter()
        model.fit(
            x,
            y,
            batch_size=len(x) // steps,
            callbacks=[monitor] if monitor else [],
            verbose=0,
            shuffle=False,
        )
        return 1e3 * (time.perf_counter() - start) / steps

    with tempfile.TemporaryDirectory() as directory:
        monitors = {v: m for v, m in variants(directory).items() if v in chosen}
        for monitor in monitors.values():  # Compile; and have the default find its interval.
            settles = monitor is not None and monitor.cost.budget is not None
            for _ in range(-(-SETTLING // steps) if settles else 1):
                fit(monitor)
        times, beside = turns(fit, monitors, rounds)
        costs = {v: monitor.cost_facts() for v, monitor in monitors.items() if monitor is not None}
    return {"ms_per_step": times, "bare_beside": beside, "cost": costs}


def table(results):
    lines = [
        "| backend | model | variant | ms per step (median) | spread | against bare "
        "| bare beside it, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for backend, models in results.items():
        for name, result in models.items():
            for variant, values in result["ms_per_step"].items():
                chosen = result["cost"].get(variant, {}).get("interval")
                label = f"{variant}: every {chosen}" if chosen else variant
                bare = result["bare_beside"][variant]
                middle = statistics.median(bare)
                lines.append(f"{row((backend, name, label), values, bare)} {middle:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="steps of each fit; else some, by the model")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
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
            options = ["--worker", name, "--rounds", args.rounds, "--variants", *args.variants]
            options += ["--steps", args.steps] if args.steps else []
            results[backend][name] = worker(__file__, options, KERAS_BACKEND=backend)
    text = f"Machine: {machine()}. {args.rounds} rounds.\n\n{table(results)}"
    keep("overhead-cpu", text, {"machine": machine(), "results": results}, args.write)


if __name__ == "__main__":
    main()
