"""Digits of 8 by 8 pixels: the first convolutional network of many."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run


@program(
    plain=0.6,
    batch_norm=0.6,
    global_pooling=0.5,
    augmented=0.5,
    raw_pixels=0.6,
    schedule=0.6,
    slow=0.4,
    softmax_twice=fault("two softmaxes", twin="slow"),
    frozen_head=fault("all frozen"),
    adam_of_one=fault("rate too high"),
    many_sigmoids=fault("vanishing"),
    momentum=fault("norm statistics lag", twin="batch_norm"),
    dead=fault("dead units", layer="conv"),
    blank=fault("constant inputs"),
    bytes=fault("unscaled inputs"),
)
def digits(run: Run, case: str) -> float:
    import keras
    from keras import layers

    x, y, xt, yt = bundled("digits", run.seed)
    x, y = x[:960], y[:960]
    scale = 1.0 if case == "raw_pixels" else 16.0
    x, xt = x.reshape(-1, 8, 8, 1) / scale, xt.reshape(-1, 8, 8, 1) / scale
    if case == "blank":
        x, xt = np.round(x * 0.02), np.round(xt * 0.02)
    if case == "bytes":
        x, xt = x * 255, xt * 255
    act = "sigmoid" if case == "many_sigmoids" else "relu"
    bias = keras.initializers.Constant(-50.0) if case == "dead" else "zeros"
    net = keras.Sequential([keras.Input((8, 8, 1))])
    if case == "augmented":
        net.add(layers.RandomTranslation(0.1, 0.1))
    net.add(layers.Conv2D(12, 3, activation=act, bias_initializer=bias, name="conv"))
    if case in ("batch_norm", "momentum"):
        net.add(layers.BatchNormalization(momentum=0.99999 if case == "momentum" else 0.9))
        net.add(layers.Conv2D(12, 3, activation="relu"))
        net.add(layers.BatchNormalization(momentum=0.99999 if case == "momentum" else 0.9))
    if case == "global_pooling":
        net.add(layers.Conv2D(32, 3, activation=act))
        net.add(layers.GlobalAveragePooling2D())
    else:
        net.add(layers.MaxPooling2D(2))
        net.add(layers.Flatten())
    for _ in range(8 if case == "many_sigmoids" else 1):
        net.add(layers.Dense(32, activation=act))
    net.add(layers.Dense(10, activation="softmax"))
    if case == "softmax_twice":
        net.add(layers.Activation("softmax"))
    if case == "frozen_head":
        net.trainable = False
    rate = {"adam_of_one": 1.0, "global_pooling": 1e-2, "slow": 5e-4, "softmax_twice": 5e-4}.get(
        case, 3e-3
    )
    if case == "schedule":
        rate = keras.optimizers.schedules.PiecewiseConstantDecay([90, 140], [5e-3, 1e-3, 1e-4])
    optimizer = keras.optimizers.Adam(rate)
    if case == "bytes":
        optimizer = keras.optimizers.SGD(0.05)
    net.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy",
                metrics=["accuracy"])  # fmt: skip
    net.fit(x, y, batch_size=32, epochs=6, validation_data=(xt, yt), verbose=0,
            callbacks=run.callbacks())  # fmt: skip
    return accuracy(yt, net.predict(xt, verbose=0))


@program(
    denoise=0.4,
    bottleneck=0.3,
    relu_code=fault("dead units", layer="code", twin="bottleneck"),
    bce_of_raw=fault("targets out of range", twin="bottleneck"),
)
def autoencoder(run: Run, case: str) -> float:
    """From the tutorial on autoencoders, on digits."""
    import keras
    from keras import layers

    from ...data import score

    x, _, xt, _ = bundled("digits", run.seed)
    x, xt = x[:900] / 16.0, xt / 16.0
    if case == "bce_of_raw":
        x, xt = x * 255, xt * 255
    noisy = x + 0.1 * run.rng.normal(size=x.shape) if case == "denoise" else x
    code = layers.Dense(16, "relu", name="code")
    if case == "relu_code":
        code.bias_initializer = keras.initializers.Constant(-25.0)
    model = keras.Sequential(
        [layers.Dense(48, "relu"), code, layers.Dense(48, "relu"), layers.Dense(64, "sigmoid")]
    )
    model.compile(
        keras.optimizers.Adam(5e-3), "mse" if case == "denoise" else "binary_crossentropy"
    )
    model.fit(noisy.astype("float32"), x, epochs=10, batch_size=30, verbose=0,
              callbacks=run.callbacks())  # fmt: skip
    return score("values", xt, model.predict(xt, verbose=0))
