"""Tables in Keras's `fit`: energy of buildings, loans, faults of machines."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, score, standardised
from ...program import fault, program
from ...run import Run


@program(
    scaled=0.5,
    watts=0.5,
    pinball=0.4,
    with_validation=0.5,
    weights_of_samples=0.5,
    two_fits=0.5,
    column_for_row=fault("broadcasting"),
    targets_in_watts=fault("unscaled targets"),
    ends_in_relu=fault("output cannot reach the targets"),
    targets_shuffled=fault("labels shuffled"),
    rate_of_five=fault("rate too high"),
    penalty_of_ten=fault("regularised to nothing"),
    reaches_zero=fault("NaN forward", 1),
    rate_cut_each_epoch=fault("rate decays to nothing"),
)
def energy(run: Run, case: str) -> float:
    """What a building uses in an hour, from its weather and its walls."""
    import keras
    from keras import layers, ops, regularizers

    rng, n = run.rng, 2400
    x = rng.normal(size=(n, 8))
    load = 3 * np.maximum(x[:, 0], 0) * (1.5 + x[:, 1]) + 2 * np.abs(x[:, 2]) + np.sin(3 * x[:, 3])
    y = 20000 + 4000 * (load + 0.3 * rng.normal(size=n))
    cut = 1800
    mean, deviation = y[:cut].mean(), y[:cut].std()
    if case != "targets_in_watts":
        y = (y - mean) / deviation
    x, y = x.astype("float32"), y.astype("float32")[:, None]
    truth = rng.permutation(y[:cut]) if case == "targets_shuffled" else y[:cut]
    penalty = regularizers.L2(10.0) if case == "penalty_of_ten" else None
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(64, "relu", kernel_regularizer=penalty),
            layers.Dense(64, "relu", kernel_regularizer=penalty),
            layers.Dense(1, "relu" if case == "ends_in_relu" else None),
        ]
    )

    def in_watts(t, p):
        return ops.square(deviation * (t - p))

    def quantile(t, p):
        return ops.maximum(0.5 * (t - p), -0.5 * (t - p))

    def over_a_vector(t, p):
        return ops.mean(ops.square(ops.squeeze(t, -1) - p))

    def relative(t, p):
        return ops.square(ops.log(t - p))

    loss = {
        "watts": in_watts,
        "pinball": quantile,
        "column_for_row": over_a_vector,
        "reaches_zero": relative,
    }.get(case, "mse")
    rate = 5.0 if case == "rate_of_five" else 2e-3
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["mae"])
    more = list(run.callbacks())
    if case == "rate_cut_each_epoch":
        more.append(keras.callbacks.LearningRateScheduler(lambda e, r: r * 0.01))
    elif case == "with_validation":
        more.append(keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.5))
    options = {"batch_size": 64, "verbose": 0, "callbacks": more, "epochs": 8}
    if case == "with_validation":
        options["validation_split"] = 0.1
    elif case == "weights_of_samples":
        options["sample_weight"] = rng.gamma(0.3, size=cut).astype("float32")
    elif case == "two_fits":
        options["epochs"] = 4
        model.fit(x[:cut], truth, **options)
    model.fit(x[:cut], truth, **options)
    return score("values", y[cut:], model.predict(x[cut:], verbose=0))


@program(
    balanced=0.25,
    selu_and_alpha=0.25,
    wide_and_deep=0.25,
    small_steps=0.25,
    one_unit_softmax=fault("softmax over one unit"),
    weights_upside_down=fault("class weights wrong"),
    from_logits_twice=fault("logits or not", twin="plain"),
    plain=0.2,
    deep_sigmoid=fault("vanishing"),
    zeros_at_the_start=fault("symmetric start"),
    alphadrop_of_97=fault("too much dropout"),
    means_of_another_file=fault("unscaled inputs", twin="plain"),
    margin_with_zero_one=fault("targets out of range", twin="hinge"),
    hinge=0.2,
)
def loans(run: Run, case: str) -> float:
    """Who does not pay back: one in four."""
    import keras
    from keras import layers

    rng, n = run.rng, 3200
    x = rng.normal(size=(n, 12))
    risk = x[:, 0] * x[:, 1] + x[:, 2] ** 2 + 1.2 * x[:, 3] + 0.3 * rng.normal(size=n)
    y = (risk > np.quantile(risk, 0.7)).astype("float32")
    if case == "means_of_another_file":
        x = 400 * x + 9000
    x, cut = x.astype("float32"), 2400
    inputs = keras.Input((12,))
    h = inputs
    kind = {"deep_sigmoid": "sigmoid", "selu_and_alpha": "selu"}.get(case, "relu")
    start = "zeros" if case == "zeros_at_the_start" else "glorot_uniform"
    if case == "selu_and_alpha":
        start = "lecun_normal"
    for _ in range(9 if case == "deep_sigmoid" else 2):
        h = layers.Dense(48, kind, kernel_initializer=start)(h)
        if case == "selu_and_alpha":
            h = layers.AlphaDropout(0.05)(h)
        elif case == "alphadrop_of_97":
            h = layers.Dropout(0.97)(h)
    if case == "wide_and_deep":
        h = layers.Concatenate()([h, inputs])
    last = {"one_unit_softmax": "softmax", "hinge": None, "margin_with_zero_one": None}
    out = layers.Dense(1, last.get(case, "sigmoid"))(h)
    model = keras.Model(inputs, out)
    loss = "binary_crossentropy"
    if case in ("hinge", "margin_with_zero_one"):
        loss = _hinge if case == "hinge" else _hinge_of_signs
    elif case == "from_logits_twice":
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(3e-4 if case == "small_steps" else 3e-3)
    if case in ("plain", "from_logits_twice", "means_of_another_file"):
        optimizer = keras.optimizers.SGD(0.05)
    model.compile(optimizer, loss, metrics=["accuracy"])
    weights = None
    if case == "balanced":
        weights = {0: 1.0, 1: 2.5}
    elif case == "weights_upside_down":
        # The counts themselves, as shares, instead of what is inverse to them.
        weights = {0: 2.5, 1: 0.05}
    model.fit(
        x[:cut], y[:cut], batch_size=32, epochs=9 if case == "small_steps" else 4,
        class_weight=weights, validation_data=(x[cut:], y[cut:]), verbose=0,
        callbacks=run.callbacks(),
    )  # fmt: skip
    answer = model.predict(x[cut:], verbose=0)[:, 0]
    threshold = 0.0 if case in ("hinge", "margin_with_zero_one") else 0.5
    return accuracy(y[cut:], answer - threshold)


def _hinge(t, p):
    from keras import ops

    return ops.mean(ops.maximum(0.0, 1 - (2 * t - 1) * p))


def _hinge_of_signs(t, p):
    from keras import ops

    return ops.mean(ops.maximum(0.0, 1 - t * p))


@program(
    stock=0.5,
    ensemble_of_heads=0.5,
    ignores_three=0.4,
    sums_to_nothing=fault("loss cancels"),
    classes_by_position=fault("softmax over the wrong axis"),
    text_labels_off=fault("inputs and targets out of order"),
    hidden_gets_frozen=fault("all frozen"),
    starves=fault("dead units"),
)
def wines(run: Run, case: str) -> float:
    """Which of three vineyards; 178 wines, whole batches."""
    import keras
    from keras import layers, ops

    x, y, xt, yt = bundled("wine", run.seed)
    x, xt = standardised(x, xt)
    inputs = keras.Input((13,))
    low = keras.initializers.Constant(-9.0) if case == "starves" else "zeros"
    h = layers.Dense(32, "relu", bias_initializer=low, name="mix")(inputs)
    h = layers.Dense(32, "relu", name="blend")(h)
    if case == "ensemble_of_heads":
        out = layers.Average()([layers.Dense(3, "softmax")(h) for _ in range(3)])
    elif case == "classes_by_position":
        out = layers.Softmax(axis=0)(layers.Dense(3)(h))
    else:
        out = layers.Dense(3, "softmax")(h)
    model = keras.Model(inputs, out)
    if case == "hidden_gets_frozen":
        model.trainable = False
    elif case == "ignores_three":
        model.get_layer("mix").trainable = False
    truth = np.eye(3, dtype="float32")[y]

    def summed(t, p):
        # Meant to be the difference between the two, squared, and summed.
        return ops.square(ops.sum(t - p, -1))

    loss = summed if case == "sums_to_nothing" else "categorical_crossentropy"
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    if case == "text_labels_off":
        truth = truth[np.argsort([str(i) for i in range(len(truth))])]
    model.fit(x, truth, batch_size=64, epochs=40, verbose=0, callbacks=run.callbacks())
    # As they come, one by one.
    return accuracy(yt, model.predict(xt, batch_size=1, verbose=0))
