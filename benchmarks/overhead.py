"""What the monitor adds to a step of Keras `fit`, next to Keras's own TensorBoard callback.

Runs each backend in a process of its own, since Keras has one backend a process:

    python benchmarks/overhead.py                        # all, a few minutes
    python benchmarks/overhead.py --backends jax --models mlp --rounds 5

Within a process every variant has a model of its own, all are warmed up, and then
they take turns, so that a slow spell of the machine falls on all of them.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BACKENDS = ("tensorflow", "jax", "torch")
MODELS = ("mlp", "cnn", "deep")
STEPS = {"mlp": 60, "cnn": 40, "deep": 40}
RESULTS = Path(__file__).parent / "results"


def build(name):
    """A compiled model and one epoch of data for it."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    dense, conv = keras.layers.Dense, keras.layers.Conv2D
    if name == "mlp":  # 1.3 million parameters
        layers = [keras.Input((784,)), dense(1024, "relu"), dense(512, "relu"), dense(10)]
        x = rng.normal(size=(STEPS[name] * 128, 784)).astype("float32")
    elif name == "cnn":
        layers = [keras.Input((28, 28, 1))]
        for filters in (32, 64, 64):
            layers += [conv(filters, 3, activation="relu", padding="same")]
            layers += [keras.layers.BatchNormalization(), keras.layers.MaxPooling2D()]
        layers += [keras.layers.Flatten(), dense(128, "relu"), dense(10)]
        x = rng.normal(size=(STEPS[name] * 64, 28, 28, 1)).astype("float32")
    else:  # 100 layers, 200 small tensors
        layers = [keras.Input((64,)), *(dense(64, "tanh") for _ in range(99)), dense(10)]
        x = rng.normal(size=(STEPS[name] * 64, 64)).astype("float32")
    model = keras.Sequential(layers)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, x, rng.integers(0, 10, len(x))


def variants(directory):
    """What is compared: a name and the callbacks that make it."""
    import keras

    import gradwatch

    def monitor(every):
        kinds = (gradwatch.gradients, gradwatch.weights)
        return gradwatch.Monitor(
            Path(directory, f"every-{every}"),
            watch=[kind(every=every) for kind in kinds],
            sinks=[gradwatch.TensorBoard(), gradwatch.CSV()],
        )

    keras_own = keras.callbacks.TensorBoard(Path(directory, "keras"), histogram_freq=1)
    return {
        "bare": [],
        "never": [monitor(gradwatch.schedule.never())],
        "every 10th": [monitor(10)],
        "every step": [monitor(1)],
        "Keras TensorBoard(histogram_freq=1)": [keras_own],
    }


def measure(name, rounds):
    """Milliseconds per step of each variant, in each round."""
    with tempfile.TemporaryDirectory() as directory:
        runs = {}
        for variant, callbacks in variants(directory).items():
            model, x, y = build(name)
            runs[variant] = (model, x, y, callbacks)
        times = {variant: [] for variant in runs}
        for turn in range(rounds + 1):
            for variant, (model, x, y, callbacks) in runs.items():
                start = time.perf_counter()
                model.fit(
                    x,
                    y,
                    batch_size=len(x) // STEPS[name],
                    epochs=1,
                    callbacks=callbacks,
                    verbose=0,
                    shuffle=False,
                )
                if turn:  # The first turn compiles.
                    times[variant].append(1e3 * (time.perf_counter() - start) / STEPS[name])
    return times


def table(results):
    lines = [
        "| backend | model | variant | ms per step (median) | spread | against bare |",
        "|---|---|---|---|---|---|",
    ]
    for backend, models in results.items():
        for name, times in models.items():
            # Each round's ratio to the bare run of the same round, then their median.
            for variant, values in times.items():
                ratio = statistics.median(v / b for v, b in zip(values, times["bare"], strict=True))
                lines.append(
                    f"| {backend} | {name} | {variant} | {statistics.median(values):.2f} "
                    f"| {min(values):.2f} to {max(values):.2f} | x{ratio:.2f} |"
                )
    return "\n".join(lines)


def machine():
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print("RESULT " + json.dumps(measure(args.worker, args.rounds)))
        return
    results = {}
    for backend in args.backends:
        results[backend] = {}
        for name in args.models:
            print(f"{backend} {name} ...", file=sys.stderr, flush=True)
            command = [sys.executable, __file__, "--worker", name, "--rounds", str(args.rounds)]
            environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
            done = subprocess.run(
                command, env=environment, check=True, stdout=subprocess.PIPE, text=True
            )
            line = next(t for t in done.stdout.splitlines() if t.startswith("RESULT "))
            results[backend][name] = json.loads(line.removeprefix("RESULT "))
    text = f"Machine: {machine()}. {args.rounds} rounds.\n\n{table(results)}\n"
    print(text)
    if args.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "overhead-cpu.md").write_text(text)
        facts = {"machine": machine(), "ms_per_step": results}
        (RESULTS / "overhead-cpu.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
