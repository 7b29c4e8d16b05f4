"""Regression with Keras: tables, curves, counts, quantiles."""

from __future__ import annotations

import numpy as np

from ..data import bundled, made, score, standardised
from ..program import fault, program
from ..run import Run


@program(
    plain=0.6,
    mae=0.5,
    huber=0.5,
    log_cosh=0.5,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    relu_output=fault("output cannot reach the targets"),
    sigmoid_output=fault("output cannot reach the targets"),
    linear=fault("no non-linearity"),
    shuffled=fault("labels shuffled"),
    frozen=fault("all frozen"),
    l2=fault("regularised to nothing"),
)
def smooth(run: Run, case: str) -> float:
    import keras
    from keras import layers

    rng = run.rng
    x = rng.uniform(-2, 2, (900, 3)).astype("float32")
    y = x[:, 0] ** 2 - 2 + np.cos(2 * x[:, 1]) + 0.3 * x[:, 2]
    y = (y + 0.1 * rng.normal(size=900))[:, None].astype("float32")
    xt, yt, x, y = x[:250], y[:250], x[250:], y[250:]
    if case == "relu_output":
        y, yt = y - 6, yt - 6
    if case == "shuffled":
        y = rng.permutation(y)
    act = "linear" if case == "linear" else "swish"
    reg = keras.regularizers.L2(4.0) if case == "l2" else None
    last = {"relu_output": "relu", "sigmoid_output": "sigmoid"}.get(case)
    model = keras.Sequential(
        [
            keras.Input(shape=(3,)),
            layers.Dense(64, activation=act, kernel_regularizer=reg),
            layers.Dense(64, activation=act, kernel_regularizer=reg),
            layers.Dense(1, activation=last, kernel_regularizer=reg),
        ]
    )
    if case == "frozen":
        for layer in model.layers:
            layer.trainable = False
    rate = {"low_rate": 1e-6, "high_rate": 2.0}.get(case, 5e-3)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=rate),
        loss={"mae": "mae", "huber": "huber", "log_cosh": "log_cosh"}.get(case, "mse"),
        metrics=["mae"],
    )
    model.fit(
        x,
        y,
        epochs=8,
        batch_size=32,
        verbose=0,
        validation_data=(xt, yt),
        callbacks=run.callbacks(),
    )
    return score("values", yt, model.predict(xt, verbose=0))


@program(
    plain=0.25,
    one_layer=0.15,
    scaled_target=0.25,
    overfit=fault("overfits"),
    raw_target=fault("rate too low", twin="scaled_target"),
    unscaled=fault("unscaled inputs", twin="scaled_target"),
    constant=fault("constant inputs"),
    nan_cell=fault("NaN in the data", step=19),
)
def diabetes(run: Run, case: str) -> float:
    """442 patients, ten features, a faint relation."""
    import keras

    x, y, xt, yt = bundled("diabetes", run.seed)
    y, yt = y[:, None].astype("float32"), yt[:, None].astype("float32")
    if case == "unscaled":
        x, xt = x * 3e4 + 8e4, xt * 3e4 + 8e4
    else:
        x, xt = standardised(x, xt)
    if case in ("scaled_target", "unscaled"):
        y, yt = y / 100, yt / 100
    elif case != "raw_target":
        y, yt = standardised(y, yt)
    if case == "constant":
        x = np.repeat(x[:1], len(x), 0)
    if case == "nan_cell":
        x[18 * 16 + 5, 3] = np.nan
    if case == "overfit":
        x, y = x[:70], y[:70]
    units = 4 if case == "one_layer" else 128 if case == "overfit" else 24
    dense = keras.layers.Dense
    hidden = [dense(units, "relu")]
    if case == "overfit":
        hidden.append(dense(128, "relu"))
    model = keras.Sequential([*hidden, dense(1)])
    if case in ("scaled_target", "raw_target", "unscaled"):
        model.compile(keras.optimizers.SGD({"raw_target": 1e-7}.get(case, 0.01)), "mse")
    else:
        model.compile(keras.optimizers.Adam(5e-3), "mse")
    model.fit(x, y, epochs=60 if case == "overfit" else 8, batch_size=16, verbose=0,
              shuffle=case != "nan_cell", validation_data=(xt, yt),
              callbacks=run.callbacks())  # fmt: skip
    return score("values", yt, model.predict(xt, verbose=0))


@program(
    poisson=0.3,
    heavy_tails=0.3,
    quantile=0.3,
    gaussian_nll=0.35,
    nll_sign=fault("wrong sign", twin="gaussian_nll"),
    broadcast=fault("broadcasting", twin="gaussian_nll"),
    log_of_negative=fault("NaN forward", twin="poisson"),
    negative_targets=fault("targets out of range", twin="poisson"),
)
def distributions(run: Run, case: str) -> float:
    """Losses that are likelihoods, some of which may be negative."""
    import keras
    from keras import ops

    rng = run.rng
    x = rng.normal(size=(900, 5)).astype("float32")
    level = 0.8 * x[:, 0] - 0.6 * np.tanh(2 * x[:, 1]) + 0.7
    if case in ("poisson", "negative_targets", "log_of_negative"):
        y = rng.poisson(np.exp(level)).astype("float32")
    elif case == "heavy_tails":
        y = 2 * level + 0.3 * rng.standard_t(2.2, 900)
    else:
        y = 0.1 * (level + 0.1 * rng.normal(size=900))
    y = y[:, None].astype("float32")
    xt, yt, x, y = x[:250], y[:250], x[250:], y[250:]
    target = y
    if case == "negative_targets":
        target = y - 8
    if case == "broadcast":
        target = y[:, 0]

    def pinball(true, predicted):
        error = true - predicted
        return ops.mean(ops.maximum(0.5 * error, -0.5 * error))

    def likelihood(true, predicted):
        mean, log_scale = predicted[:, :1], ops.clip(predicted[:, 1:], -4, 4)
        nll = log_scale + 0.5 * ops.square((true - mean) / ops.exp(log_scale))
        return -ops.mean(nll) if case == "nll_sign" else ops.mean(nll)

    def counts(true, predicted):
        return ops.mean(predicted - true * ops.log(predicted))

    inputs = keras.Input((5,))
    h = keras.layers.Dense(32, "gelu")(inputs)
    h = keras.layers.Dense(32, "gelu")(h)
    if case in ("gaussian_nll", "nll_sign"):
        out, loss = keras.layers.Dense(2)(h), likelihood
    elif case in ("poisson", "negative_targets"):
        out, loss = keras.layers.Dense(1, "exponential")(h), "poisson"
    elif case == "log_of_negative":
        out, loss = keras.layers.Dense(1)(h), counts
    elif case == "quantile":
        out, loss = keras.layers.Dense(1)(h), pinball
    elif case == "broadcast":
        out = keras.layers.Dense(1)(h)

        def loss(true, predicted):
            return ops.mean(ops.square(ops.reshape(true, (1, -1)) - predicted)) * 50
    else:
        out, loss = keras.layers.Dense(1)(h), "mae"
    model = keras.Model(inputs, out)
    model.compile(keras.optimizers.RMSprop(4e-3), loss)
    model.fit(x, target, batch_size=25, epochs=7, verbose=0, callbacks=run.callbacks())
    answer = model.predict(xt, verbose=0)[:, :1]
    if case == "heavy_tails":
        inside = np.abs(yt - np.median(yt)) < 6
        return score("values", yt[inside], answer[inside[:, 0]])
    return score("values", yt, answer)


@program(
    plain=0.5,
    fourier=0.5,
    deep_tanh=0.4,
    saturated=fault("saturated", layer="first"),
    vanishing=fault("vanishing"),
    dead=fault("dead units", layer="first"),
    decays=fault("rate decays to nothing"),
)
def curve(run: Run, case: str) -> float:
    """One wiggly curve, as in many tutorials."""
    import keras

    rng = run.rng
    x = rng.uniform(-1, 1, (800, 1)).astype("float32")
    y = (np.sin(5 * x) + 0.3 * np.cos(9 * x)).astype("float32")
    y += 0.05 * rng.normal(size=y.shape).astype("float32")
    if case == "fourier":
        x = np.concatenate([np.sin(k * x) for k in range(1, 7)] + [np.cos(2 * x)], 1)
    xt, yt, x, y = x[:200], y[:200], x[200:], y[200:]
    width, depth, act = 32, 2, "relu"
    if case in ("deep_tanh", "saturated"):
        depth, act = 4, "tanh"
    elif case == "vanishing":
        depth, act = 10, "sigmoid"
    start = "he_uniform" if act == "relu" else "glorot_uniform"
    model = keras.Sequential()
    for i in range(depth):
        init = keras.initializers.RandomUniform(-300, 300) if case == "saturated" else start
        bias = keras.initializers.Constant(-9) if case == "dead" else "zeros"
        name = "first" if i == 0 else f"h{i}"
        model.add(keras.layers.Dense(width, act, kernel_initializer=init, bias_initializer=bias,
                                     name=name))  # fmt: skip
    model.add(keras.layers.Dense(1))
    rate = 8e-3
    if case == "decays":
        rate = keras.optimizers.schedules.InverseTimeDecay(8e-3, 1, 5.0)
    model.compile(keras.optimizers.Nadam(rate), "mse")
    model.fit(x, y, batch_size=40, epochs=14, verbose=0, callbacks=run.callbacks())
    return score("values", yt, model.predict(xt, verbose=0))


@program(
    plain=0.5,
    small_batches=0.5,
    weighted=0.5,
    sum_of_batch=fault("summed loss"),
    rolled=fault("inputs and targets out of order"),
    clipped=fault("clipped to nothing"),
)
def linear_table(run: Run, case: str) -> float:
    """A linear model, whose loss soon rests at the noise."""
    import keras

    data = made("linear", run.seed, 500, noise=0.3)
    y = np.roll(data.y, 11) if case == "rolled" else data.y
    model = keras.Sequential([keras.layers.Dense(1, name="line")])
    clip = 1e-7 if case == "clipped" else None
    opt = keras.optimizers.SGD(0.6 if case == "sum_of_batch" else 0.05, clipnorm=clip)
    model.compile(opt, keras.losses.MeanSquaredError(
        reduction="sum" if case == "sum_of_batch" else "sum_over_batch_size"))  # fmt: skip
    size = 4 if case == "small_batches" else 20
    weight = 0.5 + run.rng.random(500) if case == "weighted" else None
    model.fit(data.x, y, sample_weight=weight, batch_size=size, epochs=1 if size == 4 else 4,
              verbose=0, callbacks=run.callbacks())  # fmt: skip
    return score("values", data.truth, model.predict(data.judged_x, verbose=0))
