"""What it costs to keep steps, so that one with a NaN can be run again.

Trainings under `Monitor(dir)` take turns with keeping and without. Printed are the median time of a
step, and the ratio of the two over the rounds.

    KERAS_BACKEND=jax python benchmarks/keeping.py [rounds] [steps]
"""

import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import gradwatch
from gradwatch.capture.keras import fit_capture

BATCH = 32
MAKE_KEEPER = fit_capture.make_keeper


class Clock(keras.callbacks.Callback):
    """The seconds from the beginning of each step to that of the next."""

    async_safe = True

    def __init__(self):
        super().__init__()
        self.times = []

    def on_train_batch_begin(self, batch, logs=None):
        self.times.append(time.perf_counter())

    def middle(self):
        # Not the first: compiling.
        return statistics.median(np.diff(self.times[100:]))


def mlp():
    layers = keras.layers
    return [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)]


def convnet():
    layers = keras.layers
    return [
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(10),
    ]


def seconds(layers, keeps, steps):
    """The median step, and the whole time of all but the first 100."""
    keras.utils.set_random_seed(0)
    fit_capture.make_keeper = MAKE_KEEPER if keeps else lambda *args: None
    model = keras.Sequential([keras.Input((28, 28, 1)), *layers()])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    rng = np.random.default_rng(0)
    x = rng.random((BATCH * steps, 28, 28, 1), dtype="float32")
    clock = Clock()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        callbacks = [clock, gradwatch.Monitor(folder, diagnose=False)]
        y = rng.integers(0, 10, len(x))
        model.fit(x, y, batch_size=BATCH, verbose=0, callbacks=callbacks)
    return clock.middle(), clock.times[-1] - clock.times[100]


def main():
    rounds, steps = (int(x) for x in (*sys.argv[1:], *("5", "1500")[len(sys.argv) - 1 :]))
    for layers in (mlp, convnet):
        for keeps in (True, False):
            seconds(layers, keeps, 120)
        medians, wholes, bare = [], [], []
        for _ in range(rounds):
            kept, kept_whole = seconds(layers, True, steps)
            plain, plain_whole = seconds(layers, False, steps)
            medians.append(kept / plain)
            wholes.append(kept_whole / plain_whole)
            bare.append(plain * 1e6)
        print(
            f"{keras.backend.backend()} {layers.__name__}: step {statistics.median(bare):.0f} us, "
            f"keeping x{statistics.median(medians):.4f} of the median step, "
            f"x{statistics.median(wholes):.4f} of the whole ({rounds} rounds)",
            flush=True,
        )


if __name__ == "__main__":
    main()
