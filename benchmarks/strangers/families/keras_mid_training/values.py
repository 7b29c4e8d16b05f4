"""A regression and a sequence model; at some step something changes."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, made, score
from ...program import fault, program
from ...run import Run
from .events import before


@program(
    plain=0.6,
    cyclic=0.5,
    loss_weights_grow=0.5,
    sorted_then_not=0.4,
    rate_jump=fault("rate jump", step=91),
    target_unit=fault("data goes wrong", step=106),
    targets_permuted=fault("labels go wrong", step=61),
    nan_target=fault("NaN in the data", step=75),
    norm_lost=fault("weights lost", step=139, layer="norm"),
    weights_grow=fault("weights lost", step=131, layer="middle"),
)
def surface(run: Run, case: str) -> float:
    """A smooth function of six numbers; data in the order in which they were written."""
    import keras
    from keras import layers

    data = made("smooth", run.seed, 3600)
    x, y = data.x, data.y
    size = 25
    if case == "target_unit":
        y[105 * size :] = y[105 * size :] * 1000 + 3000
    elif case == "targets_permuted":
        y[60 * size :] = run.rng.permutation(y[60 * size :])
    elif case == "nan_target":
        y[74 * size + 2] = np.nan
    elif case == "sorted_then_not":
        part = np.argsort(np.abs(y[: 60 * size, 0]))
        x[: 60 * size], y[: 60 * size] = x[part], y[part]
    inputs = keras.Input((6,))
    h = layers.Dense(48, "swish", name="into")(inputs)
    h = layers.LayerNormalization(name="norm")(h)
    h = layers.Dense(48, "swish", name="middle")(h)
    model = keras.Model(inputs, layers.Dense(1, name="out")(h))
    model.compile(keras.optimizers.Adam(5e-3), "mse")
    optimizer = model.optimizer
    norm, middle = model.get_layer("norm"), model.get_layer("middle")

    def rate(value):
        optimizer.learning_rate = value

    def lose():
        norm.set_weights([run.rng.normal(size=w.shape) * 4 for w in norm.get_weights()])

    def grow():
        kernel, bias = middle.get_weights()
        middle.set_weights([kernel + 3 * run.rng.normal(size=kernel.shape), bias])

    callbacks = run.callbacks()
    if case == "cyclic":
        callbacks += [
            before(20 * k + 1, lambda k=k: rate(2e-3 if k % 2 else 8e-3)) for k in range(7)
        ]
    elif case == "rate_jump":
        callbacks.append(before(91, lambda: rate(5.0)))
    elif case == "norm_lost":
        callbacks.append(before(139, lose, 144))
    elif case == "weights_grow":
        callbacks.append(before(131, grow, 144))
    weights = None
    if case == "loss_weights_grow":
        weights = np.linspace(0.2, 2.0, len(x)).astype("float32")
    model.fit(x, y, batch_size=size, epochs=1, shuffle=False, verbose=0, sample_weight=weights,
              callbacks=callbacks)  # fmt: skip
    return score(data.task, data.truth, model.predict(data.judged_x, verbose=0))


@program(
    plain=0.5,
    second_fit=0.5,
    words_dropped=0.4,
    rate_drop=0.5,
    rate_jump=fault("rate jump", step=81),
    all_unknown=fault("inputs lost", step=21),
    embedding_zeroed=fault("layer zeroed", step=116, layer="words"),
    all_frozen=fault("frozen in mid-training", step=5),
    decay=fault("decay sets in", step=46),
)
def reviews(run: Run, case: str) -> float:
    """Moods of sequences of words."""
    import keras
    from keras import layers

    data = made("tokens", run.seed, 2880)
    x, y = data.x.copy(), data.y
    size = 24
    if case == "all_unknown":
        x[20 * size :] = 0
    elif case == "words_dropped":
        x[60 * size :][run.rng.random(x[60 * size :].shape) < 0.15] = 0
    model = keras.Sequential([
        layers.Embedding(60, 16, name="words"),
        layers.GRU(16, name="gru"),
        layers.Dense(3, "softmax", name="mood"),
    ])  # fmt: skip
    optimizer = keras.optimizers.AdamW(8e-3, weight_decay=0.004)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    words = model.layers[0]

    def rate(value):
        optimizer.learning_rate = value

    def freeze():
        for layer in model.layers:
            layer.trainable = False

    happens = {
        "rate_jump": (81, lambda: rate(8.0)),
        "rate_drop": (61, lambda: rate(5e-4)),
        "embedding_zeroed": (116, lambda: words.set_weights([0 * words.get_weights()[0]]), 120),
        "all_frozen": (5, freeze),
        "decay": (46, lambda: setattr(optimizer, "weight_decay", 60.0)),
    }
    callbacks = run.callbacks()
    if case in happens:
        callbacks.append(before(*happens[case]))
    if case == "second_fit":
        model.fit(x[:1200], y[:1200], batch_size=40, verbose=0, callbacks=callbacks)
        x, y = x[1200:], y[1200:]
    model.fit(x, y, batch_size=size, epochs=1, shuffle=False, verbose=0, callbacks=callbacks)
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0))
