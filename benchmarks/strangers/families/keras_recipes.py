"""Keras's `fit` with recipes of today, and the mistakes that come with them."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, bundled, score
from ..program import fault, program
from ..run import Run


@program(
    products=0.4,
    towers_with_biases=0.4,
    huge_tables=0.3,
    ids_as_numbers=fault("ids as numbers"),
    ratings_of_other_pairs=fault("inputs and targets out of order"),
)
def shop(run: Run, case: str) -> float:
    """What a customer thinks of a thing, from the numbers of both."""
    import keras
    from keras import layers, ops

    rng, n = run.rng, 6000
    left, right = rng.normal(size=(120, 2)), rng.normal(size=(60, 2))
    u, i = rng.integers(0, 120, n), rng.integers(0, 60, n)
    y = ((left[u] * right[i]).sum(1) + right[i, 0] + 0.2 * rng.normal(size=n)).astype("float32")
    told = rng.permutation(y) if case == "ratings_of_other_pairs" else y
    wide = 50 if case == "huge_tables" else 1
    user, item = keras.Input((1,), name="user"), keras.Input((1,), name="item")
    if case == "ids_as_numbers":
        h = layers.Concatenate()([user, item])
        for _ in range(2):
            h = layers.Dense(48, "relu")(h)
        out = layers.Dense(1)(h)
    else:
        a = layers.Flatten()(layers.Embedding(120 * wide, 12)(user))
        b = layers.Flatten()(layers.Embedding(60 * wide, 12)(item))
        if case == "towers_with_biases":
            a, b = (layers.Dense(16)(layers.Dense(32, "relu")(v)) for v in (a, b))
        out = layers.Dot(1)([a, b])
        bias = layers.Flatten()(layers.Embedding(60 * wide, 1)(item))
        out = layers.Add()([out, bias])
    model = keras.Model([user, item], out)
    model.compile(keras.optimizers.Adam(1e-2), lambda t, p: ops.mean(ops.square(t - p)))
    x = [u[:, None].astype("float32"), i[:, None].astype("float32")]
    model.fit([v[:5000] for v in x], told[:5000, None], batch_size=100, epochs=6, verbose=0,
              callbacks=run.callbacks())  # fmt: skip
    return score("values", y[5000:], model.predict([v[5000:] for v in x], verbose=0))


@program(
    accumulated=0.5,
    lion=0.5,
    average_of_weights=0.5,
    mixed_and_smooth=0.5,
    divided_twice=fault("unscaled inputs"),
    generator_of_one_batch=fault("one batch only"),
    dropout_of_97=fault("too much dropout"),
    optimizer_forgets=fault("rate decays to nothing"),
)
def pictures(run: Run, case: str) -> float:
    """Digits of 8 by 8 pixels."""
    import keras
    from keras import layers

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt = ((v / 16).reshape(-1, 8, 8, 1) for v in (x, xt))
    if case == "divided_twice":
        x, xt = x / 255, xt / 255
    noise = layers.GaussianNoise(0.05) if case != "dropout_of_97" else layers.Dropout(0.97)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            noise,
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(24, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    rate, more = 4e-3, {}
    if case == "accumulated":
        more = {"gradient_accumulation_steps": 4}
    elif case == "average_of_weights":
        more = {"use_ema": True, "ema_momentum": 0.95, "ema_overwrite_frequency": 20}
    elif case == "optimizer_forgets":
        rate = keras.optimizers.schedules.PolynomialDecay(4e-3, 6, 0.0)
    optimizer = keras.optimizers.Adam(rate, **more)
    if case == "divided_twice":
        optimizer = keras.optimizers.SGD(0.05)
    elif case == "lion":
        optimizer = keras.optimizers.Lion(1e-3)
    smooth = 0.1 if case == "mixed_and_smooth" else 0.0
    model.compile(
        optimizer,
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smooth),
        metrics=["accuracy"],
    )

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 28

        def __getitem__(self, k):
            if case == "generator_of_one_batch":
                k = 0
            a, b = x[48 * k : 48 * k + 48], np.eye(10, dtype="float32")[y[48 * k : 48 * k + 48]]
            if case == "mixed_and_smooth":
                share = np.random.default_rng(k).beta(0.4, 0.4)
                a, b = share * a + (1 - share) * a[::-1], share * b + (1 - share) * b[::-1]
            return a, b

    if case == "generator_of_one_batch":
        # Sorted, as many a folder of pictures is.
        order = np.argsort(y, kind="stable")
        x, y = x[order], y[order]
    model.fit(Batches(), epochs=5, verbose=0, callbacks=run.callbacks())
    return accuracy(yt, model.predict(xt, verbose=0))


@program(
    residual_of_the_season=0.4,
    norm_of_each_window=0.4,
    reshaped_for_transposed=fault("inputs and targets out of order"),
    statistics_of_the_wrong_column=fault("unscaled inputs"),
)
def sales(run: Run, case: str) -> float:
    """Tomorrow's sales of twelve shops, from three weeks; weekly and yearly."""
    import keras
    from keras import layers, ops

    rng = run.rng
    day, shops = np.arange(400), 12
    phase, level = rng.integers(0, 7, shops), rng.uniform(0.5, 2, shops)
    week = 1 + 0.6 * np.sin(2 * np.pi * (day[:, None] + phase) / 7)
    walk = np.cumsum(0.05 * rng.normal(size=(400, shops)), 0)
    series = level * week + walk + 0.1 * rng.normal(size=(400, shops))
    custom = np.stack([series, np.broadcast_to(5000 + 1500 * level, series.shape)], -1)
    mean, deviation = custom.mean((0, 1)), custom.std((0, 1))
    if case == "statistics_of_the_wrong_column":
        mean, deviation = mean[::-1], deviation[::-1]
    custom = (custom - mean) / deviation
    windows = np.stack([custom[k : k + 21] for k in range(379)])  # (start, day, shop, what)
    after = np.stack([(series[k + 21] - series.mean()) / series.std() for k in range(379)])
    if case == "reshaped_for_transposed":
        x = windows.reshape(-1, 21, 2)
    else:
        x = windows.transpose(0, 2, 1, 3).reshape(-1, 21, 2)
    x, y = x.astype("float32"), after.reshape(-1, 1).astype("float32")
    inputs = keras.Input((21, 2))
    h = inputs
    if case == "norm_of_each_window":
        middle = ops.mean(inputs, 1, keepdims=True)
        h = inputs - middle
    h = layers.Conv1D(24, 7, activation="relu")(h)
    h = layers.GRU(24)(h) if case == "norm_of_each_window" else layers.Flatten()(h)
    out = layers.Dense(1)(layers.Dense(24, "relu")(h))
    if case == "residual_of_the_season":
        out = layers.Add()([out, inputs[:, 14, :1]])
    elif case == "norm_of_each_window":
        out = layers.Add()([out, middle[:, 0, :1]])
    model = keras.Model(inputs, out)
    optimizer = keras.optimizers.Adam(3e-3)
    if case == "statistics_of_the_wrong_column":
        optimizer = keras.optimizers.SGD(1e-2, momentum=0.9)
    model.compile(optimizer, "mse")
    cut = 300 * shops
    model.fit(x[:cut], y[:cut], batch_size=64, epochs=4, verbose=0, callbacks=run.callbacks())
    return score("values", y[cut:], model.predict(x[cut:], verbose=0))
