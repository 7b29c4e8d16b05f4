"""What a measured step of Keras on torch adds to the thread that trains, apart from arithmetic.

    KERAS_BACKEND=torch python benchmarks/torch_host.py

Where torch runs eagerly on a GPU, the Python of a step is what takes its time, so this is what a
measurement costs there. A transformer of 259 tensors, as many as that of `overhead_gpu.py`, but so
small that nothing is to be computed; the time of the thread that trains, in a step of which every
one is measured, and of all threads. Variants take turns.
"""

import statistics
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import torch
from small_transformer import transformer

import gradwatch

LENGTH, VOCABULARY, BATCH, STEPS, ROUNDS = 8, 50, 2, 20, 7


class Clock(keras.callbacks.Callback):
    """Milliseconds of each step, of this thread and of all."""

    def __init__(self):
        super().__init__()
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append((time.thread_time(), time.process_time()))

    def steps(self):
        return 1e3 * np.diff(self.ends, axis=0)[2:]


def monitors(directory):
    def monitor(name, **options):
        sinks = [gradwatch.Store(), gradwatch.TensorBoard()]
        return gradwatch.Monitor(Path(directory, name), sinks=sinks, **options)

    both = [gradwatch.gradients(every=1), gradwatch.weights(every=1)]
    return {
        "bare": None,
        "gradients and weights": monitor("both", watch=both, diagnose=False),
        "default": monitor("default", every=1),
    }


def main():
    torch.set_num_threads(1)
    model = transformer(LENGTH, VOCABULARY, width=16, depth=16, heads=2)
    shape = (STEPS * BATCH, LENGTH)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, shape).astype("int32")

    def fit(monitor):
        clock = Clock()
        callbacks = [monitor, clock] if monitor else [clock]
        model.fit(tokens, tokens, BATCH, verbose=0, callbacks=callbacks, shuffle=False)
        return np.median(clock.steps(), axis=0)

    with tempfile.TemporaryDirectory() as directory:
        variants = monitors(directory)
        for monitor in variants.values():
            fit(monitor)
        found = {name: [] for name in variants}
        for _ in range(ROUNDS):
            for name, monitor in variants.items():
                found[name].append(fit(monitor))
    print(f"{len(model.weights)} tensors, {ROUNDS} rounds of {STEPS} steps, medians\n")
    print("| variant | ms of the thread that trains | added | spread | added, all threads |")
    print("|---|---|---|---|---|")
    bare = np.array(found["bare"])
    for name, times in found.items():
        added = np.array(times) - bare
        middle, of_all = np.median(added, axis=0)
        spread = f"{added[:, 0].min():.1f} to {added[:, 0].max():.1f}"
        own = statistics.median(each[0] for each in times)
        print(f"| {name} | {own:.1f} | {middle:.1f} | {spread} | {of_all:.1f} |")


if __name__ == "__main__":
    main()
