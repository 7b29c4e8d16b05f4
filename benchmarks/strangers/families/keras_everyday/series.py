"""Series: what a house will use tomorrow, and which machine is about to fail."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


@program(
    lstm=0.4,
    dense_on_window=0.4,
    sample_weights=0.4,
    linear_skip=0.4,
    cosine=0.4,
    huge_values_with_norm=0.3,
    watts=fault("unscaled targets"),
    weights_of_zero=fault("no sample counts"),
    sigmoid_stack_of_20=fault("vanishing", twin="dense_on_window"),
    targets_shuffled_alone=fault("inputs and targets out of order"),
    nan_reading=fault("NaN in the data", step=30, twin="dense_on_window"),
    jump_of_the_schedule=fault("rate jump", step=101, twin="dense_on_window"),
)
def house(run: Run, case: str) -> float:
    """Power of the next hour from a day."""
    import keras
    from keras import layers

    t = np.arange(1400)
    rng = run.rng
    use = np.sin(t * 2 * np.pi / 24) + 0.5 * np.sin(t * 2 * np.pi / 9.3 + run.seed)
    use = use + 0.15 * rng.normal(size=1400)
    scaled = use.copy()
    if case in ("watts", "huge_values_with_norm"):
        use = 4000 + 1500 * use
    windows = np.lib.stride_tricks.sliding_window_view(use, 25).astype("float32")
    x, y = windows[:, :-1, None].copy(), windows[:, -1].copy()
    if case == "huge_values_with_norm":
        y = scaled[24:].astype("float32")
    xt, yt, x, y = x[1000:], y[1000:], x[:960], y[:960]
    if case == "targets_shuffled_alone":
        y = rng.permutation(y)
    elif case == "nan_reading":
        y[30 * 29 + 4] = np.nan
    inputs = keras.Input((24, 1))
    if case == "huge_values_with_norm":
        h = layers.BatchNormalization(momentum=0.9)(inputs)
        h = layers.Flatten()(h)
        h = layers.Dense(48, "relu")(h)
    elif case == "sigmoid_stack_of_20":
        h = layers.Flatten()(inputs)
        for _ in range(20):
            h = layers.Dense(24, "sigmoid")(h)
    elif case in ("dense_on_window", "nan_reading", "jump_of_the_schedule", "linear_skip"):
        flat = layers.Flatten()(inputs)
        h = layers.Dense(48, "swish")(flat)
        if case == "linear_skip":
            h = layers.Concatenate()([h, flat])
    else:
        h = layers.LSTM(16)(inputs)
    model = keras.Model(inputs, layers.Dense(1)(h))
    rate = 1e-2
    if case == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(
            1e-4, 150, warmup_target=2e-2, warmup_steps=30
        )
    elif case == "jump_of_the_schedule":
        rate = keras.optimizers.schedules.PiecewiseConstantDecay([100], [1e-2, 1e2])
    optimizer = keras.optimizers.Adam(rate, clipnorm=1.0)
    if case == "jump_of_the_schedule":
        optimizer = keras.optimizers.SGD(rate, momentum=0.5)
    model.compile(optimizer, "mse", weighted_metrics=["mae"])
    weights = None
    if case == "sample_weights":
        weights = np.linspace(0.1, 1.9, len(x)).astype("float32")
    elif case == "weights_of_zero":
        weights = np.zeros(len(x), "float32")
    model.fit(x, y, sample_weight=weights, batch_size=30, epochs=5, verbose=0,
              shuffle=case != "nan_reading", callbacks=run.callbacks())  # fmt: skip
    return score("values", yt, model.predict(xt, verbose=0))
