"""Attention and transformers in Keras."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made
from ..program import fault, program
from ..run import Run


def _placed(length, width):
    """A layer that adds a learned vector to each place."""
    import keras

    class Places(keras.layers.Layer):
        def build(self, shape):
            self.table = self.add_weight(shape=(length, width), name="table")

        def call(self, h):
            return h + self.table

    return Places(name="places")


@program(
    plain=0.6,
    pre_norm=0.6,
    cosine=0.5,
    warm_up=0.5,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    shuffled=fault("labels shuffled"),
    frozen=fault("all frozen"),
    warm_up_forever=fault("warm-up without end"),
    two_softmaxes=fault("two softmaxes"),
    nan_token=fault("NaN forward", layer="words"),
)
def encoder(run: Run, case: str) -> float:
    """One encoder block over words."""
    import keras
    from keras import layers

    data = made("tokens", run.seed, 560)
    x, y = data.x.copy(), data.y
    if case == "shuffled":
        y = run.rng.permutation(y)
    if case == "nan_token":
        x[44 * 12 + 3, 0] = 60
    tokens = keras.Input((12,), dtype="int32")
    embedding = layers.Embedding(61, 16, name="words")
    h = embedding(tokens)
    h = _placed(12, 16)(h)
    attention = layers.MultiHeadAttention(2, 8, name="attention")
    if case == "pre_norm":
        normed = layers.LayerNormalization()(h)
        h = h + attention(normed, normed)
        h = h + layers.Dense(16)(layers.Dense(32, "gelu")(layers.LayerNormalization()(h)))
    else:
        h = layers.LayerNormalization()(h + attention(h, h))
        h = layers.LayerNormalization()(h + layers.Dense(16)(layers.Dense(32, "gelu")(h)))
    h = layers.GlobalAveragePooling1D()(h)
    out = layers.Dense(3, activation="softmax", name="classes")(h)
    if case == "two_softmaxes":
        out = layers.Softmax()(out)
    model = keras.Model(tokens, out)
    if case == "nan_token":
        table = embedding.get_weights()[0]
        table[60] = np.nan
        embedding.set_weights([table])
    model.trainable = case != "frozen"
    schedules = keras.optimizers.schedules
    rate = {"low_rate": 1e-6, "high_rate": 1.0, "two_softmaxes": 1.5e-4}.get(case, 5e-3)
    if case == "cosine":
        rate = schedules.CosineDecay(5e-3, 160)
    elif case in ("warm_up", "warm_up_forever"):
        steps = 30 if case == "warm_up" else 3_000_000
        rate = schedules.CosineDecay(0.0, 1000, warmup_target=5e-3, warmup_steps=steps)
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
    size, epochs = (12, 1) if case == "nan_token" else (20, 5)
    model.fit(x, y, batch_size=size, epochs=epochs, verbose=0, shuffle=case != "nan_token",
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0))


@program(
    plain=0.4,
    two_heads=0.4,
    masked=0.4,
    no_gradient=fault("detached"),
    label_offset=fault("inputs and targets out of order"),
    sgd_too_low=fault("rate too low"),
)
def find_the_mark(run: Run, case: str) -> float:
    """The colour of the one marked item: attention must learn where to look, after a plateau."""
    import keras
    from keras import layers, ops

    rng = run.rng
    n, length = 900, 6
    colour = rng.integers(0, 4, (n, length))
    mark = rng.integers(0, length, n)
    x = np.zeros((n, length, 5), "float32")
    x[np.arange(n)[:, None], np.arange(length), colour] = 1
    x[np.arange(n), mark, 4] = 1
    y = colour[np.arange(n), mark]
    if case == "label_offset":
        y = np.concatenate([y[:200], np.roll(y[200:], 3)])

    class Attend(layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.q, self.k, self.v = (layers.Dense(12, name=name) for name in "qkv")

        def call(self, h):
            q, k = self.q(h), self.k(h)
            scores = ops.matmul(q, ops.transpose(k, (0, 2, 1))) / 3.5
            if case == "masked":
                scores = scores - 1e9 * (1 - ops.ones((1, length, length)))
            weights = ops.softmax(scores, -1)
            if case == "no_gradient":
                weights = ops.stop_gradient(weights) * 0.02
            return ops.matmul(weights, self.v(h))

    inputs = keras.Input((length, 5))
    h = layers.Dense(16, "tanh", name="embed")(inputs)
    if case == "two_heads":
        h = layers.Concatenate()([Attend(name="one")(h), Attend(name="two")(h)])
    else:
        h = Attend(name="attend")(h)
    h = layers.GlobalMaxPooling1D()(h)
    if case == "no_gradient":
        h = ops.stop_gradient(h)
    model = keras.Model(inputs, layers.Dense(4, name="colour")(h))
    rate = 1e-7 if case == "sgd_too_low" else 0.01
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    model.fit(x[200:], y[200:], batch_size=35, epochs=9, verbose=0, callbacks=run.callbacks())
    truth = colour[np.arange(200), mark[:200]]
    return accuracy(truth, model.predict(x[:200], verbose=0))


@program(
    plain=0.5,
    class_token=0.25,
    regularised=0.4,
    positions_only=fault("constant inputs"),
    huge_l2=fault("regularised to nothing"),
    dead_mlp=fault("dead units", layer="up"),
)
def patches(run: Run, case: str) -> float:
    """A vision transformer of two by two patches of digits."""
    import keras
    from keras import layers

    data = made("digits", run.seed, 560)

    def cut(x):
        return x.reshape(-1, 4, 2, 4, 2).transpose(0, 1, 3, 2, 4).reshape(-1, 16, 4)

    x = cut(data.x)
    if case == "positions_only":
        x = np.zeros_like(x)
    l2 = {"regularised": 1e-4, "huge_l2": 5.0}.get(case)
    reg = keras.regularizers.l2(l2) if l2 else None
    inputs = keras.Input((16, 4))
    h = layers.Dense(20, kernel_regularizer=reg, name="patch")(inputs)
    h = _placed(16, 20)(h)
    a = layers.MultiHeadAttention(2, 10, name="look", kernel_regularizer=reg)(h, h)
    h = layers.LayerNormalization()(h + a)
    bias = keras.initializers.Constant(-25.0) if case == "dead_mlp" else "zeros"
    up = layers.Dense(40, "relu", bias_initializer=bias, kernel_regularizer=reg, name="up")(h)
    if case == "dead_mlp":
        h = layers.Dense(20, name="down")(up)
    else:
        h = h + layers.Dense(20, kernel_regularizer=reg, name="down")(up)
    h = h[:, 0] if case == "class_token" else layers.Flatten()(h)
    model = keras.Model(inputs, layers.Dense(10, "softmax", kernel_regularizer=reg, name="out")(h))
    model.compile("adam", "sparse_categorical_crossentropy")
    model.optimizer.learning_rate = 5e-3
    model.fit(x, data.y, batch_size=28, epochs=7, verbose=0, callbacks=run.callbacks())
    return accuracy(data.truth, model.predict(cut(data.judged_x), verbose=0))
