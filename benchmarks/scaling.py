"""How the cost of measuring grows: with parameters, with tensors, with the interval.

    python benchmarks/scaling.py --write                 # a quarter of an hour
    python benchmarks/scaling.py --backends jax

Models of dense layers, in Keras `fit`: few tensors of many parameters, many tensors of few,
and one model at several intervals. Batches are small, so that a step does little besides
going through the parameters: the worst case for measuring. ReportedLoss is what a measured
step adds; and for the interval, what it adds to a step on average. As in `overhead.py`, all
variants train one model, with a bare `fit` between any two. Also what the first `fit` takes,
bare and measured: most of it is compiling. `kernel.py` goes on from here, to 10^9 elements and
10,000 tensors, without a model.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from common import answer, keep, machine, row, turns, worker

BACKENDS = ("tensorflow", "jax", "torch")
# Width and number of layers, and steps of a fit: enough that its beginning and end weigh little.
PARAMETERS = {
    "10^4 parameters": (100, 1, 400),
    "10^5 parameters": (316, 1, 400),
    "10^6 parameters": (1000, 1, 200),
    "10^7 parameters": (3162, 1, 40),
    "10^8 parameters": (10_000, 1, 8),
}
TENSORS = {
    "20 tensors": (16, 10, 200),
    "100 tensors": (16, 50, 100),
    "400 tensors": (16, 200, 40),
    "1000 tensors": (16, 500, 20),
}
INTERVAL = "interval, 10^6 parameters"
CASES = {**PARAMETERS, **TENSORS, INTERVAL: PARAMETERS["10^6 parameters"]}
INTERVALS = (1, 2, 5, 10, 100)
BATCH = 4


def build(width, layers, steps):
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    stack = [keras.Input((width,)), *(keras.layers.Dense(width, "tanh") for _ in range(layers))]
    model = keras.Sequential(stack)
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(steps * BATCH, width)).astype("float32")
    return model, x


def measure(case, rounds):
    """Milliseconds a step of each variant and of the bare ones beside it; seconds of first fits."""
    import gradwatch

    width, layers, steps = CASES[case]
    model, x = build(width, layers, steps)

    def fit(monitor):
        callbacks = [monitor] if monitor else []
        start = time.perf_counter()
        model.fit(x, x, batch_size=BATCH, callbacks=callbacks, verbose=0, shuffle=False)
        return 1e3 * (time.perf_counter() - start) / steps

    with tempfile.TemporaryDirectory() as directory:

        def monitor(every):
            watch = [kind(every=every) for kind in (gradwatch.gradients, gradwatch.weights)]
            sinks = [gradwatch.Store()]
            return gradwatch.Monitor(
                Path(directory, str(every)), watch=watch, sinks=sinks, diagnose=False
            )

        monitors = {f"every {n}": monitor(n) for n in (INTERVALS if case == INTERVAL else (1,))}
        first = {"bare": fit(None) * steps / 1e3}
        first |= {name: fit(each) * steps / 1e3 for name, each in monitors.items()}
        times, beside = turns(fit, monitors, rounds)
    return {"ms_per_step": times, "bare_beside": beside, "seconds_of_first_fit": first}


def table(results):
    lines = [
        "| backend | what grows | variant | ms per step (median) | spread | against bare "
        "| added ms | first fit, s | bare first fit, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for backend, of_backend in results.items():
        for case, result in of_backend.items():
            first = result["seconds_of_first_fit"]
            for variant, values in result["ms_per_step"].items():
                bare = result["bare_beside"][variant]
                added = sorted(v - b for v, b in zip(values, bare, strict=True))[len(bare) // 2]
                lines.append(
                    f"{row((backend, case, variant), values, bare)} {added:.2f} "
                    f"| {first[variant]:.1f} | {first['bare']:.1f} |"
                )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--cases", nargs="+", default=tuple(CASES), choices=tuple(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        answer(measure(args.worker, args.rounds))
        return
    results = {}
    for backend in args.backends:
        results[backend] = {}
        for case in args.cases:
            print(f"{backend}, {case} ...", file=sys.stderr, flush=True)
            options = ["--worker", case, "--rounds", args.rounds]
            results[backend][case] = worker(__file__, options, KERAS_BACKEND=backend)
    text = f"Machine: {machine()}. {args.rounds} rounds.\n\n{table(results)}"
    keep("scaling-cpu", text, {"machine": machine(), "results": results}, args.write)


if __name__ == "__main__":
    main()
