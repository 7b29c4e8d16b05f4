"""Tables in `fit`: prices, rare cases, few rows, two outputs."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score, standardised
from ...program import fault, program
from ...run import Run


@program(
    scaled=0.4,
    thousands=0.4,
    absolute=0.4,
    logcosh=0.4,
    normalised_inside=0.4,
    clipped=0.4,
    linear_start=0.3,
    dropped=0.3,
    thirty_steps=0.2,
    dollars=fault("unscaled targets", twin="scaled"),
    dense_of_one_for_a_row=fault("broadcasting"),
    relu_for_both_signs=fault("output cannot reach the targets"),
    raw_columns=fault("unscaled inputs"),
    prices_shuffled=fault("labels shuffled"),
    sgd_blows_up=fault("rate too high"),
    no_bends=fault("no non-linearity", twin="linear_start"),
    log_of_negative=fault("NaN forward"),
    overfits_forty_rows=fault("overfits"),
    accuracy_as_a_loss=fault("loss cancels"),
    zeros=fault("symmetric start"),
    adam_epsilon_of_ten=fault("Adam's epsilon"),
    frozen_after_two_epochs=fault("frozen in mid-training", 51, twin="scaled"),
)
def prices(run: Run, case: str) -> float:
    """What a flat costs."""
    import keras
    from keras import layers, ops

    rng, n, cut = run.rng, 1100, 800
    x = rng.normal(size=(n, 7))
    value = x[:, 0] * x[:, 1] + np.abs(x[:, 2]) * 1.5 + x[:, 3] + 0.2 * rng.normal(size=n)
    if case == "no_bends":
        value = x[:, 0] * x[:, 1] + x[:, 2] * x[:, 4]
    y = value - value.mean()
    if case == "thousands":
        y = 250 + 80 * y
    elif case == "dollars":
        y = 250000 + 80000 * y
    if case in ("raw_columns", "normalised_inside"):
        x = x * np.array([1e4, 1, 1e5, 1, 30, 1, 1]) + 1000
    x, y = x.astype("float32"), y.astype("float32")
    if case != "dense_of_one_for_a_row":
        y = y[:, None]
    truth = rng.permutation(y[:cut]) if case == "prices_shuffled" else y[:cut]
    rows = slice(0, 40 if case == "overfits_forty_rows" else cut)
    start = "zeros" if case == "zeros" else "glorot_uniform"
    bend = None if case == "no_bends" else "relu"
    stack = [keras.Input((7,))]
    if case == "normalised_inside":
        normalise = layers.Normalization()
        normalise.adapt(x[:cut])
        stack.append(normalise)
    for _ in range(2):
        stack.append(layers.Dense(64, bend, kernel_initializer=start))
        if case == "dropped":
            stack.append(layers.Dropout(0.3))
    last = "relu" if case == "relu_for_both_signs" else None
    stack.append(layers.Dense(1, last, kernel_initializer=start))
    model = keras.Sequential(stack)

    def row_by_row(t, p):
        return ops.mean(ops.square(ops.reshape(t, (-1,)) - p), axis=-1)

    def of_logarithms(t, p):
        return ops.square(ops.log(t) - ops.log(p))

    def hits(t, p):
        return 1.0 - ops.mean(ops.cast(ops.abs(t - p) < 0.3, "float32"), axis=-1) + 0.0 * p[:, 0]

    loss = {
        "absolute": "mae",
        "logcosh": "log_cosh",
        "dense_of_one_for_a_row": row_by_row,
        "log_of_negative": of_logarithms,
        "accuracy_as_a_loss": hits,
    }.get(case, "mse")
    optimizer = keras.optimizers.Adam(0.05 if case == "thousands" else 5e-3)
    if case == "sgd_blows_up":
        optimizer = keras.optimizers.SGD(5.0)
    elif case in ("clipped", "raw_columns"):
        clip = 1.0 if case == "clipped" else None
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=clip)
    elif case == "adam_epsilon_of_ten":
        optimizer = keras.optimizers.Adam(1e-3, epsilon=1e3)
    model.compile(optimizer, loss)
    options = {"batch_size": 32, "verbose": 0, "epochs": 8}
    if case == "thirty_steps":
        options["epochs"] = 2
    elif case == "overfits_forty_rows":
        options |= {"epochs": 120, "validation_data": (x[cut:], y[cut:])}
    if case == "frozen_after_two_epochs":
        model.fit(x[rows], truth[rows], callbacks=run.callbacks(), **(options | {"epochs": 2}))
        model.trainable = False
        model.compile(optimizer, loss)
    model.fit(x[rows], truth[rows], callbacks=run.callbacks(), **options)
    return score("values", y[cut:], model.predict(x[cut:], verbose=0))


@program(
    weights_of_classes=0.4,
    plain=0.4,
    focal=0.4,
    start_of_the_share=0.4,
    elu=0.4,
    selu=0.4,
    weights_of_nothing=fault("class weights wrong"),
    squared_error_of_classes=fault("dead units"),
    raw_columns=fault("unscaled inputs"),
    softmax_of_one=fault("softmax over one unit"),
    labels_of_others=fault("labels shuffled"),
    sigmoid_and_from_logits=fault("logits or not"),
)
def rare(run: Run, case: str) -> float:
    """One customer in 20 cancels."""
    import keras
    from keras import layers

    rng, n, cut = run.rng, 3200, 2400
    x = rng.normal(size=(n, 9))
    risk = x[:, 0] + 0.8 * x[:, 1] * x[:, 2] - np.abs(x[:, 3]) + 0.2 * rng.normal(size=n)
    y = (risk > np.quantile(risk, 0.95)).astype("float32")
    if case == "raw_columns":
        x = 1e6 + 1e4 * x
    x = x.astype("float32")
    truth = rng.permutation(y[:cut]) if case == "labels_of_others" else y[:cut]
    bend = case if case in ("elu", "selu") else "relu"
    start = keras.initializers.Constant(-3.0) if case == "start_of_the_share" else "zeros"
    dead = keras.initializers.Constant(-25.0) if case == "squared_error_of_classes" else "zeros"
    last = "softmax" if case == "softmax_of_one" else "sigmoid"
    model = keras.Sequential(
        [
            keras.Input((9,)),
            layers.Dense(32, bend, bias_initializer=dead),
            layers.Dense(16, bend),
            layers.Dense(1, last, bias_initializer=start),
        ]
    )
    losses = keras.losses
    loss = {
        "focal": losses.BinaryFocalCrossentropy(apply_class_balancing=True),
        "sigmoid_and_from_logits": losses.BinaryCrossentropy(from_logits=True),
        "squared_error_of_classes": "mse",
    }.get(case, "binary_crossentropy")
    weights = {"weights_of_classes": {0: 1.0, 1: 15.0}, "weights_of_nothing": {0: 1.0, 1: 0.0}}
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    model.fit(
        x[:cut], truth, batch_size=64, epochs=6, verbose=0, class_weight=weights.get(case),
        callbacks=run.callbacks(),
    )  # fmt: skip
    said = model.predict(x[cut:], verbose=0)
    if case == "sigmoid_and_from_logits":
        said = (said > 0.5).astype("float32")
    return score("binary", y[cut:].astype(int), said)


@program(
    both=0.4,
    weighted=0.4,
    own_step=0.4,
    one_is_in_grams=fault("one loss drowns the other"),
    tasks_of_others=fault("labels shuffled"),
    own_step_without_update=fault("not in the optimizer"),
)
def two_outputs(run: Run, case: str) -> float:
    """Which sort of wine it is, and how strong: two outputs."""
    import keras
    from keras import layers

    x, y, xt, yt = bundled("wine", run.seed)
    strong, held = x[:, 0].copy(), xt[:, 0]
    x, xt = standardised(np.delete(x, 0, 1), np.delete(xt, 0, 1))
    scale = 1e5 if case == "one_is_in_grams" else 1.0
    middle, spread = strong.mean(), strong.std() / scale
    strong = ((strong - middle) / spread).astype("float32")
    if case == "tasks_of_others":
        order = run.rng.permutation(len(y))
        y, strong = y[order], strong[order]
    inputs = keras.Input((12,))
    h = layers.Dense(32, "tanh")(inputs)
    sort = layers.Dense(3, "softmax", name="sort")(h)
    strength = layers.Dense(1, name="strength")(h)

    class Own(keras.Model):
        def train_step(self, data):
            import torch

            rows, truth = data[:2]
            self.zero_grad()
            said = self(rows, training=True)
            loss = self.compute_loss(y=truth, y_pred=said)
            loss.backward()
            with torch.no_grad():
                held = [v for v in self.trainable_weights if v.value.grad is not None]
                gradients = [v.value.grad for v in held]
                if case == "own_step_without_update":
                    gradients = [g * 0 for g in gradients]
                self.optimizer.apply(gradients, held)
            self._loss_tracker.update_state(loss)
            return {"loss": self._loss_tracker.result()}

    kind = Own if case.startswith("own_step") else keras.Model
    model = kind(inputs, {"sort": sort, "strength": strength})
    model.compile(
        keras.optimizers.Adam(1e-2),
        {"sort": "sparse_categorical_crossentropy", "strength": "mse"},
        loss_weights={"sort": 1.0, "strength": 0.3} if case == "weighted" else None,
    )
    model.fit(
        x, {"sort": y, "strength": strong}, batch_size=16, epochs=14, verbose=0,
        callbacks=run.callbacks(),
    )  # fmt: skip
    said = model.predict(xt, verbose=0)
    right = (np.mean(said["sort"].argmax(1) == yt) - 0.4) / 0.6
    fit = score("values", held, said["strength"] * spread + middle)
    return float(right if case == "one_is_in_grams" else (right + fit) / 2)
