"""The first and the second `fit` of a model, as typed, beside bare ones.

    python benchmarks/first_fit.py                                  # JAX, 160 tensors, one round
    python benchmarks/first_fit.py --backend tensorflow --layers 40 --steps 500 --rounds 3

Each way has a process of its own, and they take turns. `Monitor(dir)` compiles the measured step
while Keras's own steps train; `Monitor(dir, every=1)` waits for it. The second fit is of the same
model, with another monitor. Ratios are to the bare fits of the same round, in wall time and in the
CPU time of all threads: on a busy machine the latter says more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = ("bare", "Monitor(dir)", "Monitor(dir, every=1)")


def work(way, layers, steps):
    import keras
    import numpy as np

    import gradwatch

    x = inputs = keras.Input((32,))
    for _ in range(layers):
        x = keras.layers.Dense(48, activation="tanh")(x)
    model = keras.Model(inputs, keras.layers.Dense(4)(x))
    model.compile("adam", "mse")
    data = np.random.default_rng(0).normal(size=(16 * steps, 32)).astype("float32")
    options = {"every": 1} if "every" in way else {}
    found = []
    for _ in range(2):
        callbacks = []
        if way != "bare":
            callbacks = [gradwatch.Monitor(tempfile.mkdtemp(), **options)]
        wall, cpu = time.perf_counter(), time.process_time()
        model.fit(data, data[:, :4], batch_size=16, verbose=0, callbacks=callbacks)
        measured = callbacks[0].cost.measured_steps if callbacks else 0
        found.append([time.perf_counter() - wall, time.process_time() - cpu, measured])
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="jax", choices=["jax", "tensorflow"])
    parser.add_argument("--layers", type=int, default=79)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--work", choices=WAYS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.layers, given.steps)
        return
    environment = os.environ | {"KERAS_BACKEND": given.backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, __file__, f"--layers={given.layers}", f"--steps={given.steps}"]
    rounds = []
    for _ in range(given.rounds):
        taken = {}
        for way in WAYS:
            done = subprocess.run(
                [*command, "--work", way],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            taken[way] = json.loads(done.stdout.splitlines()[-1])
        rounds.append(taken)
    print(f"{given.backend}, {2 * given.layers + 2} tensors, {given.steps} steps a fit")
    print("| | fit | wall | ratio | CPU | ratio | steps measured |\n|---|---|---|---|---|---|---|")
    for way in WAYS:
        for fit, name in enumerate(("first", "second")):
            cells = []
            for which in (0, 1):
                seconds = statistics.median(r[way][fit][which] for r in rounds)
                ratio = statistics.median(
                    r[way][fit][which] / r["bare"][fit][which] for r in rounds
                )
                cells.append(f"{seconds:.1f} s | x{ratio:.2f}")
            measured = statistics.median(r[way][fit][2] for r in rounds)
            print(f"| `{way}` | {name} | {' | '.join(cells)} | {measured:g} |", flush=True)


if __name__ == "__main__":
    main()
