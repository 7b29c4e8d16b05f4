"""Classifiers of dense layers, trained by Keras's `fit`."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, bundled, made, standardised
from ..program import fault, program
from ..run import Run


@program(
    plain=0.7,
    dropout=0.7,
    selu=0.7,
    no_validation=0.7,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    double_softmax=fault("logits or not"),
    from_probabilities=fault("logits or not"),
    frozen=fault("all frozen"),
    shuffled=fault("labels shuffled"),
    l2=fault("regularised to nothing"),
    dead=fault("dead units", layer="hidden_1"),
    sigmoids=fault("vanishing"),
)
def digits(run: Run, case: str) -> float:
    import keras
    from keras import layers

    data = made("digits", run.seed, 800)
    x, y = data.x, data.y
    if case == "shuffled":
        y = run.rng.permutation(y)
    depth, act = (9, "sigmoid") if case == "sigmoids" else (2, "selu" if case == "selu" else "relu")
    reg = keras.regularizers.l2(20.0) if case == "l2" else None
    model = keras.Sequential([keras.Input((64,))])
    for i in range(depth):
        bias = keras.initializers.Constant(-20.0) if case == "dead" else "zeros"
        model.add(layers.Dense(40, act, kernel_regularizer=reg, bias_initializer=bias,
                               name=f"hidden_{i + 1}"))  # fmt: skip
        if case == "dropout":
            model.add(layers.Dropout(0.4))
    final = None if case == "from_probabilities" else "softmax"
    model.add(layers.Dense(10, activation=final, kernel_regularizer=reg, name="classes"))
    if case == "frozen":
        model.trainable = False
    loss = "sparse_categorical_crossentropy"
    if case == "double_softmax":
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rate = {"low_rate": 1e-6, "high_rate": 1.0}.get(case, 3e-3)
    if case == "double_softmax":
        rate = 3e-4
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    val = None if case == "no_validation" else (data.val_x, data.val_y)
    model.fit(x, y, batch_size=32, epochs=6, verbose=0, validation_data=val,
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0))


@program(
    plain=0.8,
    sgd=0.8,
    class_weights=0.8,
    one_unit_softmax=fault("softmax over one unit"),
    linear=fault("no non-linearity"),
    zeros=fault("symmetric start"),
    unscaled=fault("unscaled inputs", twin="sgd"),
    low_rate=fault("rate too low", twin="sgd"),
)
def circles(run: Run, case: str) -> float:
    """Two rings, told apart by one sigmoid."""
    import keras

    rng = run.rng
    y = rng.integers(0, 2, 900)
    angle = rng.uniform(0, 2 * np.pi, 900)
    radius = np.where(y == 1, 0.5, 1.2) + 0.1 * rng.normal(size=900)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype("float32")
    if case == "unscaled":
        x = x * 5000 + 12000
    xt, yt, x, y = x[:300], y[:300], x[300:], y[300:]
    target = y.astype("float32")
    inputs = keras.Input((2,))
    act = "linear" if case == "linear" else "tanh"
    start = "zeros" if case == "zeros" else "glorot_uniform"
    h = keras.layers.Dense(24, act, kernel_initializer=start)(inputs)
    h = keras.layers.Dense(24, act, kernel_initializer=start)(h)
    last = "softmax" if case == "one_unit_softmax" else "sigmoid"
    out = keras.layers.Dense(1, last, kernel_initializer=start)(h)
    model = keras.Model(inputs, out)
    rate = 1e-5 if case == "low_rate" else 0.2
    sgd = keras.optimizers.SGD(rate, momentum=0.9)
    opt = sgd if case in ("sgd", "unscaled", "low_rate") else keras.optimizers.Adam(0.01)
    model.compile(optimizer=opt, loss="binary_crossentropy", metrics=["accuracy"])
    weights = {0: 1.0, 1: 2.0} if case == "class_weights" else None
    model.fit(x, target, epochs=8, batch_size=25, verbose=0, class_weight=weights,
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(yt, model.predict(xt, verbose=0) - 0.5)


@program(
    plain=0.7,
    one_hot=0.7,
    sigmoid_categorical=0.7,
    mse_on_classes=0.6,
    sorted=0.6,
    unscaled=fault("unscaled inputs"),
    constant=fault("constant inputs"),
    rolled=fault("inputs and targets out of order"),
)
def wine(run: Run, case: str) -> float:
    """A table of 178 wines; one of the first programs that anybody writes."""
    import keras

    x, y, xt, yt = bundled("wine", run.seed)
    if case == "unscaled":
        x, xt = x * 100, xt * 100
    else:
        x, xt = standardised(x, xt)
    if case == "constant":
        x = np.zeros_like(x) + 1e-3 * x[:1]
    if case == "rolled":
        y = np.roll(y, 7)
    if case == "sorted":
        order = np.argsort(y)
        x, y = x[order], y[order]
    last = "sigmoid" if case == "sigmoid_categorical" else "softmax"
    model = keras.Sequential(
        [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3, activation=last)]
    )
    hot = keras.utils.to_categorical(y, 3)
    if case in ("one_hot", "sigmoid_categorical", "sorted"):
        model.compile("sgd" if case == "sorted" else "rmsprop", "categorical_crossentropy")
        model.optimizer.learning_rate = 0.5 if case == "sorted" else 0.01
        target = hot
    elif case == "mse_on_classes":
        model.compile(keras.optimizers.Adam(0.02), "mse")
        target = hot
    else:
        rate = 0.02 if case != "unscaled" else 0.1
        model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
        target = y
    model.fit(x, target, batch_size=8, epochs=8, verbose=0, shuffle=case != "sorted",
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(yt, model.predict(xt, verbose=0))


@program(
    plain=0.6,
    small_data=0.3,
    batch_norm=0.6,
    label_smoothing=0.6,
    overfit=fault("overfits"),
    sign=fault("wrong sign"),
    dropout_all=fault("too much dropout"),
    nan_row=fault("NaN in the data", step=31),
)
def bag_of_words(run: Run, case: str) -> float:
    """Sparse counts of words in three classes."""
    import keras
    from keras import layers, ops

    data = made("one_hot_words", run.seed, 500)
    x, y = data.x, data.y
    if case in ("small_data", "overfit"):
        some = 60 if case == "small_data" else 36
        x, y = x[:some], y[:some]
    if case == "nan_row":
        x[30 * 16 + 3, 5] = np.nan
    stack = [layers.Dense(64, activation="relu"), layers.Dense(64, activation="relu")]
    if case == "batch_norm":
        stack.insert(1, layers.BatchNormalization())
    if case == "dropout_all":
        stack = [
            layers.Dropout(0.97),
            stack[0],
            layers.Dropout(0.97),
            stack[1],
            layers.Dropout(0.97),
        ]
    model = keras.Sequential([*stack, layers.Dense(3, activation="softmax")])

    def negative(true, predicted):
        return -ops.mean(ops.categorical_crossentropy(ops.one_hot(true, 3), predicted))

    loss = keras.losses.CategoricalCrossentropy(label_smoothing=0.1)
    if case == "sign":
        loss = negative
    elif case != "label_smoothing":
        loss = "sparse_categorical_crossentropy"
    if case == "label_smoothing":
        y = keras.utils.to_categorical(y, 3)
    model.compile("adam", loss)
    epochs = {"small_data": 10, "overfit": 45}.get(case, 6)
    model.fit(x, y, epochs=epochs, batch_size=16, verbose=0, shuffle=case != "nan_row",
              validation_data=None if case == "label_smoothing" else (data.val_x, data.val_y),
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0))


@program(
    plain=0.55,
    big_batch=0.5,
    schedule=0.5,
    explode=fault("exploding"),
    saturated=fault("saturated", layer="a"),
    schedule_ends=fault("rate decays to nothing"),
    clipped=fault("clipped to nothing", twin="sgd"),
    sgd=0.5,
)
def checkerboard(run: Run, case: str) -> float:
    """Points on a board of three by three fields."""
    import keras

    rng = run.rng
    x = rng.uniform(-1.5, 1.5, (1000, 2)).astype("float32")
    y = ((np.floor(x[:, 0] + 0.5) + np.floor(x[:, 1] + 0.5)) % 2).astype("int64")
    xt, yt, x, y = x[:250], y[:250], x[250:], y[250:]
    act = "tanh" if case == "saturated" else "relu"
    start = "he_normal"
    if case == "saturated":
        start = keras.initializers.RandomNormal(stddev=40.0)
    elif case == "explode":
        start = keras.initializers.RandomNormal(stddev=3.0)
    net = keras.Sequential(
        [keras.layers.Dense(48, act, kernel_initializer=start, name=name) for name in "abc"]
        + [keras.layers.Dense(2, name="out")]
    )
    rate = 5e-3
    if case == "schedule":
        rate = keras.optimizers.schedules.CosineDecay(1e-2, 300)
    elif case == "schedule_ends":
        rate = keras.optimizers.schedules.ExponentialDecay(5e-3, 3, 0.3)
    if case == "clipped":
        opt = keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=1e-6)
    elif case in ("sgd", "explode"):
        opt = keras.optimizers.SGD(0.1, momentum=0.9)
    else:
        opt = keras.optimizers.Adam(rate)
    net.compile(opt, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    size = 125 if case == "big_batch" else 25
    net.fit(x, y, batch_size=size, epochs=35 if case == "big_batch" else 10, verbose=0,
            validation_split=0.1, callbacks=run.callbacks())  # fmt: skip
    return accuracy(yt, net.predict(xt, verbose=0))
