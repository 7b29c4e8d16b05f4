"""The peak of live tensor bytes in a training step of Keras on torch, bare and measured.

    KERAS_BACKEND=torch python benchmarks/torch_memory.py

On the CPU, where every tensor's birth and death can be seen (`live_bytes.py`), so the numbers are
the same at each run. Two transformers: one whose activations are most of the memory, as in most
trainings, and one with so small a batch that the optimizer's step is the peak.
"""

import gc
import tempfile
import warnings
from pathlib import Path

import keras
import numpy as np
from live_bytes import LiveBytes
from small_transformer import transformer

import gradwatch
from gradwatch.measure import torch_eager

LENGTH, VOCABULARY = 64, 200
CASES = {"activations": 32, "optimizer": 1}
STEPS = 3


class Peaks(keras.callbacks.Callback):
    """The peak of each step."""

    def __init__(self, live):
        super().__init__()
        self.live, self.found = live, []

    def on_train_batch_begin(self, batch, logs=None):
        gc.collect()
        self.live.restart()

    def on_train_batch_end(self, batch, logs=None):
        self.found.append(self.live.most)


class Nowhere(gradwatch.Sink):
    def write(self, reading):
        pass


def watches():
    """What is measured, by variant; the last of three steps is the one after a measured one."""
    g, w, two = gradwatch.gradients, gradwatch.weights, gradwatch.schedule.at(STEPS + 2)
    return {
        "bare": None,
        "weights, gradients": {"watch": [g(), w()], "diagnose": False},
        "the default of models of more than 50 M parameters": {
            "watch": [g(), w(), gradwatch.outputs(per_unit=True)],
            "diagnose": False,
        },
        "the default of smaller ones": {},
        "outputs and output gradients": {
            "watch": [gradwatch.outputs(), gradwatch.output_gradients()],
            "diagnose": False,
        },
        "the step after a measured one": {
            "watch": [g(every=two), w(every=two)],
            "diagnose": False,
        },
    }


def peak(batch, options, directory):
    """Bytes, those of weights and optimizer included."""
    model = transformer(LENGTH, VOCABULARY, width=256, depth=4, heads=4)
    data = np.random.default_rng(0).integers(0, VOCABULARY, (STEPS * batch, LENGTH)).astype("int32")
    fit = {"batch_size": batch, "verbose": 0, "shuffle": False}
    model.fit(data, data, **fit)  # Now the optimizer has its state.
    live = LiveBytes()
    peaks = Peaks(live)
    callbacks = [peaks]
    if options is not None:
        monitor = gradwatch.Monitor(directory, sinks=[Nowhere()], **{"every": 1} | options)
        callbacks.insert(0, monitor)
    gc.disable()  # Garbage is looked for before each step, and at no other time.
    with live:
        model.fit(data, data, callbacks=callbacks, **fit)
    gc.enable()
    there = sum(v.numel() * v.element_size() for v in (x.value for x in model.variables))
    there += sum(x.value.numel() * x.value.element_size() for x in model.optimizer.variables)
    return there + peaks.found[-1]


def main():
    warnings.simplefilter("ignore")
    # As in models of 400 MB and more, where the share of their parameters decides.
    torch_eager.MOST_WAITING = 0
    print("| most memory in | measured | peak, MB | against bare |\n|---|---|---|---|")
    for case, batch in CASES.items():
        bare = None
        for name, options in watches().items():
            with tempfile.TemporaryDirectory() as directory:
                found = peak(batch, options, Path(directory, "run"))
            bare = bare or found
            print(f"| {case} | {name} | {found / 1e6:.1f} | x{found / bare:.3f} |", flush=True)


if __name__ == "__main__":
    main()
