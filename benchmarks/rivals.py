"""What others add to a training step, and what gradwatch adds that measures more, side by side.

    pip install "gradwatch[benchmark]"        # wandb
    python benchmarks/rivals.py --write       # some minutes

Three settings, each in a process of its own, all on a model of 1.3 million parameters:

- `torch`: a plain loop; the real `wandb.watch(log="all", log_freq=1)`, offline, which keeps
  histograms of all gradients and parameters;
- `fit`: Keras `fit` on TensorFlow; Keras's own `TensorBoard(histogram_freq=1)`, which keeps
  histograms of the weights once an epoch and no gradients; and a callback that computes the
  gradients of the batch a second time and writes their histograms;
- `tape`: an eager loop with `tf.GradientTape`; `tf.summary.histogram` of all gradients and
  variables.

gradwatch measures the training step's own gradients and all weights at every step: ten
numbers of each, and in the variants "with histograms" the histograms as well. Variants
have models of their own and take turns, warm.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import answer, keep, machine, row, worker

SETTINGS = {"torch": "torch", "fit": "tensorflow", "tape": "tensorflow"}
BATCH, STEPS, SIZES = 128, 25, (784, 1024, 512, 10)


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS * BATCH, SIZES[0])).astype("float32")
    return x, rng.integers(0, SIZES[-1], len(x))


def watches(histogram):
    import gradwatch

    return [kind(histogram=histogram) for kind in (gradwatch.gradients, gradwatch.weights)]


def monitor_of(directory, name, histogram):
    import gradwatch

    sinks = [gradwatch.Store(), gradwatch.TensorBoard()]
    return gradwatch.Monitor(
        Path(directory, name), every=1, watch=watches(histogram), sinks=sinks, diagnose=False
    )


def torch_variants(directory, at_end):
    """Functions that train for a round, by the name of what watches them."""
    import torch
    import wandb

    import gradwatch

    x, y = map(torch.from_numpy, data())

    def training(prepare):
        torch.manual_seed(0)
        layers = []
        for wide, narrow in itertools.pairwise(SIZES):
            layers += [torch.nn.Linear(wide, narrow), torch.nn.ReLU()]
        module = torch.nn.Sequential(*layers[:-1])
        optimizer = torch.optim.Adam(module.parameters())
        after = prepare(module, optimizer)

        def train():
            for i in range(STEPS):
                batch = slice(i * BATCH, (i + 1) * BATCH)
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(module(x[batch]), y[batch])
                loss.backward()
                optimizer.step()
                after(loss)

        return train

    def watched_by_wandb(module, optimizer):
        run = wandb.init(mode="offline", dir=directory, project="benchmark")
        run.watch(module, log="all", log_freq=1)
        at_end.append(run.finish)
        return lambda loss: run.log({"loss": loss})

    def watched_by_us(name, histogram):
        def prepare(module, optimizer):
            monitor = monitor_of(directory, name, histogram)
            gradwatch.watch(module, optimizer, monitor)
            at_end.append(monitor.close)
            return lambda loss: monitor.record(loss=loss)

        return prepare

    return {
        "bare": training(lambda module, optimizer: lambda loss: None),
        "gradwatch": training(watched_by_us("plain", False)),
        "gradwatch with histograms": training(watched_by_us("histograms", True)),
        'wandb.watch(log="all", log_freq=1)': training(watched_by_wandb),
    }


def keras_model():
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.Input(SIZES[:1]), *(keras.layers.Dense(n, "relu") for n in SIZES[1:-1])]
    model = keras.Sequential([*layers, keras.layers.Dense(SIZES[-1])])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def fit_variants(directory, at_end):
    import keras
    import tensorflow as tf

    x, y = data()

    class Recompute(keras.callbacks.Callback):
        """Computes the gradients of the batch once more, and writes their histograms."""

        def __init__(self):
            super().__init__()
            self.writer = tf.summary.create_file_writer(str(Path(directory, "recompute")))
            self.seen = 0

        def on_train_batch_end(self, batch, logs=None):
            part = slice(batch * BATCH, (batch + 1) * BATCH)
            variables = [v.value for v in self.model.trainable_variables]
            with tf.GradientTape() as tape:
                loss = self.model.compute_loss(y=y[part], y_pred=self.model(x[part]))
            gradients = tape.gradient(loss, variables)
            self.seen += 1
            with self.writer.as_default(step=self.seen):
                for variable, gradient in zip(
                    self.model.trainable_variables, gradients, strict=True
                ):
                    tf.summary.histogram(f"gradient/{variable.path}", gradient)

    def training(callbacks):
        model = keras_model()
        return lambda: model.fit(
            x, y, batch_size=BATCH, verbose=0, shuffle=False, callbacks=callbacks
        )

    keras_own = keras.callbacks.TensorBoard(Path(directory, "keras"), histogram_freq=1)
    return {
        "bare": training([]),
        "gradwatch": training([monitor_of(directory, "plain", False)]),
        "gradwatch, histograms each epoch": training([monitor_of(directory, "epoch", "epoch")]),
        "Keras TensorBoard(histogram_freq=1)": training([keras_own]),
        "gradwatch with histograms": training([monitor_of(directory, "histograms", True)]),
        "recompute on the batch": training([Recompute()]),
    }


def tape_variants(directory, at_end):
    import tensorflow as tf

    x, y = data()

    def training(make_tape, after):
        model = keras_model()
        variables = [v.value for v in model.trainable_variables]

        def train():
            for i in range(STEPS):
                part = slice(i * BATCH, (i + 1) * BATCH)
                with make_tape() as tape:
                    loss = model.compute_loss(y=y[part], y_pred=model(x[part], training=True))
                gradients = tape.gradient(loss, variables)
                model.optimizer.apply(gradients, model.trainable_variables)
                after(model, gradients)

        return train

    writer = tf.summary.create_file_writer(str(Path(directory, "summary")))
    steps = iter(range(10**9))

    def write_histograms(model, gradients):
        with writer.as_default(step=next(steps)):
            for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
                tf.summary.histogram(f"gradient/{variable.path}", gradient)
                tf.summary.histogram(f"weight/{variable.path}", variable.value)

    plain = monitor_of(directory, "plain", False)
    full = monitor_of(directory, "histograms", True)
    at_end.extend([plain.close, full.close])
    return {
        "bare": training(tf.GradientTape, lambda *_: None),
        "gradwatch": training(plain.tape, lambda *_: None),
        "gradwatch with histograms": training(full.tape, lambda *_: None),
        "tf.summary.histogram": training(tf.GradientTape, write_histograms),
    }


def measure(setting, rounds):
    """Milliseconds per step of each variant, in each round."""
    make = {"torch": torch_variants, "fit": fit_variants, "tape": tape_variants}[setting]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        at_end = []
        variants = make(directory, at_end)
        times = {name: [] for name in variants}
        for turn in range(rounds + 1):
            for name, train in variants.items():
                start = time.perf_counter()
                train()
                if turn:  # The first turn compiles.
                    times[name].append(1e3 * (time.perf_counter() - start) / STEPS)
        for end in at_end:
            end()
    return times


def table(results):
    lines = [
        "| setting | variant | ms per step (median) | spread | against bare | ms added |",
        "|---|---|---|---|---|---|",
    ]
    for setting, times in results.items():
        for variant, values in times.items():
            pairs = zip(values, times["bare"], strict=True)
            added = statistics.median(value - bare for value, bare in pairs)
            lines.append(f"{row((setting, variant), values, times['bare'])} {added:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        answer(measure(args.worker, args.rounds))
        return
    results = {}
    for setting in args.settings:
        print(f"{setting} ...", file=sys.stderr, flush=True)
        options = ["--worker", setting, "--rounds", args.rounds]
        results[setting] = worker(__file__, options, KERAS_BACKEND=SETTINGS[setting])
    text = f"Machine: {machine()}. {args.rounds} rounds of {STEPS} steps.\n\n{table(results)}"
    keep("rivals", text, {"machine": machine(), "ms_per_step": results}, args.write)


if __name__ == "__main__":
    main()
