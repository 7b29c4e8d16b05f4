"""Tables: prices of flats, rare failures of machines, two towers of inputs."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


def _flats(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Square metres, storey, year, rooms and metres to the tram; the price in euros."""
    metres, storey = rng.uniform(25, 160, n), rng.integers(0, 9, n)
    year, rooms = rng.integers(1900, 2024, n), rng.integers(1, 7, n)
    tram = rng.exponential(600, n)
    price = 3000 * metres + 4000 * storey + 500 * (year - 1950) - 60 * np.minimum(tram, 2000)
    price = price * (1 + 0.004 * (year > 2000) * metres / 10) + 20000 * rng.normal(size=n)
    return np.stack([metres, storey, year, rooms, tram], 1), price


@program(
    adam_and_scaled=0.5,
    log_of_prices=0.5,
    huber=0.5,
    mape=0.3,
    batch_norm_first=0.5,
    raw_columns=fault("unscaled inputs"),
    raw_prices=fault("unscaled targets"),
    r2_as_loss_with_wrong_sign=fault("wrong sign"),
    relu_at_the_end_of_scaled=fault("output cannot reach the targets"),
    difference_as_loss=fault("loss without a floor"),
    sorted_apart=fault("inputs and targets out of order"),
    l1_of_ten=fault("regularised to nothing"),
    adadelta_as_it_comes=fault("rate too low"),
    log_of_negative_prices=fault("NaN in the data"),
)
def flats(run: Run, case: str) -> float:
    """What a flat costs."""
    import keras
    from keras import layers, ops

    x, price = _flats(run.rng, 1600)
    cut = 1200
    if case not in ("raw_columns", "batch_norm_first"):
        x = (x - x[:cut].mean(0)) / x[:cut].std(0)
    scaled = (price - price[:cut].mean()) / price[:cut].std()
    y = scaled
    if case == "raw_prices":
        y = price
    elif case in ("log_of_prices", "mape"):
        y = np.log(np.maximum(price, 20000)) - (12 if case == "log_of_prices" else 0)
    elif case == "log_of_negative_prices":
        with np.errstate(invalid="ignore"):
            y = np.log(scaled)
    elif case == "relu_at_the_end_of_scaled":
        y = scaled - 4
    x, y = x.astype("float32"), y.astype("float32")
    labels = np.sort(y[:cut]) if case == "sorted_apart" else y[:cut]
    model = keras.Sequential([keras.Input((5,))])
    if case == "batch_norm_first":
        model.add(layers.BatchNormalization())
    penalty = keras.regularizers.L1(10.0) if case == "l1_of_ten" else None
    for width in (48, 24):
        model.add(layers.Dense(width, "relu", kernel_regularizer=penalty))
    model.add(layers.Dense(1, "relu" if case == "relu_at_the_end_of_scaled" else None))

    def r2(truth, said):
        spread = ops.mean(ops.square(truth - ops.mean(truth))) + 1e-6
        return 1 - ops.mean(ops.square(truth - said)) / spread

    def difference(truth, said):
        return ops.mean(truth - said)

    loss = {
        "huber": keras.losses.Huber(),
        "mape": "mape",
        "r2_as_loss_with_wrong_sign": r2,
        "difference_as_loss": difference,
    }.get(case, "mse")
    optimizer = keras.optimizers.Adam(5e-3)
    if case in ("raw_columns", "raw_prices"):
        optimizer = keras.optimizers.SGD(1e-3)
    elif case == "adadelta_as_it_comes":
        optimizer = keras.optimizers.Adadelta()
    model.compile(optimizer, loss)
    epochs = 12 if case == "mape" else 8
    model.fit(x[:cut], labels, batch_size=32, epochs=epochs, verbose=0,
              validation_split=0.1, callbacks=run.callbacks())  # fmt: skip
    return score("values", y[cut:, None], model.predict(x[cut:], verbose=0))


@program(
    plain=0.3,
    class_weight=0.4,
    focal_by_hand=0.4,
    oversampled=0.4,
    output_bias=0.3,
    weight_of_the_many=fault("class weights wrong"),
    weights_of_zero=fault("no sample counts"),
    labels_one_and_two=fault("targets out of range"),
    logits_without_saying=fault("logits or not"),
    softmax_of_one=fault("softmax over one unit"),
    f1_of_rounded=fault("detached"),
    momentum_of_one=fault("rate too high"),
    batches_of_equal_class=fault("unshuffled"),
)
def failures(run: Run, case: str) -> float:
    """Which machine fails soon: one in ten. The score is above 0 for better than a guess."""
    import keras
    from keras import layers, ops

    rng, n, cut = run.rng, 2400, 1800
    x = rng.normal(size=(n, 12)).astype("float32")
    risk = 2.2 * x[:, 0] * x[:, 1] + 1.5 * x[:, 2] - np.abs(x[:, 3]) + 0.3 * rng.normal(size=n)
    y = (risk > np.quantile(risk, 0.88)).astype("float32")
    train, labels = x[:cut], y[:cut]
    options = {"verbose": 0, "batch_size": 48, "epochs": 8}
    if case == "oversampled":
        rare = np.flatnonzero(labels)
        rows = np.concatenate([np.arange(cut), np.repeat(rare, 6)])
        train, labels = train[rows], labels[rows]
    elif case == "labels_one_and_two":
        labels = labels + 1
    elif case == "batches_of_equal_class":
        order = np.argsort(labels, kind="stable")
        train, labels = train[order], labels[order]
        options["shuffle"] = False
    bias = keras.initializers.Constant(-2.0) if case == "output_bias" else "zeros"
    last = {"softmax_of_one": "softmax", "logits_without_saying": None}.get(case, "sigmoid")
    model = keras.Sequential([
        keras.Input((12,)), layers.Dense(48, "relu"), layers.Dense(24, "relu"),
        layers.Dense(1, last, bias_initializer=bias),
    ])  # fmt: skip

    def focal(truth, said):
        said = ops.clip(said, 1e-6, 1 - 1e-6)
        hit = truth * said + (1 - truth) * (1 - said)
        weight = 0.7 * truth + 0.3 * (1 - truth)
        return -ops.mean(weight * (1 - hit) ** 2 * ops.log(hit))

    def f1(truth, said):
        said = ops.round(said)
        return 1 - 2 * ops.sum(truth * said) / (ops.sum(truth) + ops.sum(said) + 1e-6)

    loss = {"focal_by_hand": focal, "f1_of_rounded": f1}.get(case, "binary_crossentropy")
    optimizer = keras.optimizers.Adam(4e-3)
    if case == "momentum_of_one":
        optimizer = keras.optimizers.SGD(0.5, momentum=1.0)
    elif case == "batches_of_equal_class":
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(optimizer, loss, metrics=["accuracy"])
    if case in ("class_weight", "weight_of_the_many", "weights_of_zero"):
        rare = {"class_weight": 4.0, "weight_of_the_many": 1e-3}.get(case, 0.0)
        options["class_weight"] = {0: 0.0 if case == "weights_of_zero" else 1.0, 1: rare}
    model.fit(train, labels, callbacks=run.callbacks(), **options)
    said = model.predict(x[cut:], verbose=0)[:, 0]
    if not np.isfinite(said).all():
        return float("nan")
    # Balanced: as many points for the rare as for the many.
    chosen = said > (0.0 if case == "logits_without_saying" else 0.5)
    truth = y[cut:] > 0
    return float(chosen[truth].mean() - chosen[~truth].mean())


@program(
    concatenated=0.4,
    dot_of_towers=0.4,
    several_losses=0.4,
    by_names=0.4,
    films_sorted_apart=fault("inputs and targets out of order"),
    frozen_to_the_head=fault("all frozen"),
    numbers_of_users_as_numbers=fault("ids as numbers"),
    dropout_of_99_percent=fault("too much dropout"),
    sigmoid_of_stars=fault("output cannot reach the targets"),
)
def stars(run: Run, case: str) -> float:
    """How many stars a user gives to a film, from both numbers."""
    import keras
    from keras import layers

    rng, users, films, n = run.rng, 80, 60, 4000
    taste = rng.normal(size=(users, 3)) @ rng.normal(size=(3, films))
    user, film = rng.integers(0, users, n), rng.integers(0, films, n)
    given = np.clip(np.round(3 + 1.3 * taste[user, film] + 0.2 * rng.normal(size=n)), 1, 5)
    cut, rows = 3200, slice(3200, None)
    a, b = keras.Input((), dtype="int32", name="user"), keras.Input((), dtype="int32", name="film")
    if case == "numbers_of_users_as_numbers":
        wide = layers.Concatenate()([
            layers.Reshape((1,))(layers.Rescaling(1.0)(a)),
            layers.Reshape((1,))(layers.Rescaling(1.0)(b)),
        ])  # fmt: skip
    else:
        u, f = layers.Embedding(100, 12)(a), layers.Embedding(100, 12)(b)
        if case == "dot_of_towers":
            wide = layers.Concatenate()([layers.Multiply()([u, f]), u, f])
        else:
            wide = layers.Concatenate()([u, f])
    h = layers.Dense(64, "relu")(wide)
    h = layers.Dropout(0.99 if case == "dropout_of_99_percent" else 0.1)(h)
    h = layers.Dense(32, "relu")(h)
    if case == "dropout_of_99_percent":
        h = layers.Dropout(0.99)(h)
    last = "sigmoid" if case == "sigmoid_of_stars" else None
    out = layers.Dense(1, last, name="stars")(h)
    outputs = out
    if case == "several_losses":
        outputs = {"stars": out, "liked": layers.Dense(1, "sigmoid", name="liked")(h)}
    model = keras.Model({"user": a, "film": b}, outputs)
    if case == "frozen_to_the_head":
        for layer in model.layers:
            layer.trainable = False
    optimizer = keras.optimizers.Adam(5e-3)
    y = given[:, None].astype("float32")
    x = {"user": user.astype("int32"), "film": film.astype("int32")}
    if case == "films_sorted_apart":
        x["film"] = np.sort(x["film"])
    if case == "several_losses":
        model.compile(optimizer, {"stars": "mse", "liked": "binary_crossentropy"})
        labels = {"stars": y[:cut], "liked": (y[:cut] > 3).astype("float32")}
    else:
        model.compile(optimizer, "mse")
        labels = y[:cut]
    shown = {name: each[:cut] for name, each in x.items()}
    model.fit(shown, labels, batch_size=64, epochs=7, verbose=0, callbacks=run.callbacks())
    said = model.predict({name: each[rows] for name, each in x.items()}, verbose=0)
    return score("values", y[rows], said["stars"] if case == "several_losses" else said)
