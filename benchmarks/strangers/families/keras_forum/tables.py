"""Classes of flowers, of tumours and of customers."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, standardised
from ...program import fault, program
from ...run import Run


@program(
    plain=0.6,
    sparse=0.6,
    one_wide_layer=0.6,
    three_sigmoids=0.6,
    mse_of_one_hot=0.6,
    validation_split=0.6,
    forgot_softmax=fault("logits or not"),
    softmax_everywhere=fault("softmax between layers"),
    ten_sigmoids=fault("vanishing"),
    labels_shuffled=fault("labels shuffled"),
    sgd_low=fault("rate too low"),
)
def iris(run: Run, case: str) -> float:
    """Petals in centimetres, just as they come."""
    from keras.layers import Dense, Input
    from keras.models import Sequential
    from keras.optimizers import SGD, Adam
    from keras.utils import to_categorical

    x_train, y_train, x_test, y_test = bundled("iris", run.seed)
    if case == "labels_shuffled":
        run.rng.shuffle(y_train)
    labels = y_train if case == "sparse" else to_categorical(y_train)
    model = Sequential()
    model.add(Input(shape=(4,)))
    if case == "one_wide_layer":
        model.add(Dense(500, activation="relu"))
    elif case in ("ten_sigmoids", "three_sigmoids"):
        for _ in range(10 if case == "ten_sigmoids" else 3):
            model.add(Dense(16, activation="sigmoid"))
    elif case == "softmax_everywhere":
        for _ in range(5):
            model.add(Dense(16, activation="softmax"))
    else:
        model.add(Dense(16, activation="relu"))
        model.add(Dense(16, activation="relu"))
    model.add(Dense(3, activation="linear" if case == "forgot_softmax" else "softmax"))
    loss = "categorical_crossentropy"
    if case == "sparse":
        loss = "sparse_categorical_crossentropy"
    elif case == "mse_of_one_hot":
        loss = "mse"
    optimizer = Adam(0.03 if "sigmoids" in case else 0.02)
    if case == "sgd_low":
        optimizer = SGD(1e-5)
    model.compile(loss=loss, optimizer=optimizer, metrics=["accuracy"])
    model.fit(x_train, labels, epochs=12, batch_size=5, verbose=0,
              validation_split=0.15 if case == "validation_split" else 0.0,
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(y_test, model.predict(x_test, verbose=0))


@program(
    plain=0.6,
    two_units=0.6,
    hinge=0.6,
    norm_of_raw=0.6,
    dropout_half=0.6,
    logits=0.6,
    softmax_of_one=fault("softmax over one unit"),
    raw=fault("unscaled inputs"),
    all_frozen=fault("all frozen"),
    dropout_95=fault("too much dropout"),
    huge_l2=fault("regularised to nothing"),
    rate_of_one=fault("rate too high"),
    zeros=fault("symmetric start"),
)
def tumours(run: Run, case: str) -> float:
    """Benign or malignant, from thirty measurements."""
    import keras
    from keras import layers

    x, y, xt, yt = bundled("breast_cancer", run.seed)
    if case not in ("raw", "norm_of_raw"):
        x, xt = standardised(x, xt)
    target = y.astype("float32")
    if case == "hinge":
        target = 2 * target - 1
    reg = keras.regularizers.L2(10.0) if case == "huge_l2" else None
    start = "zeros" if case == "zeros" else "glorot_uniform"
    rate = {"dropout_95": 0.95, "dropout_half": 0.5}.get(case, 0.0)
    model = keras.Sequential()
    if case == "norm_of_raw":
        model.add(layers.BatchNormalization())
    for units in (12, 8):
        model.add(layers.Dense(units, "relu", kernel_regularizer=reg, kernel_initializer=start))
        if rate:
            model.add(layers.Dropout(rate))
    last = {"softmax_of_one": "softmax", "hinge": "tanh", "logits": None}
    units = 2 if case == "two_units" else 1
    activation = "softmax" if units == 2 else last.get(case, "sigmoid")
    model.add(layers.Dense(units, activation, kernel_initializer=start))
    if case == "all_frozen":
        for layer in model.layers:
            layer.trainable = False
    loss = "binary_crossentropy"
    if case == "two_units":
        loss = "sparse_categorical_crossentropy"
    elif case == "hinge":
        loss = "hinge"
    elif case == "logits":
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(3e-3)
    if case == "raw":
        optimizer = keras.optimizers.SGD(0.01)
    elif case == "rate_of_one":
        optimizer = keras.optimizers.SGD(30.0, momentum=0.9)
    model.compile(optimizer, loss, metrics=["accuracy"])
    model.fit(x, target, epochs=10, batch_size=16, verbose=0, callbacks=run.callbacks())
    answer = model.predict(xt, verbose=0)
    middle = 0.0 if case in ("hinge", "logits", "two_units") else 0.5
    return accuracy(yt, answer - middle)


@program(
    two_inputs=0.5,
    wide_and_deep=0.5,
    class_weight=0.4,
    prelu=0.5,
    all_same_index=fault("information missing"),
    dead_relu=fault("dead units", layer="hidden"),
    low_rate=fault("rate too low"),
    decay=fault("weight decay"),
    table_frozen=fault("all frozen"),
)
def churn(run: Run, case: str) -> float:
    """Who leaves depends on the customer's plan, and on two numbers."""
    import keras
    from keras import layers

    rng = run.rng
    n = 1200
    plan = rng.integers(0, 12, n)
    numbers = rng.normal(size=(n, 2)).astype("float32")
    taste = np.random.default_rng(3).normal(size=(12, 2)) * 2
    leaves = ((numbers * taste[plan]).sum(1) + 0.3 * rng.normal(size=n) > 0).astype("float32")
    index = plan.reshape(-1, 1).astype("int32")
    if case == "all_same_index":
        index = np.zeros_like(index)
    plan_in, numbers_in = keras.Input((1,), dtype="int32"), keras.Input((2,))
    known = layers.Embedding(12, 6, name="plan")(plan_in)
    h = layers.Concatenate()([layers.Flatten()(known), numbers_in])
    bias = keras.initializers.Constant(-30.0) if case == "dead_relu" else "zeros"
    h = layers.Dense(32, "relu", bias_initializer=bias, name="hidden")(h)
    if case == "prelu":
        h = layers.PReLU()(layers.Dense(24)(h))
    else:
        h = layers.Dense(24, "relu", name="second")(h)
    if case == "wide_and_deep":
        h = layers.Concatenate()([h, numbers_in])
    model = keras.Model([plan_in, numbers_in], layers.Dense(1, "sigmoid")(h))
    if case == "table_frozen":
        model.trainable = False
    rate = 1e-6 if case == "low_rate" else 8e-3
    optimizer = keras.optimizers.Adam(rate)
    if case == "decay":
        optimizer = keras.optimizers.AdamW(rate, weight_decay=60.0)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    held = 300
    weights = {0: 1.0, 1: 1.5} if case == "class_weight" else None
    model.fit([index[held:], numbers[held:]], leaves[held:], epochs=10, batch_size=32, verbose=0,
              class_weight=weights, callbacks=run.callbacks())  # fmt: skip
    answer = model.predict([index[:held], numbers[:held]], verbose=0)
    return accuracy(leaves[:held], answer - 0.5)
