"""How much is seen of short trainings under the default budget, and what that costs.

Each training runs bare and with a default monitor in turn, in one process; the bare one first and
last, so that drift shows. With `--busy`, two other processes spin meanwhile.

    KERAS_BACKEND=torch python benchmarks/small_trainings.py [--busy] [--rounds 3] [--only mlp]
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
import warnings

import keras
import numpy as np

import gradwatch


def lstm():
    """189 steps of some milliseconds."""
    model = keras.Sequential(
        [keras.Input((30, 8)), keras.layers.LSTM(32), keras.layers.Dense(1, activation="sigmoid")]
    )
    return model, np.random.randn(63 * 32, 30, 8), 32, 3


def mlp():
    """1,000 steps of about a millisecond."""
    model = keras.Sequential(
        [keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
    )
    return model, np.random.randn(500 * 8, 16), 8, 2


def cnn():
    """60 slow steps."""
    blocks = [
        keras.layers.Conv2D(n, 3, padding="same", activation="relu", strides=s)
        for n, s in ((32, 1), (64, 2), (64, 1))
    ]
    pooled = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
    return (
        keras.Sequential([keras.Input((64, 64, 3)), *blocks, *pooled]),
        (np.random.randn(30 * 32, 64, 64, 3)),
        32,
        2,
    )


def spin():
    while True:
        pass


def fit(make, is_watched):
    """The seconds of the fit, and its monitor."""
    keras.utils.set_random_seed(0)
    model, x, size, epochs = make()
    model.compile("adam", "mse")
    x = x.astype("float32")
    y = x.reshape(len(x), -1)[:, :1]
    monitor = gradwatch.Monitor(tempfile.mkdtemp()) if is_watched else None
    began = time.perf_counter()
    callbacks = [] if monitor is None else [monitor]
    model.fit(x, y, batch_size=size, epochs=epochs, verbose=0, callbacks=callbacks)
    return time.perf_counter() - began, monitor


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["lstm", "mlp", "cnn"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2 * options.busy)]
    for other in others:
        other.start()
    where = keras.backend.backend() + (", busy" if options.busy else "")
    for make in (globals()[name] for name in options.only):
        fit(make, False)  # What is loaded only once.
        bare, watched = [fit(make, False)[0]], []
        for _ in range(options.rounds):
            watched.append(fit(make, True))
            bare.append(fit(make, False)[0])
        cost = watched[-1][1].cost
        plain = statistics.median(bare)
        print(
            f"| {where} | {make.__name__} | {cost.measured_steps} of {cost.steps} "
            f"| {plain:.2f} s ({min(bare):.2f} to {max(bare):.2f}) "
            f"| {statistics.median(s for s, _ in watched) - plain:+.2f} s "
            f"| {cost.compile_seconds:.2f} s | {cost.words()} |",
            flush=True,
        )
    for other in others:
        other.terminate()


if __name__ == "__main__":
    main()
