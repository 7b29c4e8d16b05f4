"""What watching the optimizer's state costs at every step: CPU time of a step, in turns.

    python benchmarks/optimizer_state_cost.py            # all backends, each in its own process
    python benchmarks/optimizer_state_cost.py keras-jax  # one of them

An MLP with 1.3 M parameters and Adam, batches of 128. `user + sys` of the process, background
threads included, which other work on the machine disturbs less than the time on the clock.
Compared are training alone, a monitor that is never due again, gradients and weights at every
step, and these with updates, and with the optimizer's state, which brings updates.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise

WARM, STEPS, ROUNDS = 10, 30, 2
PLACES = ("torch", "keras-torch", "keras-jax", "keras-tensorflow")
WAYS = ("bare", "not due", "gradients and weights", "with updates", "with state")


def watch_of(way):
    import gradwatch

    every = 10**9 if way == "not due" else 1
    watch = [gradwatch.gradients(every=every), gradwatch.weights(every=every)]
    if way == "with updates":
        watch.append(gradwatch.updates(every=every))
    if way in ("with state", "not due"):
        watch.append(gradwatch.optimizer_state(every=every))
    return watch


def monitor_of(way, directory):
    import gradwatch

    options = {"watch": watch_of(way), "sinks": [gradwatch.Store()], "diagnose": False}
    return gradwatch.Monitor(directory, **options)


class Clock:
    """CPU seconds of each step after the first `WARM`."""

    def __init__(self):
        self.times = []

    def tick(self):
        self.times.append(time.process_time())

    @property
    def per_step(self):
        return (self.times[-1] - self.times[WARM]) / (len(self.times) - 1 - WARM)


def in_keras(way, directory):
    import keras
    import numpy as np

    random = np.random.default_rng(0)
    x = random.normal(size=(128 * (WARM + STEPS), 784)).astype("float32")
    y = random.integers(10, size=len(x))
    layers = [keras.layers.Dense(n, activation="relu") for n in (1024, 512)]
    model = keras.Sequential([keras.Input((784,)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(), loss)
    clock = Clock()

    class Ticks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            clock.tick()

    callbacks = [Ticks()] if way == "bare" else [Ticks(), monitor_of(way, directory)]
    model.fit(x, y, batch_size=128, verbose=0, callbacks=callbacks)
    return clock.per_step


def in_torch(way, directory):
    import torch

    import gradwatch

    torch.manual_seed(0)
    sizes = (784, 1024, 512, 10)
    layers = []
    for a, b in pairwise(sizes):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters())
    monitor = None
    if way != "bare":
        sinks = [gradwatch.Store()]
        options = {"watch": watch_of(way), "sinks": sinks, "diagnose": False}
        monitor = gradwatch.watch(model, optimizer, directory, **options)
    clock = Clock()
    for _ in range(WARM + STEPS):
        x, y = torch.randn(128, 784), torch.randint(10, (128,))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        clock.tick()
    if monitor is not None:
        monitor.close()
    return clock.per_step


def measure(place):
    run = in_torch if place == "torch" else in_keras
    found = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as directory:
                found[way].append(run(way, directory))
    return {way: statistics.median(times) for way, times in found.items()}


def main():
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    ways = " | ".join(WAYS)
    print(f"| CPU time of a step | {ways} | state over gradients and weights |")
    print("|---" * 7 + "|")
    for place in PLACES:
        backend = place.removeprefix("keras-")
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, __file__, place]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.strip().splitlines()[-1])
        bare = found["bare"]
        cells = [f"{1000 * bare:.1f} ms", *(f"x{found[way] / bare:.2f}" for way in WAYS[1:])]
        ratio = found["with state"] / found["gradients and weights"]
        print(f"| {place} | " + " | ".join(cells) + f" | x{ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
