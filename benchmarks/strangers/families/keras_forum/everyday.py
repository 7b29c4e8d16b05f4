"""Tables that say little, classes that are rare, and labels that a loss is not made for."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, score, standardised
from ...program import fault, program
from ...run import Run


@program(
    plain=0.2,
    raw_targets=0.2,
    whole_data_at_once=0.2,
    one_by_one=0.2,
    shuffled=fault("labels shuffled"),
    sgd_on_raw_targets=fault("unscaled targets"),
    overfits=fault("overfits"),
)
def diabetes(run: Run, case: str) -> float:
    """A half of the variance is all that can be told."""
    import keras
    from keras import layers

    x, y, xt, yt = bundled("diabetes", run.seed)
    x, xt = standardised(x, xt)
    raw = case in ("raw_targets", "sgd_on_raw_targets")
    if not raw:
        y, yt = (y - 150) / 77, (yt - 150) / 77
    if case == "shuffled":
        y = run.rng.permutation(y)
    if case == "overfits":
        x, y = x[:60], y[:60]
    model = keras.Sequential([keras.Input((10,))])
    for units in (256, 256) if case == "overfits" else (16,):
        model.add(layers.Dense(units, activation="relu"))
    model.add(layers.Dense(1))
    optimizer = keras.optimizers.Adam(0.05 if raw or case == "whole_data_at_once" else 5e-3)
    if case == "one_by_one":
        optimizer = keras.optimizers.SGD(2e-3)
    elif case == "sgd_on_raw_targets":
        optimizer = keras.optimizers.SGD(0.05)
    model.compile(optimizer=optimizer, loss="mean_squared_error", metrics=["mae"])
    size = {"whole_data_at_once": len(x), "one_by_one": 1, "overfits": 10}.get(case, 22)
    epochs = {"whole_data_at_once": 80, "one_by_one": 2, "overfits": 60, "raw_targets": 25}
    model.fit(x, y, epochs=epochs.get(case, 10), batch_size=size, verbose=0,
              validation_data=(xt, yt), callbacks=run.callbacks())  # fmt: skip
    return score("values", yt, model.predict(xt, verbose=0))


@program(
    plain=0.3,
    noisy_labels=0.3,
    few_features=0.2,
    labels_one_and_two=fault("targets out of range"),
    three_in_one_sigmoid=fault("targets out of range"),
    percent=fault("targets out of range"),
    high_rate=fault("rate too high"),
)
def exam(run: Run, case: str) -> float:
    """Passed or not, from hours of sleep and of study."""
    import keras
    from keras import layers

    rng = run.rng
    x = rng.normal(size=(1000, 6)).astype("float32")
    passed = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype("float32")
    if case == "few_features":
        x = np.delete(x, 3, 1)
        passed = np.where(rng.random(1000) < 0.1, 1 - passed, passed)
    y = passed.copy()
    if case == "noisy_labels":
        y = np.where(rng.random(1000) < 0.2, 1 - y, y)
    elif case == "labels_one_and_two":
        y = y + 1
    elif case == "three_in_one_sigmoid":
        y = y * 3 + 1
    elif case == "percent":
        y = y * 50 + 50
    model = keras.Sequential(
        [layers.Dense(32, "relu"), layers.Dense(16, "relu"), layers.Dense(1, "sigmoid")]
    )
    rate = 3.0 if case == "high_rate" else 0.01
    model.compile(keras.optimizers.Adam(rate), "binary_crossentropy", metrics=["accuracy"])
    model.fit(x[250:], y[250:], epochs=8, batch_size=30, verbose=0, callbacks=run.callbacks())
    return accuracy(passed[:250], model.predict(x[:250], verbose=0) - 0.5)


@program(
    rare=0.3,
    weighted=0.2,
    focal=0.3,
    cosine_restarts=0.3,
    huge_bias=fault("saturated", layer="hidden"),
    same_start=fault("symmetric start"),
    dropout_in_front=fault("too much dropout"),
)
def rare(run: Run, case: str) -> float:
    """A tenth of the samples are of the class that matters; judged as accuracy on equal shares."""
    import keras
    from keras import layers

    rng = run.rng

    def sample(n, share):
        y = (rng.random(n) < share).astype("float32")
        angle = rng.uniform(0, 2 * np.pi, n)
        radius = np.where(y == 1, 0.4, 1.3) + 0.1 * rng.normal(size=n)
        noise = rng.normal(size=(n, 3))
        x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
        return np.concatenate([x, 0.3 * noise], 1).astype("float32"), y

    x, y = sample(1200, 0.12)
    xt, yt = sample(400, 0.5)
    start = keras.initializers.Constant(0.05) if case == "same_start" else "glorot_uniform"
    bias = keras.initializers.Constant(80.0) if case == "huge_bias" else "zeros"
    act = "tanh" if case == "huge_bias" else "relu"
    inputs = keras.Input((5,))
    h = layers.Dropout(0.95)(inputs) if case == "dropout_in_front" else inputs
    h = layers.Dense(24, act, kernel_initializer=start, bias_initializer=bias, name="hidden")(h)
    h = layers.Dense(12, "relu", kernel_initializer=start)(h)
    if case == "dropout_in_front":
        h = layers.Dropout(0.95)(h)
    model = keras.Model(
        inputs, layers.Dense(1, "sigmoid", kernel_initializer=start, name="answer")(h)
    )
    rate = 0.01
    if case == "cosine_restarts":
        rate = keras.optimizers.schedules.CosineDecayRestarts(0.02, 60)
    loss = keras.losses.BinaryFocalCrossentropy() if case == "focal" else "binary_crossentropy"
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy", "recall"])
    weights = {0: 1.0, 1: 7.0} if case == "weighted" else None
    model.fit(x, y, epochs=7, batch_size=32, verbose=0, validation_split=0.15,
              class_weight=weights, callbacks=run.callbacks())  # fmt: skip
    return accuracy(yt, model.predict(xt, verbose=0) - 0.5)
