"""Regressions: prices, a curve, a forecast of tomorrow's value."""

from __future__ import annotations

import numpy as np

from ...data import score, standardised
from ...program import fault, program
from ...run import Run


@program(
    scaled=0.6,
    log_prices=0.5,
    normalization_layer=0.6,
    mae=0.5,
    huber=0.6,
    unscaled_prices=fault("unscaled targets"),
    sigmoid_output=fault("output cannot reach the targets"),
    relu_output=fault("output cannot reach the targets"),
    raw_sgd=fault("unscaled inputs"),
    out_of_order=fault("inputs and targets out of order"),
    nan_cell=fault("NaN in the data", step=24),
)
def houses(run: Run, case: str) -> float:
    """Prices around 250,000 from area, age, rooms and distance."""
    import keras
    from keras import layers

    rng = run.rng
    n = 900
    area, age = rng.uniform(40, 260, n), rng.uniform(0, 90, n)
    rooms, distance = rng.integers(1, 8, n), rng.gamma(2.0, 4.0, n)
    price = 2200 * area + 9000 * rooms - 900 * age + 150000 * np.exp(-distance / 6)
    price = price + rng.normal(0, 15000, n)
    x = np.stack([area, age, rooms, distance], 1).astype("float32")
    raw = x.copy()
    x = standardised(x)[0]
    z = ((price - price.mean()) / price.std()).astype("float32")
    y = z
    if case == "log_prices":
        y = np.log(price).astype("float32") - 12
    elif case == "unscaled_prices":
        y = price.astype("float32")
    elif case == "relu_output":
        y = z - 4
    if case in ("raw_sgd", "normalization_layer"):
        x = raw
    if case == "nan_cell":
        x = x.copy()
        x[200 + 23 * 20 + 7, 1] = np.nan
    xt, x, yt, y = x[:200], x[200:], y[:200], y[200:]
    if case == "out_of_order":
        x = x[np.argsort(x[:, 0])]
    model = keras.Sequential([keras.Input((4,))])
    if case == "normalization_layer":
        norm = layers.Normalization()
        norm.adapt(x)
        model.add(norm)
    model.add(layers.Dense(32, activation="relu", name="first"))
    model.add(layers.Dense(16, activation="relu", name="second"))
    last = {"sigmoid_output": "sigmoid", "relu_output": "relu"}
    model.add(layers.Dense(1, activation=last.get(case), name="price"))
    loss = case if case in ("mae", "huber") else "mse"
    optimizer = keras.optimizers.Adam(5e-3)
    if case == "unscaled_prices":
        optimizer = keras.optimizers.Adam(1e-3)
    if case == "raw_sgd":
        optimizer = keras.optimizers.SGD(0.01)
    model.compile(loss=loss, optimizer=optimizer, metrics=["mae"])
    model.fit(x, y, epochs=8, batch_size=20, verbose=0, shuffle=case != "nan_cell",
              validation_data=(xt, yt), callbacks=run.callbacks())  # fmt: skip
    return score("values", yt, model.predict(xt, verbose=0))


@program(
    tanh=0.6,
    elu=0.6,
    residual=0.6,
    rmsprop=0.5,
    forgot_activation=fault("no non-linearity"),
    fast_sgd=fault("rate too high"),
    saturated=fault("saturated", layer="first"),
    clipvalue=fault("clipped to nothing"),
    decays_away=fault("rate decays to nothing"),
    wrong_sign=fault("wrong sign"),
)
def wave(run: Run, case: str) -> float:
    """How do I fit a sine?"""
    import keras
    from keras import layers, ops

    x = run.rng.uniform(-3, 3, (1000, 1)).astype("float32")
    y = (np.sin(2 * x) + 0.05 * run.rng.normal(size=x.shape)).astype("float32")
    xt, x, yt, y = x[:250], x[250:], y[:250], y[250:]
    inputs = keras.Input(shape=(1,))
    act = {"elu": "elu", "forgot_activation": None}.get(case, "tanh")
    start = keras.initializers.RandomNormal(stddev=50000.0) if case == "saturated" else "he_normal"
    h = layers.Dense(40, activation=act, kernel_initializer=start, name="first")(inputs)
    for name in ("second", "third"):
        more = layers.Dense(40, activation=act, name=name)(h)
        h = layers.Add()([h, more]) if case == "residual" else more
    model = keras.Model(inputs, layers.Dense(1)(h))
    rate = 5e-3
    if case == "decays_away":
        rate = keras.optimizers.schedules.ExponentialDecay(1e-3, 5, 0.5)
    optimizer = keras.optimizers.Adam(rate)
    if case == "rmsprop":
        optimizer = keras.optimizers.RMSprop(2e-3)
    elif case == "fast_sgd":
        optimizer = keras.optimizers.SGD(3.0)
    elif case == "clipvalue":
        optimizer = keras.optimizers.SGD(0.05, clipvalue=1e-6)
    loss = "mse"
    if case == "wrong_sign":
        loss = lambda true, guess: -ops.mean(ops.square(true - guess))  # noqa: E731
    model.compile(optimizer=optimizer, loss=loss)
    model.fit(x, y, batch_size=25, epochs=10, verbose=0, callbacks=run.callbacks())
    return score("values", yt, model.predict(xt, verbose=0))


@program(
    dense=0.5,
    lstm=0.4,
    unscaled_series=fault("unscaled targets", twin="lstm"),
    low_rate=fault("rate too low", twin="lstm"),
)
def forecast(run: Run, case: str) -> float:
    """Windows of 12 values; the next one is asked for."""
    import keras
    from keras import layers

    t = np.arange(900)
    series = np.sin(t / 5) + 0.5 * np.sin(t / 2.3 + run.seed) + 0.05 * run.rng.normal(size=900)
    if case == "unscaled_series":
        series = 8000 + 1500 * series
    windows = np.lib.stride_tricks.sliding_window_view(series, 13).astype("float32")
    x, y = windows[:, :12, None], windows[:, 12:]
    cut = 650
    first = layers.Flatten() if case == "dense" else layers.LSTM(16)
    model = keras.Sequential([first, layers.Dense(16, "relu"), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(1e-6 if case == "low_rate" else 5e-3), "mse")
    model.fit(x[:cut], y[:cut], epochs=5, batch_size=26, verbose=0, callbacks=run.callbacks())
    return score("values", y[cut:], model.predict(x[cut:], verbose=0))
