"""Pictures: a base that rests, pictures of bytes, and a small residual network."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, shapes
from ...program import fault, program
from ...run import Run


@program(
    base_at_rest=0.4,
    then_unfrozen=0.4,
    random_base_at_rest=0.2,
    small_rate_for_all=0.3,
    base_in_training_mode_frozen_norm=0.3,
    head_before_base=fault("all frozen"),
    rate_of_the_head_for_all=fault("rate too high"),
    head_of_zeros=fault("dead units", layer="head"),
    bytes_into_a_base_of_units=fault("unscaled inputs"),
)
def transfer(run: Run, case: str) -> float:
    """A base learns squares from rings; a head tells four shapes apart with it."""
    import keras
    from keras import layers

    x, y = shapes(run.seed, 1000)
    x = x[..., None]
    base = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(16, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Flatten(),
        ],
        name="base",
    )
    if case != "random_base_at_rest":
        first = keras.Sequential([base, layers.Dense(2, "softmax")])
        first.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
        first.fit(x[600:], y[600:] % 2, batch_size=40, epochs=3, verbose=0)
    base.trainable = case in ("small_rate_for_all", "rate_of_the_head_for_all")
    inputs = keras.Input((12, 12, 1))
    h = inputs
    if case == "bytes_into_a_base_of_units":
        x = x * 255 + 3000
    h = base(h) if case == "base_in_training_mode_frozen_norm" else base(h, training=False)
    bias = keras.initializers.Constant(-500.0) if case == "head_of_zeros" else "zeros"
    h = layers.Dense(32, "relu", bias_initializer=bias, name="head")(h)
    h = layers.Dropout(0.2)(h)
    model = keras.Model(inputs, layers.Dense(4, "softmax", name="kinds")(h))
    if case == "head_before_base":
        # All layers but the last are meant to rest; the slice takes all of them.
        for layer in model.layers[-10:]:
            layer.trainable = False
    rate = {"small_rate_for_all": 5e-4, "rate_of_the_head_for_all": 2.0}.get(case, 3e-3)
    optimizer = keras.optimizers.Adam(rate)
    if case == "bytes_into_a_base_of_units":
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    watching = run.callbacks()
    train = slice(200, 760)
    model.fit(x[train], y[train], batch_size=28, epochs=6, verbose=0, callbacks=watching)
    if case == "then_unfrozen":
        base.trainable = True
        model.compile(keras.optimizers.Adam(3e-4), "sparse_categorical_crossentropy")
        model.fit(x[train], y[train], batch_size=28, epochs=3, verbose=0, callbacks=watching)
    return accuracy(y[:200], model.predict(x[:200], verbose=0))


@program(
    residual=0.4,
    separable=0.3,
    rescaled_bytes=0.4,
    augmented=0.3,
    slow=0.2,
    pool_to_nothing=fault("information missing"),
    all_of_one_class_first=fault("unshuffled"),
    four_in_one_sigmoid=fault("output cannot reach the targets"),
)
def shapes_net(run: Run, case: str) -> float:
    """Squares, rings, crosses and stripes."""
    import keras
    from keras import layers

    x, y = shapes(run.seed, 1000)
    x = x[..., None]
    if case == "rescaled_bytes":
        x = np.clip(128 + 90 * x, 0, 255).astype("float32")
    xt, yt, x, y = x[:250], y[:250], x[250:], y[250:]
    target = y
    if case == "all_of_one_class_first":
        order = np.argsort(y, kind="stable")
        x, target = x[order], y[order]
    elif case == "four_in_one_sigmoid":
        # Four classes and one unit with a sigmoid.
        target = (y + 1).astype("float32")
    inputs = keras.Input((12, 12, 1))
    h = inputs
    if case == "rescaled_bytes":
        h = layers.Rescaling(1 / 127.5, offset=-1)(h)
    elif case == "pool_to_nothing":
        h = layers.AveragePooling2D(12)(h)
    elif case == "augmented":
        h = layers.RandomFlip()(h)
    h = layers.Conv2D(16, 3, padding="same", activation="relu")(h)
    if case == "separable":
        h = layers.SeparableConv2D(32, 3, activation="relu")(h)
    else:
        more = layers.Conv2D(16, 3, padding="same")(h)
        more = layers.BatchNormalization(momentum=0.8)(more)
        h = layers.ReLU()(layers.Add()([h, more]))
    if case != "pool_to_nothing":
        h = layers.MaxPooling2D(2)(h)
    h = layers.Flatten()(h)
    if case == "four_in_one_sigmoid":
        out = layers.Dense(1, "sigmoid")(h)
    else:
        out = layers.Dense(4, "softmax", name="logits")(h)
    model = keras.Model(inputs, out)
    loss = "mse" if case == "four_in_one_sigmoid" else "sparse_categorical_crossentropy"
    rate = 5e-4 if case == "slow" else 3e-3
    model.compile(keras.optimizers.Nadam(rate), loss)
    model.fit(x, target, batch_size=30, epochs=5, verbose=0,
              shuffle="first" not in case, callbacks=run.callbacks())  # fmt: skip
    answer = model.predict(xt, verbose=0)
    if case == "four_in_one_sigmoid":
        answer = np.eye(4)[np.clip(np.round(answer[:, 0]).astype(int) - 1, 0, 3)]
    return accuracy(yt, answer)
