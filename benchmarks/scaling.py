"""How the cost of measuring grows: with parameters, with tensors, with the interval.

    python benchmarks/scaling.py --write                 # some minutes
    python benchmarks/scaling.py --backends jax

Models of dense layers, in Keras `fit`: few tensors of many parameters, many tensors of few,
and one model at several intervals. Batches are small, so that a step does little besides
going through the parameters: the worst case for measuring. Reported is what a measured
step adds; and for the interval, what it adds to a step on average. Also what the first
measured step takes longer than the next: the compilation of the measured step.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from common import answer, keep, machine, row, worker

BACKENDS = ("tensorflow", "jax", "torch")
STEPS = 20
# Width and number of layers.
PARAMETERS = {"10^4": (100, 1), "10^5": (316, 1), "10^6": (1000, 1), "10^7": (3162, 1)}
TENSORS = {"20": (16, 10), "100": (16, 50), "400": (16, 200), "1000": (16, 500)}
INTERVALS = (1, 2, 5, 10, 100)


def build(width, layers):
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    stack = [keras.Input((width,)), *(keras.layers.Dense(width, "tanh") for _ in range(layers))]
    model = keras.Sequential(stack)
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(STEPS * 4, width)).astype("float32")
    return model, x


def take_turns(variants, width, layers, rounds):
    """Milliseconds per step of each variant in each round, and seconds of its first fit."""
    runs = {name: (*build(width, layers), monitor) for name, monitor in variants.items()}
    times, first = {name: [] for name in runs}, {}
    for turn in range(rounds + 1):
        for name, (model, x, monitor) in runs.items():
            callbacks = [monitor] if monitor else []
            start = time.perf_counter()
            model.fit(x, x, batch_size=4, callbacks=callbacks, verbose=0, shuffle=False)
            took = time.perf_counter() - start
            if turn:
                times[name].append(1e3 * took / STEPS)
            else:
                first[name] = took
    return {"ms_per_step": times, "seconds_of_first_fit": first}


def measure(rounds):
    import gradwatch

    def monitor(directory, every):
        watch = [kind(every=every) for kind in (gradwatch.gradients, gradwatch.weights)]
        return gradwatch.Monitor(
            Path(directory, str(every)), watch=watch, sinks=[gradwatch.Store()], diagnose=False
        )

    results = {}
    for what, models in {"parameters": PARAMETERS, "tensors": TENSORS}.items():
        for name, shape in models.items():
            with tempfile.TemporaryDirectory() as directory:
                variants = {"bare": None, "every step": monitor(directory, 1)}
                results[f"{what} {name}"] = take_turns(variants, *shape, rounds)
    with tempfile.TemporaryDirectory() as directory:
        variants = {f"every {n}": monitor(directory, n) for n in INTERVALS}
        shape = PARAMETERS["10^6"]
        results["interval"] = take_turns({"bare": None, **variants}, *shape, rounds)
    return results


def table(results):
    lines = [
        "| backend | what grows | variant | ms per step (median) | spread | against bare "
        "| first fit, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for backend, of_backend in results.items():
        for what, result in of_backend.items():
            times = result["ms_per_step"]
            for variant, values in times.items():
                first = result["seconds_of_first_fit"][variant]
                lines.append(
                    f"{row((backend, what, variant), values, times['bare'])} {first:.1f} |"
                )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        answer(measure(args.rounds))
        return
    results = {}
    for backend in args.backends:
        print(f"{backend} ...", file=sys.stderr, flush=True)
        options = ["--worker", "--rounds", args.rounds]
        results[backend] = worker(__file__, options, KERAS_BACKEND=backend)
    text = f"Machine: {machine()}. {args.rounds} rounds of {STEPS} steps.\n\n{table(results)}"
    keep("scaling", text, {"machine": machine(), "results": results}, args.write)


if __name__ == "__main__":
    main()
