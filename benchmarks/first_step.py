"""The first step of known models, the later ones and the memory, as typed, beside bare ones.

    python benchmarks/first_step.py --backends jax --models MobileNetV3Small
    python benchmarks/first_step.py --rounds 3 --write

Models of `keras.applications`, and a transformer of Keras's layers. Each way has a process of its
own, and they take turns. The first step lasts from the call of `fit` to the end of the first batch.
Ratios are to the bare fit of the same round: in wall time, and in the CPU time of all threads,
which says more on a busy machine. By default the measured step is compiled on a thread, which adds
to the CPU time and not to the wall time where a core is free.
"""

import argparse
import resource
import statistics
import tempfile

import numpy as np
from common import answer, clocks, keep, machine, worker

WAYS = {"bare": None, "Monitor(dir)": {}, "Monitor(dir, every=1)": {"every": 1}}
MODELS = ("MobileNetV3Small", "transformer", "EfficientNetB0", "ConvNeXtTiny")
BACKENDS = ("jax", "tensorflow", "torch")
CLASSES = 10


def model_and_inputs(name, side, samples):
    import keras

    rng = np.random.default_rng(0)
    if name == "transformer":
        from small_transformer import transformer

        model = transformer(length=32, vocabulary=CLASSES, width=64, depth=6, heads=4)
        tokens = rng.integers(0, CLASSES, (samples, 32))
        return model, tokens, tokens
    build = getattr(keras.applications, name)
    model = build(weights=None, input_shape=(side, side, 3), classes=CLASSES)
    model.compile("adam", "sparse_categorical_crossentropy")
    x = rng.normal(size=(samples, side, side, 3)).astype("float32")
    return model, x, rng.integers(0, CLASSES, samples)


def work(name, way, side, batch, steps):
    """Wall and CPU seconds of the first step, and of a later one; MiB at most."""
    import keras

    import gradwatch

    model, x, y = model_and_inputs(name, side, batch * steps)
    if model.run_eagerly:
        model.compile("adam", model.loss)
    ends = []

    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            ends.append(clocks())

    options = WAYS[way]
    monitors = [] if options is None else [gradwatch.Monitor(tempfile.mkdtemp(), **options)]
    began = clocks()
    model.fit(x, y, batch_size=batch, verbose=0, callbacks=[*monitors, Ends()])
    later = np.median(np.diff(ends, axis=0), axis=0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answer([*(ends[0] - began), *later, memory])


def table_of(found):
    """Medians over the rounds, and ratios of each round to its bare fit."""
    lines = [
        "| model | backend | way | first step s | ratio | CPU s | ratio | later step ms | ratio "
        "| CPU ratio | peak MiB | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (name, backend), rounds in found.items():
        for way in WAYS:
            middle = [statistics.median(r[way][k] for r in rounds) for k in range(5)]
            to_bare = [
                f"x{statistics.median(r[way][k] / r['bare'][k] for r in rounds):.2f}"
                for k in range(5)
            ]
            cells = [name, backend, f"`{way}`", f"{middle[0]:.1f}", to_bare[0]]
            cells += [f"{middle[1]:.1f}", to_bare[1], f"{1e3 * middle[2]:.0f}", to_bare[2]]
            cells += [to_bare[3], f"{middle[4]:.0f}", to_bare[4]]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--side", type=int, default=32, help="of images, in pixels")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="keep the table in results/")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(*given.work, given.side, given.batch, given.steps)
        return
    sizes = [f"--side={given.side}", f"--batch={given.batch}", f"--steps={given.steps}"]
    found = {}
    for name in given.models:
        for backend in given.backends:
            for _ in range(given.rounds):
                taken = {
                    way: worker(__file__, [*sizes, "--work", name, way], KERAS_BACKEND=backend)
                    for way in WAYS
                }
                found.setdefault((name, backend), []).append(taken)
            text = f"Machine: {machine()}. Images of {given.side} x {given.side} pixels, batches "
            text += f"of {given.batch}, {given.steps} steps; median of {given.rounds} rounds.\n\n"
            facts = [[*key, rounds] for key, rounds in found.items()]
            # After each, since all of them take long.
            keep("first-fit-cpu", text + table_of(found), facts, given.write)


if __name__ == "__main__":
    main()
