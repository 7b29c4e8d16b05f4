"""What forwarding to a tracker adds to a step, when it answers and when it never does.

    python benchmarks/forwarding.py [--rounds 7] [--steps 600] [--write]

A NumPy loop of an MLP whose gradients and weights are measured at every step, with the store as
its only sink, and with a `Forward` beside it: to a function that returns at once, and to MLflow at
a server that takes connections and never answers. They take turns, with the bare loop between any
two.
"""

import argparse
import socket
import tempfile
import threading
import warnings
from pathlib import Path

import common
import mlflow
import numpy as np
from mlflow.entities import Run, RunData, RunInfo, RunStatus

import gradwatch
from gradwatch.integrations.forwarding import forward

LAYERS, WIDTH, BATCH = 12, 256, 128


def black_hole():
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    taken = []

    def take():
        while True:
            taken.append(server.accept()[0])

    threading.Thread(target=take, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}"


def to_nowhere(url):
    mlflow.set_tracking_uri(url)
    info = RunInfo("a" * 32, "0", "me", RunStatus.RUNNING, 0, None, "active")
    return gradwatch.Forward(mlflow.ActiveRun(Run(info, RunData())))


def training(steps):
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH, WIDTH))
    start_weights = {f"layer_{i}": random.normal(size=(WIDTH, WIDTH)) / 16 for i in range(LAYERS)}

    def milliseconds(make_sinks):
        """Wall and CPU milliseconds of a step, without the end of the run."""
        weights = dict(start_weights)
        monitor = None
        if make_sinks is not None:
            place = Path(tempfile.mkdtemp()) / "run"
            monitor = gradwatch.Monitor(place, every=1, sinks=make_sinks(), diagnose=False)
        for step in range(steps):
            if step == steps // 4:
                start = common.clocks()
            inputs = [x]
            for weight in weights.values():
                inputs.append(np.tanh(inputs[-1] @ weight))
            error, gradients = inputs[-1], {}
            for name in reversed(weights):
                error = error * (1 - inputs.pop() ** 2)
                gradients[name] = inputs[-1].T @ error
                error = error @ weights[name].T
            weights = {name: weights[name] - 1e-5 * gradients[name] for name in weights}
            if monitor is not None:
                monitor.record(gradients=gradients, variables=weights, loss=np.square(error).mean())
        took = 1000 * (common.clocks() - start) / (steps - steps // 4)
        if monitor is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                monitor.close()
        return took

    return milliseconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    forward.REPORT_TIME = 0.1
    url = black_hole()
    variants = {
        "store": lambda: [gradwatch.Store()],
        "store, forwarding to a function": lambda: [
            gradwatch.Store(),
            gradwatch.Forward(lambda numbers, step: None, report=False),
        ],
        "store, forwarding to a server that never answers": lambda: [
            gradwatch.Store(),
            to_nowhere(url),
        ],
    }
    times, beside = common.turns(training(options.steps), variants, options.rounds)
    lines = [
        f"{common.machine()}; {2 * LAYERS} tensors of {LAYERS} layers, every step measured, "
        f"{options.rounds} rounds of {options.steps} steps. Milliseconds of a step.",
        "",
        "| sinks | wall | range | against bare | CPU | range | against bare |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in variants:
        own, bare = np.array(times[name]), np.array(beside[name])
        cells = []
        for clock in (0, 1):
            cells += common.row([], own[:, clock], bare[:, clock]).strip("| ").split(" | ")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    facts = {
        kind: {name: np.array(own).tolist() for name, own in of.items()}
        for kind, of in {"times": times, "bare": beside}.items()
    }
    common.keep("forwarding-cpu", "\n".join(lines), facts, options.write)


if __name__ == "__main__":
    main()
