"""Recurrent networks in Keras: sequences, signals and words."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made, score
from ..program import fault, program
from ..run import Run


@program(
    plain=0.7,
    gru=0.7,
    bidirectional=0.7,
    two_layers=0.7,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    shuffled=fault("labels shuffled"),
    saturated=fault("saturated", layer="simple"),
    two_softmaxes=fault("two softmaxes"),
)
def waves(run: Run, case: str) -> float:
    """Which frequency a signal has."""
    import keras
    from keras import layers

    data = made("waves", run.seed, 600, length=8)
    y = run.rng.permutation(data.y) if case == "shuffled" else data.y
    x, held = data.x, data.judged_x
    model = keras.Sequential(name="signal")
    if case == "gru":
        model.add(layers.GRU(16))
    elif case == "bidirectional":
        model.add(layers.Bidirectional(layers.SimpleRNN(12)))
    elif case == "two_layers":
        model.add(layers.SimpleRNN(16, return_sequences=True))
        model.add(layers.SimpleRNN(16))
    elif case == "saturated":
        start = keras.initializers.RandomNormal(stddev=25.0)
        model.add(layers.SimpleRNN(16, kernel_initializer=start, name="simple"))
    else:
        model.add(layers.SimpleRNN(20, name="simple"))
    model.add(layers.Dense(3, activation="softmax", name="classes"))
    if case == "two_softmaxes":
        model.add(layers.Softmax())
        model.get_layer("classes").activation = keras.activations.softmax
    rate = {"low_rate": 2e-6, "high_rate": 3.0, "two_softmaxes": 8e-4}.get(case, 8e-3)
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["acc"])
    model.fit(x, y, batch_size=30, epochs=5, verbose=0, callbacks=run.callbacks(),
              validation_data=(data.val_x, data.val_y))  # fmt: skip
    return accuracy(data.truth, model.predict(held, verbose=0))


@program(
    plain=0.6,
    long_memory=0.5,
    clipped=0.6,
    unscaled=fault("unscaled inputs"),
    sigmoid_out=fault("output cannot reach the targets"),
    nan=fault("NaN in the data", step=41),
)
def forecast(run: Run, case: str) -> float:
    """The next value of a noisy oscillation."""
    import keras

    n, length = 700, 20 if case == "long_memory" else 12
    rng = run.rng
    t = np.arange(length + 1) * 0.5
    speed, phase = rng.uniform(0.6, 1.6, (n, 1)), rng.uniform(0, 6.28, (n, 1))
    series = 2 * np.sin(speed * t + phase) + 0.1 * rng.normal(size=(n, length + 1))
    series = series.astype("float32")
    x, y = series[:, :-1, None], series[:, -1:]
    if case == "unscaled":
        x, y = x * 2000 + 9000, y * 2000 + 9000
    xt, yt, x, y = x[:200], y[:200], x[200:].copy(), y[200:]
    if case == "nan":
        x, y = np.tile(x, (2, 1, 1)), np.tile(y, (2, 1))
        x[40 * 10 + 2, 3, 0] = np.nan
    last = "sigmoid" if case == "sigmoid_out" else None
    net = keras.Sequential(
        [keras.Input((length, 1)), keras.layers.LSTM(16), keras.layers.Dense(1, activation=last)]
    )
    clip = 1.0 if case == "clipped" else None
    net.compile(keras.optimizers.Adam(0.02, clipnorm=clip), "mse")
    size, epochs = (10, 1) if case == "nan" else (25, 9)
    net.fit(x, y, batch_size=size, epochs=epochs, verbose=0, callbacks=run.callbacks(),
            shuffle=case != "nan")  # fmt: skip
    return score("values", yt, net.predict(xt, verbose=0))


@program(
    plain=0.6,
    masked=0.6,
    frozen_embedding=0.4,
    conv_first=0.6,
    all_frozen=fault("all frozen"),
    regularised=fault("regularised to nothing"),
    dropout=fault("too much dropout"),
    wrong_axis=fault("softmax over the wrong axis"),
)
def words(run: Run, case: str) -> float:
    """Classes of short texts, by an embedding and a GRU."""
    import keras
    from keras import layers, ops

    data = made("tokens", run.seed, 700)
    inputs = keras.Input((12,), dtype="int32")
    h = layers.Embedding(60, 12, mask_zero=case == "masked", name="words")(inputs)
    if case == "conv_first":
        h = layers.Conv1D(16, 3, activation="relu")(h)
    if case == "dropout":
        h = layers.Dropout(0.985)(h)
    l2 = keras.regularizers.l2(5.0) if case == "regularised" else None
    h = layers.GRU(12, kernel_regularizer=l2, recurrent_regularizer=l2, name="reader")(h)
    if case == "dropout":
        h = layers.Dropout(0.95)(h)
    if case == "wrong_axis":
        out = layers.Dense(3)(h)
        out = layers.Lambda(lambda z: ops.softmax(z, axis=0))(out)
    else:
        out = layers.Dense(3, activation="softmax", kernel_regularizer=l2)(h)
    model = keras.Model(inputs, out)
    if case == "frozen_embedding":
        model.get_layer("words").trainable = False
    if case == "all_frozen":
        for layer in model.layers:
            layer.trainable = False
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    # One text at a time where that matters, as the model is used later.
    size = 1 if case == "wrong_axis" else 200
    model.fit(data.x, data.y, epochs=6, batch_size=28, verbose=0, callbacks=run.callbacks())
    return accuracy(data.truth, model.predict(data.judged_x, batch_size=size, verbose=0))


@program(
    plain=0.6,
    vanishing=fault("vanishing"),
    identity_explodes=fault("exploding"),
    low_rate=fault("rate too low"),
)
def remember(run: Run, case: str) -> float:
    """The sign of the first of several values."""
    import keras

    length = {"vanishing": 30, "identity_explodes": 20}.get(case, 7)
    data = made("first_sign", run.seed, 500, length=length)
    cell = keras.layers.LSTM(12, unit_forget_bias=True)
    if case == "vanishing":
        cell = keras.layers.SimpleRNN(12, recurrent_initializer=keras.initializers.Orthogonal(0.1))
    elif case == "identity_explodes":
        cell = keras.layers.SimpleRNN(
            12, activation="relu", recurrent_initializer=keras.initializers.Identity(2.5)
        )
    model = keras.Sequential([cell, keras.layers.Dense(1, "sigmoid")])
    rate = 2e-6 if case == "low_rate" else 0.03
    model.compile(keras.optimizers.Adam(rate), "binary_crossentropy", metrics=["accuracy"])
    model.fit(data.x, data.y, epochs=6, batch_size=28, verbose=0, callbacks=run.callbacks())
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0) - 0.5)
