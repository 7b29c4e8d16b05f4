"""Keras models with a `train_step` of their own, several outputs, or no labels at all."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made, score, shapes
from ..program import fault, program
from ..run import Run


@program(
    plain=0.6,
    gradient_clip=0.6,
    r_drop=0.6,
    low_rate=fault("rate too low"),
    only_last=fault("not in the optimizer", layer="first"),
    stop_gradient=fault("detached", layer=("first", "second")),
    sign=fault("wrong sign"),
    sqrt_nan=fault("NaN backward", step=33),
)
def own_step(run: Run, case: str) -> float:
    """A subclassed model with its own `train_step`."""
    import keras
    import torch
    from keras import layers, ops

    data = made("digits", run.seed, 640)
    names = ("first", "second")

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = [layers.Dense(40, "relu", name=name) for name in names]
            self.last = layers.Dense(10, name="last")
            self.loss_tracker = keras.metrics.Mean("loss")
            self.count = 0

        def call(self, x, training=False):
            for layer in self.hidden:
                x = layer(x)
            if case == "stop_gradient":
                x = ops.stop_gradient(x * 0.05)
            if case == "only_last":
                x = x * 0.05
            return self.last(x)

        def train_step(self, batch):
            x, y = batch
            self.zero_grad()
            self.count += 1
            logits = self(x, training=True)
            loss = ops.mean(ops.sparse_categorical_crossentropy(y, logits, from_logits=True))
            if case == "r_drop":
                noisy = self(x + 0.1 * torch.randn_like(x), training=True)
                loss = loss + 0.1 * ops.mean(ops.square(logits - noisy))
            if case == "sign":
                loss = -loss
            if case == "sqrt_nan" and self.count == 33:
                loss = loss + ops.mean(ops.sqrt(ops.relu(logits) * 0))
            loss.backward()
            variables = (
                self.last.trainable_weights if case == "only_last" else self.trainable_weights
            )
            if case == "gradient_clip":
                torch.nn.utils.clip_grad_norm_([v.value for v in variables], 1.0)
            gradients = [v.value.grad for v in variables]
            with torch.no_grad():
                self.optimizer.apply(gradients, variables)
            self.loss_tracker.update_state(loss)
            return {"loss": self.loss_tracker.result()}

    model = Model()
    model.compile(optimizer=keras.optimizers.Adam(1e-6 if case == "low_rate" else 4e-3))
    model.fit(data.x, data.y, batch_size=32, epochs=6, verbose=0, callbacks=run.callbacks())
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0))


@program(
    plain=0.6,
    weights=0.6,
    shared_trunk_frozen=0.25,
    shuffled_digit=fault("labels shuffled"),
    huge_weight=fault("one layer runs away"),
    logits_as_probabilities=fault("logits or not"),
    low_rate=fault("rate too low"),
    decayed=fault("weight decay"),
)
def two_heads(run: Run, case: str) -> float:
    """One trunk, a class and a number; scored by the class."""
    import keras
    from keras import layers

    data = made("digits", run.seed, 640)
    amount = data.x.mean(1, keepdims=True)
    y = run.rng.permutation(data.y) if case == "shuffled_digit" else data.y
    inputs = keras.Input((64,), name="pixels")
    trunk = layers.Dense(48, "relu", name="trunk")
    if case == "shared_trunk_frozen":
        trunk.trainable = False
    h = layers.Dense(32, "relu", name="middle")(trunk(inputs))
    last = None if case == "logits_as_probabilities" else "softmax"
    digit = layers.Dense(10, last, name="digit")(h)
    ink = layers.Dense(1, name="ink")(h)
    model = keras.Model(inputs, {"digit": digit, "ink": ink})
    scale = {"weights": 5.0, "huge_weight": 1e7}.get(case, 1.0)
    rate = {"low_rate": 1e-6, "huge_weight": 0.05}.get(case, 4e-3)
    opt = keras.optimizers.Adam(rate)
    if case == "huge_weight":
        opt = keras.optimizers.SGD(1e-6)
    elif case == "decayed":
        opt = keras.optimizers.AdamW(4e-3, weight_decay=150.0)
    model.compile(
        opt,
        {"digit": "sparse_categorical_crossentropy", "ink": "mse"},
        loss_weights={"digit": 1.0, "ink": scale},
    )
    model.fit(data.x, {"digit": y, "ink": amount}, batch_size=32, epochs=6, verbose=0,
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0)["digit"])


@program(
    plain=0.45,
    binary=0.4,
    sparse_code=0.3,
    overcomplete=0.5,
    cannot_reach=fault("output cannot reach the targets"),
    dead_code=fault("dead units", layer="code"),
    regularised=fault("regularised to nothing"),
    linear_rate=fault("rate too high"),
)
def autoencoder(run: Run, case: str) -> float:
    import keras

    data = made("digit_pixels", run.seed, 640)
    x, held = data.x, data.judged_x
    if case != "binary":
        mean = x.mean(0)
        x, held = (x - mean) * 3, (held - mean) * 3
    if case == "cannot_reach":
        x, held = x - 5, held - 5
    size = 96 if case == "overcomplete" else 16
    l1 = keras.regularizers.l1(2e-5) if case == "sparse_code" else None
    l2 = keras.regularizers.l2(3.0) if case == "regularised" else None
    bias = keras.initializers.Constant(-30.0) if case == "dead_code" else "zeros"
    last = {"binary": "sigmoid", "cannot_reach": "relu"}.get(case)
    dense = keras.layers.Dense
    encoder = keras.Sequential(
        [
            dense(48, "elu", kernel_regularizer=l2),
            dense(size, "relu", activity_regularizer=l1, bias_initializer=bias, name="code",
                  kernel_regularizer=l2),
        ],
        name="encoder",
    )  # fmt: skip
    decoder = keras.Sequential(
        [dense(48, "elu", kernel_regularizer=l2), dense(64, last, kernel_regularizer=l2)],
        name="decoder",
    )
    model = keras.Sequential([encoder, decoder])
    rate = 3.0 if case == "linear_rate" else 6e-3
    model.compile(keras.optimizers.Adam(rate), "binary_crossentropy" if case == "binary" else "mse")
    model.fit(x, x, batch_size=32, epochs=8, verbose=0, validation_split=0.1,
              callbacks=run.callbacks())  # fmt: skip
    return score("values", held, model.predict(held, verbose=0))


@program(
    plain=0.6,
    early=0.4,
    margin_never=fault("representations collapse"),
    label_swap=fault("labels shuffled"),
    high_rate=fault("rate too high"),
)
def siamese(run: Run, case: str) -> float:
    """Do two images show the same shape? A shared encoder and a distance."""
    import keras
    from keras import layers, ops

    x, kind = shapes(run.seed, 900)
    rng = run.rng
    first, second = rng.integers(0, 900, 900), rng.integers(0, 900, 900)
    same = rng.random(900) < 0.5
    for i in np.flatnonzero(same):
        second[i] = rng.choice(np.flatnonzero(kind == kind[first[i]]))
    y = (kind[first] == kind[second]).astype("float32")
    a, b = x[first], x[second]
    target = y.copy()
    if case == "label_swap":
        rng.shuffle(target[200:])
    encoder = keras.Sequential(
        [
            layers.Reshape((12, 12, 1)),
            layers.Conv2D(12, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(16),
        ],
        name="encoder",
    )
    one, two = keras.Input((12, 12)), keras.Input((12, 12))
    away = layers.Subtract()([encoder(one), encoder(two)])
    distance = layers.Lambda(lambda d: ops.sqrt(ops.sum(d * d, -1, keepdims=True) + 1e-6))(away)
    model = keras.Model([one, two], distance)

    def contrastive(true, d):
        apart = ops.square(ops.relu(1.5 - d))
        if case == "margin_never":
            apart = 0 * apart
        return ops.mean(true * ops.square(d) + (1 - true) * apart)

    model.compile(keras.optimizers.Adam(1.0 if case == "high_rate" else 4e-3), contrastive)
    model.fit([a[200:], b[200:]], target[200:], batch_size=35, epochs=4 if case == "early" else 7,
              verbose=0, callbacks=run.callbacks())  # fmt: skip
    return accuracy(y[:200], 0.75 - model.predict([a[:200], b[:200]], verbose=0))
