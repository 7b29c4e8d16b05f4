"""Losses and layers of one's own: codes with a spread, bounds of a forecast, likeness."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score, standardised
from ...program import fault, program
from ...run import Run


@program(
    gaussian=0.3,
    bounds=0.3,
    log_cosh=0.3,
    ensemble=0.3,
    root_of_the_error=0.3,
    deviation_left_alone=fault("loss without a floor"),
    root_of_zero=fault("NaN backward"),
    squared_after_the_mean=fault("loss cancels"),
    columns_beside_rows=fault("broadcasting"),
    linear_only_on_a_product=fault("no non-linearity"),
)
def sensors(run: Run, case: str) -> float:
    """What a sensor will read, and how sure of it one may be."""
    import keras
    from keras import layers, ops

    rng, n, cut = run.rng, 1500, 1100
    x = rng.normal(size=(n, 4)).astype("float32")
    value = 1.5 * x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2])
    y = (value + 0.2 * (1 + np.abs(x[:, 3])) * rng.normal(size=n)).astype("float32")
    inputs = keras.Input((4,))
    if case == "root_of_zero":
        h = layers.Dense(32, "relu")(inputs)
        # A sum of squares that is zero where all units are off.
        few = layers.Dense(8, "relu", bias_initializer=keras.initializers.Constant(-2.0))(h)
        norm = ops.sqrt(ops.sum(ops.square(few), axis=-1, keepdims=True))
        h = layers.Concatenate()([h, norm])
    elif case == "linear_only_on_a_product":
        h = layers.Dense(48)(layers.Dense(48)(inputs))
    elif case == "ensemble":
        each = [layers.Dense(24, "tanh")(layers.Dense(24, "tanh")(inputs)) for _ in range(3)]
        h = layers.Average()(each)
    else:
        h = layers.Dense(48, "relu")(layers.Dense(48, "relu")(inputs))
    wide = {"gaussian": 2, "bounds": 3,
            "deviation_left_alone": 2}.get(case, 1)  # fmt: skip
    model = keras.Model(inputs, layers.Dense(wide)(h))

    def gaussian(truth, said):
        mean, raw = said[:, :1], said[:, 1:]
        if case == "deviation_left_alone":
            return ops.mean(raw + 0.5 * ops.square(truth - mean) * ops.exp(-2 * ops.abs(raw)))
        return ops.mean(raw + 0.5 * ops.square(truth - mean) * ops.exp(-2 * raw))

    def bounds(truth, said):
        shares = ops.convert_to_tensor(np.array([0.1, 0.5, 0.9], "float32"))
        off = truth - said
        return ops.mean(ops.maximum(shares * off, (shares - 1) * off))

    def cancels(truth, said):
        # Errors are averaged before they are squared.
        return ops.square(ops.mean(truth - said))

    def root(truth, said):
        return ops.sqrt(ops.mean(ops.square(truth - said)) + 1e-6)

    loss = {
        "gaussian": gaussian,
        "deviation_left_alone": gaussian, "bounds": bounds, "log_cosh": "log_cosh",
        "root_of_the_error": root, "squared_after_the_mean": cancels,
    }.get(case, "mse")  # fmt: skip
    if case == "columns_beside_rows":

        def loss(truth, said):
            return ops.mean(ops.square(said - ops.reshape(truth, (-1,))))

    model.compile(keras.optimizers.Adam(5e-3), loss)
    model.fit(x[:cut], y[:cut, None], batch_size=32, epochs=8, verbose=0,
              callbacks=run.callbacks())  # fmt: skip
    said = model.predict(x[cut:], verbose=0)
    said = said[:, 1:2] if case == "bounds" else said[:, :1]
    return score("values", y[cut:, None], said)


@program(
    distance=0.4,
    cosine=0.4,
    triplets=0.4,
    margin_with_the_wrong_sign=fault("wrong sign"),
    twins_only=fault("representations collapse"),
    labels_of_pairs_shuffled=fault("labels shuffled"),
    distance_without_epsilon=fault("NaN backward"),
    both_of_the_pair_the_same=fault("information missing"),
)
def likeness(run: Run, case: str) -> float:
    """Whether two wines are from one grower; the score is how far they lie apart if not."""
    import keras
    from keras import layers, ops

    x, y, held, truth = bundled("wine", run.seed)
    x, held = standardised(x, held)
    noise = np.random.default_rng(run.seed)
    x, held = (np.hstack([each, 2 * noise.normal(size=(len(each), 12))]) for each in (x, held))
    tower = keras.Sequential([
        keras.Input((25,)), layers.Dense(48, "relu"), layers.Dense(8)
    ])  # fmt: skip
    n = 2000
    first = run.rng.integers(0, len(x), n)
    second = run.rng.integers(0, len(x), n)
    alike = run.rng.random(n) < 0.5
    same = np.array([run.rng.choice(np.flatnonzero(y == y[i])) for i in first])
    second = np.where(alike, same, second)
    if case == "both_of_the_pair_the_same":
        second = first
    elif case == "distance_without_epsilon":
        second = np.where(alike & (np.arange(n) % 5 == 0), first, second)
    labels = (y[first] == y[second]).astype("float32")
    if case == "both_of_the_pair_the_same":
        labels = alike.astype("float32")
    elif case == "labels_of_pairs_shuffled":
        labels = run.rng.permutation(labels)
    elif case == "twins_only":
        labels = np.ones(n, "float32")
        second = same
    a, b = keras.Input((25,)), keras.Input((25,))
    p, q = tower(a), tower(b)
    feeds, inputs = [x[first], x[second]], [a, b]
    if case == "triplets":
        c = keras.Input((25,))
        third = np.array([run.rng.choice(np.flatnonzero(y != y[i])) for i in first])
        feeds, inputs = [x[first], x[same], x[third]], [a, b, c]
        near = ops.sum(ops.square(p - q), axis=-1, keepdims=True)
        out = near - ops.sum(ops.square(p - tower(c)), axis=-1, keepdims=True)
    elif case == "cosine":
        out = layers.Dot(axes=1, normalize=True)([p, q])
    else:
        small = 0.0 if case == "distance_without_epsilon" else 1e-6
        out = ops.sqrt(ops.sum(ops.square(p - q), axis=-1, keepdims=True) + small)
    model = keras.Model(inputs, out)

    def contrast(truth, said):
        far = ops.square(ops.maximum(3.0 - said, 0.0))
        if case == "margin_with_the_wrong_sign":
            far = -ops.square(said)
        return ops.mean(truth * ops.square(said) + (1 - truth) * far)

    def cosine(truth, said):
        return ops.mean(truth * (1 - said) + (1 - truth) * ops.maximum(said - 0.2, 0.0))

    def triplets(truth, said):
        return ops.mean(ops.maximum(said + 1.0, 0.0)) + 0.0 * ops.sum(truth)

    loss = {"cosine": cosine, "triplets": triplets}.get(case, contrast)
    model.compile(keras.optimizers.Adam(2e-3), loss)
    model.fit([each.astype("float32") for each in feeds], labels[:, None], batch_size=48,
              epochs=6, verbose=0, callbacks=run.callbacks())  # fmt: skip
    codes = tower.predict(held.astype("float32"), verbose=0)
    codes = codes / (np.linalg.norm(codes, axis=1, keepdims=True) + 1e-9)
    if case not in ("cosine",):
        codes = tower.predict(held.astype("float32"), verbose=0)
    if not np.isfinite(codes).all():
        return float("nan")
    apart = np.linalg.norm(codes[:, None] - codes[None], axis=-1)
    upper = np.triu(np.ones_like(apart, bool), 1)
    is_same = (truth[:, None] == truth[None])[upper]
    near, far = apart[upper][is_same], apart[upper][~is_same]
    # How often a pair that is alike lies nearer than one that is not.
    return 2 * float((near[:, None] < far[None]).mean()) - 1
