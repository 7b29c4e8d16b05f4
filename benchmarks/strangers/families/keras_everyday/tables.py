"""Tables: rare classes, several answers, steps and losses of one's own."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, score, standardised
from ...program import fault, program
from ...run import Run


@program(
    class_weight=0.3,
    bias_from_shares=0.3,
    plateau_callback=0.3,
    early_stopping=0.25,
    raw_with_normalization=0.25,
    weight_of_a_million=fault("summed loss"),
    schedule_in_epochs=fault("rate decays to nothing"),
    start_frozen=fault("all frozen"),
    raw_amounts=fault("unscaled inputs"),
)
def fraud(run: Run, case: str) -> float:
    """One payment in twelve is a fraud; judged by the ranking."""
    import keras
    from keras import layers

    rng, n = run.rng, 2400
    amount = rng.lognormal(4, 1.3, n)
    hour, country = rng.uniform(0, 24, n), rng.integers(0, 6, n)
    signs = rng.normal(size=(n, 4))
    z = 0.9 * np.log(amount) + 1.2 * np.cos(hour / 24 * 2 * np.pi) + 1.1 * (country == 3)
    z = z + signs[:, 0] * signs[:, 1]
    y = (z + 0.3 * rng.normal(size=n) > np.quantile(z, 0.92)).astype("float32")
    one_hot = np.eye(6)[country]
    x = np.concatenate([amount[:, None], hour[:, None], one_hot, signs], 1).astype("float32")
    if case not in ("raw_with_normalization", "raw_amounts"):
        x[:, 0] = np.log(x[:, 0])
        x = standardised(x)[0]
    xt, x, yt, y = x[:600], x[600:], y[:600], y[600:]
    inputs = keras.Input((12,))
    h = inputs
    if case == "raw_with_normalization":
        norm = layers.Normalization()
        norm.adapt(x)
        h = norm(h)
    for units in (32, 16):
        h = layers.Dense(units, "relu")(h)
        h = layers.Dropout(0.2)(h)
    share = keras.initializers.Constant(np.log(0.08 / 0.92))
    start = share if case == "bias_from_shares" else "zeros"
    model = keras.Model(inputs, layers.Dense(1, "sigmoid", bias_initializer=start)(h))
    if case == "start_frozen":
        model.trainable = False
    rate = 5e-3
    if case == "schedule_in_epochs":
        # Meant per epoch, and applied per step.
        rate = keras.optimizers.schedules.ExponentialDecay(5e-3, 1, 0.5)
    optimizer = keras.optimizers.Adam(rate)
    if case in ("weight_of_a_million", "raw_amounts"):
        optimizer = keras.optimizers.SGD(0.05)
    model.compile(optimizer, "binary_crossentropy", metrics=["AUC"])
    weights = {"class_weight": {0: 1.0, 1: 11.0}, "weight_of_a_million": {0: 1e6, 1: 1e7}}
    extra = []
    if case == "plateau_callback":
        extra = [keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.3)]
    elif case == "early_stopping":
        extra = [keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True)]
    model.fit(x, y, batch_size=60, epochs=6, validation_split=0.15, verbose=0,
              class_weight=weights.get(case), callbacks=[*extra, *run.callbacks()])  # fmt: skip
    return score("binary", yt, model.predict(xt, verbose=0))


@program(
    three_answers=0.5,
    weighted_answers=0.5,
    uncertain_weights=0.5,
    trunk_too_narrow_for_all=0.25,
    ink_in_raw_units=fault("unscaled targets"),
    answers_swapped=fault("labels shuffled"),
    trunk_stopped=fault("detached", layer="trunk"),
)
def answers(run: Run, case: str) -> float:
    """Which digit, whether it is even, and how much ink: scored by the digit."""
    import keras
    from keras import layers, ops

    x, y, xt, yt = bundled("digits", run.seed)
    x, y = x[:1200] / 16, y[:1200]
    even = (y % 2 == 0).astype("float32")
    ink = x.sum(1) * (4000.0 if case == "ink_in_raw_units" else 0.05)
    target = run.rng.permutation(y) if case == "answers_swapped" else y
    inputs = keras.Input((64,), name="pixels")
    width = 6 if case == "trunk_too_narrow_for_all" else 64
    h = layers.Dense(width, "relu", name="trunk")(inputs)
    if case == "trunk_stopped":
        h = layers.Lambda(lambda v: ops.stop_gradient(v) * 0.01, output_shape=(width,))(h)
    outputs = {
        "digit": layers.Dense(10, "softmax", name="digit")(h),
        "even": layers.Dense(1, "sigmoid", name="even")(h),
        "ink": layers.Dense(1, name="ink")(h),
    }
    model = keras.Model(inputs, outputs)
    shares = {"weighted_answers": {"digit": 1.0, "even": 0.3, "ink": 0.1},
              "uncertain_weights": {"digit": 0.05, "even": 0.05, "ink": 0.05}}  # fmt: skip
    optimizer = keras.optimizers.Adam(5e-3)
    if case == "ink_in_raw_units":
        optimizer = keras.optimizers.SGD(1e-2)
    losses = {"digit": "sparse_categorical_crossentropy", "even": "binary_crossentropy",
              "ink": "mse"}  # fmt: skip
    model.compile(optimizer, losses, loss_weights=shares.get(case))
    model.fit(x, {"digit": target, "even": even, "ink": ink}, batch_size=40, epochs=6, verbose=0,
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(yt, model.predict(xt / 16, verbose=0)["digit"])


@program(
    mixup=0.5,
    label_smoothing=0.5,
    centre_loss=0.5,
    weights_averaged=0.5,
    noise_of_1000=fault("information missing"),
    no_hidden_activation=fault("no non-linearity"),
    sign_of_loss=fault("wrong sign"),
    epsilon_of_10000=fault("Adam's epsilon"),
)
def own_step(run: Run, case: str) -> float:
    """Rings in five dimensions; `train_step` changes the batch, or `compute_loss` the loss."""
    import keras
    from keras import layers, ops

    rng = run.rng
    x = rng.normal(size=(1600, 5)).astype("float32")
    y = np.digitize(np.linalg.norm(x[:, :3], axis=1), [1.2, 1.9])
    labels = np.eye(3, dtype="float32")[y]

    class Model(keras.Model):
        def train_step(self, *args):
            # The batch is the last argument on every backend.
            a, b = args[-1]
            if case == "mixup":
                a, b = 0.9 * a + 0.1 * ops.roll(a, 1, 0), 0.9 * b + 0.1 * ops.roll(b, 1, 0)
            elif case == "noise_of_1000":
                a = a + 1000 * ops.sin(1e5 * a)
            return super().train_step(*args[:-1], (a, b))

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            loss = super().compute_loss(x, y, y_pred, sample_weight, training=training)
            if case == "centre_loss":
                loss = loss + 0.01 * ops.mean(ops.square(y_pred - ops.mean(y_pred, 0)))
            return -loss if case == "sign_of_loss" else loss

    act = None if case == "no_hidden_activation" else "gelu"
    inputs = keras.Input((5,))
    h = layers.Dense(48, act)(inputs)
    h = layers.Dense(48, act)(h)
    model = Model(inputs, layers.Dense(3)(h))
    smooth = 0.15 if case == "label_smoothing" else 0.0
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smooth)
    average = {"use_ema": True, "ema_momentum": 0.9} if case == "weights_averaged" else {}
    epsilon = 1e4 if case == "epsilon_of_10000" else 1e-7
    model.compile(keras.optimizers.Adam(5e-3, epsilon=epsilon, **average), loss)
    model.fit(x[400:], labels[400:], batch_size=48, epochs=8, verbose=0,
              callbacks=run.callbacks())  # fmt: skip
    return accuracy(y[:400], model.predict(x[:400], verbose=0))
