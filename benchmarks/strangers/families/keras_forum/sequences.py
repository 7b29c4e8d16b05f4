"""Reviews as numbers of words, and signals."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, made
from ...program import fault, program
from ...run import Run


@program(
    lstm=0.5,
    pooled=0.5,
    conv=0.5,
    gru_bidirectional=0.5,
    unknown_words=fault("information missing"),
    few_steps=fault("rate too low"),
    shuffled=fault("labels shuffled"),
)
def reviews(run: Run, case: str) -> float:
    """Three moods."""
    import keras
    from keras import layers

    data = made("tokens", run.seed, 700)
    x, xt, y = data.x, data.judged_x, data.y
    if case == "unknown_words":
        x, xt = np.full_like(x, 1), np.full_like(xt, 1)
    if case == "shuffled":
        y = run.rng.permutation(y)
    model = keras.Sequential([layers.Embedding(60, 16)])
    if case == "pooled":
        model.add(layers.GlobalAveragePooling1D())
    elif case == "conv":
        model.add(layers.Conv1D(24, 3, activation="relu"))
        model.add(layers.GlobalMaxPooling1D())
    elif case == "gru_bidirectional":
        model.add(layers.Bidirectional(layers.GRU(12)))
    else:
        model.add(layers.LSTM(16))
    rate = {"few_steps": 2e-6, "pooled": 2e-2}.get(case, 8e-3)
    model.add(layers.Dense(3, "softmax"))
    model.compile(
        keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    steps = 4 if case in ("lstm", "gru_bidirectional") else 6
    model.fit(x, y, epochs=steps, batch_size=28, verbose=0, callbacks=run.callbacks())
    return accuracy(data.truth, model.predict(xt, verbose=0))


@program(
    gru=0.5,
    flattened=0.4,
    relu_rnn=fault("exploding"),
    high_rate=fault("rate too high"),
    constant=fault("constant inputs"),
)
def signals(run: Run, case: str) -> float:
    """Which of three waves is it?"""
    import keras
    from keras import layers

    data = made("waves", run.seed, 600, length=20)
    x, xt = data.x, data.judged_x
    if case == "constant":
        x, xt = 0 * x + 1, 0 * xt + 1
    model = keras.Sequential([keras.Input(x.shape[1:])])
    if case == "flattened":
        model.add(layers.LSTM(10, return_sequences=True))
        model.add(layers.Flatten())
    elif case == "relu_rnn":
        wide = keras.initializers.Orthogonal(gain=3.0)
        model.add(layers.SimpleRNN(24, activation="relu", recurrent_initializer=wide))
    else:
        model.add(layers.GRU(16))
    model.add(layers.Dense(3, "softmax"))
    optimizer = keras.optimizers.Adam(1e-2)
    if case == "relu_rnn":
        optimizer = keras.optimizers.SGD(0.1)
    elif case == "high_rate":
        optimizer = keras.optimizers.SGD(200.0)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, data.y, epochs=6, batch_size=30, verbose=0,
              validation_data=(xt, data.truth),
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(data.truth, model.predict(xt, verbose=0))
