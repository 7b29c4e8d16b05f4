"""Convolutional networks in Keras's `fit`."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made, score, shapes
from ..program import fault, program
from ..run import Run


@program(
    plain=0.5,
    batch_norm=0.5,
    separable=0.4,
    augmented=0.4,
    global_pool=0.4,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    bytes=fault("unscaled inputs"),
    softmax_logits=fault("logits or not"),
    shuffled=fault("labels shuffled"),
    dead=fault("dead units", layer=("conv_a", "relu_a")),
    frozen=fault("all frozen"),
    sorted=fault("unshuffled"),
)
def shape_classes(run: Run, case: str) -> float:
    import keras
    from keras import layers

    x, y = shapes(run.seed, 760, side=10)
    x = x[..., None]
    if case == "bytes":
        x = x * 2550 + 40000
    xt, yt, x, y = x[:200], y[:200], x[200:], y[200:]
    if case == "shuffled":
        y = run.rng.permutation(y)
    if case == "sorted":
        order = np.argsort(y, kind="stable")
        x, y = x[order], y[order]
    conv = layers.SeparableConv2D if case == "separable" else layers.Conv2D
    bias = keras.initializers.Constant(-12.0) if case == "dead" else "zeros"
    stack = [keras.Input((10, 10, 1))]
    if case == "augmented":
        stack.append(layers.GaussianNoise(0.1))
    stack.append(conv(12, 3, padding="same", name="conv_a", bias_initializer=bias))
    if case == "batch_norm":
        stack.append(layers.BatchNormalization())
    stack += [layers.ReLU(name="relu_a"), layers.MaxPooling2D()]
    stack += [conv(24, 3, activation="relu", name="conv_b")]
    stack.append(layers.GlobalMaxPooling2D() if case == "global_pool" else layers.Flatten())
    stack.append(layers.Dense(4, activation="softmax", name="classes"))
    model = keras.Sequential(stack, name="cnn")
    model.trainable = case != "frozen"
    rate = {"low_rate": 2e-7, "high_rate": 2.0, "softmax_logits": 5e-4, "bytes": 2e-2}
    opt = keras.optimizers.Adam(rate.get(case, 5e-3))
    if case == "sorted":
        opt = keras.optimizers.SGD(0.1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=case == "softmax_logits")
    model.compile(opt, loss, metrics=["accuracy"])
    epochs = 2 if case == "sorted" else 7
    model.fit(x, y, batch_size=28, epochs=epochs, verbose=0, validation_data=(xt, yt),
              shuffle=case != "sorted", callbacks=run.callbacks())  # fmt: skip
    return accuracy(yt, model.predict(xt, verbose=0))


@program(
    plain=0.6,
    strided=0.6,
    leaky=0.6,
    explode=fault("exploding"),
    wrong_axis=fault("softmax over the wrong axis"),
    one_hot_mse_frozen_head=0.3,
    nan_pixel=fault("NaN in the data", step=23),
    decay=fault("weight decay"),
)
def digit_images(run: Run, case: str) -> float:
    """Eight by eight digits; the functional interface."""
    import keras
    from keras import layers, ops

    data = made("digits", run.seed, 700, image=True)
    x = data.x.copy()
    if case == "nan_pixel":
        x[22 * 28 + 9, 2, 2, 0] = np.nan
    start = keras.initializers.RandomNormal(stddev=2.5) if case == "explode" else "he_normal"
    inputs = keras.Input((8, 8, 1))
    h = inputs
    for i in range(5 if case == "explode" else 2):
        stride = 2 if case == "strided" and i == 0 else 1
        h = layers.Conv2D(12, 3, stride, "same", kernel_initializer=start, name=f"conv{i}")(h)
        h = layers.LeakyReLU()(h) if case == "leaky" else layers.Activation("relu")(h)
    h = layers.AveragePooling2D(2)(h)
    h = layers.Flatten()(h)
    head = layers.Dense(10, name="head")
    if case == "one_hot_mse_frozen_head":
        head.trainable = False
    logits = head(h)
    axis = 0 if case == "wrong_axis" else -1
    out = layers.Lambda(lambda z: ops.softmax(z, axis=axis))(logits)
    model = keras.Model(inputs, out)
    if case == "explode":
        opt = keras.optimizers.SGD(0.05)
    elif case == "decay":
        opt = keras.optimizers.AdamW(3e-3, weight_decay=60.0)
    else:
        opt = keras.optimizers.Adam(3e-3)
    if case == "one_hot_mse_frozen_head":
        model.compile(opt, "mse")
        y = np.eye(10, dtype="float32")[data.y]
    else:
        model.compile(opt, "sparse_categorical_crossentropy")
        y = data.y
    model.fit(x, y, epochs=6, batch_size=28, verbose=0, shuffle=case != "nan_pixel",
              callbacks=run.callbacks())  # fmt: skip
    size = 1 if case == "wrong_axis" else 100
    return accuracy(data.truth, model.predict(data.judged_x, batch_size=size, verbose=0))


@program(
    plain=0.5,
    dice=0.3,
    rare_pixels=0.2,
    weighted_sign=fault("wrong sign"),
    relu_last=fault("output cannot reach the targets", twin="rare_pixels"),
    low_rate=fault("rate too low"),
)
def segmentation(run: Run, case: str) -> float:
    """Which pixels belong to the object; most do not."""
    import keras
    from keras import layers, ops

    rng = run.rng
    n, side = 400, 12
    mask = np.zeros((n, side, side, 1), "float32")
    for one in mask:
        a, b = rng.integers(0, side - 5, 2)
        h, w = rng.integers(2, 4 if case == "rare_pixels" else 6, 2)
        one[a : a + h, b : b + w] = 1
    x = (mask + 0.7 * rng.normal(size=mask.shape)).astype("float32")
    xt, yt, x, y = x[:100], mask[:100], x[100:], mask[100:]
    last = "relu" if case == "relu_last" else "sigmoid"
    start = keras.initializers.Constant(-1.0) if case == "relu_last" else "zeros"
    model = keras.Sequential(
        [
            layers.Conv2D(12, 3, padding="same", activation="relu"),
            layers.Conv2D(12, 3, padding="same", activation="relu"),
            layers.Conv2D(1, 1, activation=last, bias_initializer=start, name="mask"),
        ]
    )

    def dice(true, predicted):
        inside = ops.sum(true * predicted)
        return 1 - 2 * inside / (ops.sum(true) + ops.sum(predicted) + 1e-6)

    def negative(true, predicted):
        return ops.mean(predicted * true) - ops.mean(predicted * (1 - true))

    loss = {"dice": dice, "weighted_sign": negative}.get(case, "binary_crossentropy")
    model.compile(keras.optimizers.Adam(1e-7 if case == "low_rate" else 8e-3), loss)
    model.fit(x, y, batch_size=15, epochs=6, verbose=0, callbacks=run.callbacks())
    return score("values", yt.reshape(-1, 1), model.predict(xt, verbose=0).reshape(-1, 1))


@program(
    plain=0.6,
    dilated=0.6,
    high_dropout=0.3,
    too_much=fault("too much dropout"),
    zeros=fault("symmetric start"),
    eps=fault("Adam's epsilon"),
)
def signals(run: Run, case: str) -> float:
    """One-dimensional convolutions over waves."""
    import keras
    from keras import layers

    data = made("waves", run.seed, 600, length=16)
    start = "zeros" if case == "zeros" else "glorot_uniform"
    rate = {"high_dropout": 0.35, "too_much": 0.98}.get(case, 0.0)
    model = keras.Sequential(
        [
            layers.Conv1D(16, 3, dilation_rate=2 if case == "dilated" else 1, activation="elu",
                          kernel_initializer=start),
            layers.Dropout(rate),
            layers.Conv1D(16, 3, activation="elu", kernel_initializer=start),
            layers.Dropout(rate),
            layers.Flatten(),
            layers.Dense(3, "softmax", kernel_initializer=start),
        ]
    )  # fmt: skip
    opt = keras.optimizers.Adam(3e-3, epsilon=10.0 if case == "eps" else 1e-7)
    model.compile(opt, "sparse_categorical_crossentropy")
    model.fit(data.x, data.y, batch_size=24, epochs=6, verbose=0, callbacks=run.callbacks())
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0))
