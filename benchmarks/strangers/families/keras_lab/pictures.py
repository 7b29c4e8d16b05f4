"""Pictures: digits by a subclassed model, a base that is kept as it is, noise taken off."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, score, shapes
from ...program import fault, program
from ...run import Run


@program(
    subclassed=0.6,
    own_train_step=0.6,
    separable=0.5,
    gradual=0.6,
    residual=0.6,
    never_applied=fault("no_grad"),
    step_scales_by_a_billionth=fault("rate too low"),
    step_with_targets_of_the_last_batch=fault("inputs and targets out of order"),
    divided_by_65025=fault("scaled twice"),
    dropout_before_the_answer=fault("too much dropout"),
    uniform_of_ten=fault("bad start"),
    pooled_to_a_point_of_sigmoids=fault("vanishing"),
    all_zero=fault("symmetric start"),
)
def digits(run: Run, case: str) -> float:
    """Digits by a subclassed model and a train_step of one's own."""
    import keras
    from keras import layers

    x, y, held, truth = bundled("digits", run.seed)
    scale = 16 * 65025.0 if case == "divided_by_65025" else 16.0
    x, held = (each.reshape(-1, 8, 8, 1) / scale for each in (x, held))
    start = {"uniform_of_ten": keras.initializers.RandomUniform(-10, 10), "all_zero": "zeros"}.get(
        case, "glorot_uniform"
    )
    kind = "sigmoid" if case == "pooled_to_a_point_of_sigmoids" else "relu"

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            conv = layers.SeparableConv2D if case == "separable" else layers.Conv2D
            more = {} if case == "separable" else {"kernel_initializer": start}
            depth = 10 if case == "pooled_to_a_point_of_sigmoids" else 2
            self.convs = [
                conv(16, 3, padding="same", activation=kind, **more) for _ in range(depth)
            ]
            self.pool, self.flat = layers.MaxPooling2D(), layers.Flatten()
            rate = 0.995 if case == "dropout_before_the_answer" else 0.2
            self.drop = layers.Dropout(rate)
            self.out = layers.Dense(10, kernel_initializer=start)
            self.last = None

        def call(self, x, training=False):
            for number, conv in enumerate(self.convs):
                more = conv(x)
                x = x + more if case == "residual" and number else more
            return self.out(self.drop(self.flat(self.pool(x)), training=training))

    class Stepped(Net):
        def train_step(self, data):
            import torch

            x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
            if case == "step_with_targets_of_the_last_batch":
                y, self.last = (
                    (y if self.last is None or len(self.last) != len(y) else self.last),
                    y,
                )
            self.zero_grad()
            loss = self.compute_loss(x, y, self(x, training=True))
            if case == "step_scales_by_a_billionth":
                loss = loss * 1e-9
            loss.backward()
            weights = list(self.trainable_weights)
            if case != "never_applied":
                with torch.no_grad():
                    self.optimizer.apply([each.value.grad for each in weights], weights)
            return {"loss": loss.detach()}

    own = ("own_train_step", "never_applied", "step_scales_by_a_billionth",
           "step_with_targets_of_the_last_batch")  # fmt: skip
    model = Stepped() if case in own else Net()
    rate = keras.optimizers.schedules.PolynomialDecay(8e-3, 252) if case == "gradual" else 5e-3
    optimizer = keras.optimizers.Adam(rate)
    if case in ("step_scales_by_a_billionth", "divided_by_65025", "uniform_of_ten"):
        optimizer = keras.optimizers.SGD(0.05)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=[] if case in own else ["accuracy"])
    model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=run.callbacks())
    return accuracy(truth, model.predict(held, verbose=0))


@program(
    head_only=0.3,
    fine_tuned=0.5,
    features_first=0.3,
    whole_frozen=fault("all frozen"),
    fine_tuned_at_one=fault("rate too high"),
    base_sees_raw_pixels=fault("unscaled inputs"),
    head_of_relu_and_mse_below_zero=fault("output cannot reach the targets"),
    classes_sorted_in_batches=fault("unshuffled"),
)
def transfer(run: Run, case: str) -> float:
    """A base that has learned two shapes of four helps to tell all of them."""
    import keras
    from keras import layers

    images, kind = shapes(run.seed, 900)
    images = images[..., None]
    base = keras.Sequential([
        keras.Input((12, 12, 1)), layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(24, 3, activation="relu"), layers.Flatten(),
    ])  # fmt: skip
    before = keras.Sequential([base, layers.Dense(4, "softmax")])
    before.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    early = kind[:500] < 3
    before.fit(images[:500][early], kind[:500][early], epochs=6, verbose=0)
    x, y, held, truth = images[300:700], kind[300:700], images[700:], kind[700:]
    base.trainable = case in ("fine_tuned", "fine_tuned_at_one", "classes_sorted_in_batches")
    inputs = keras.Input((12, 12, 1))
    h = base(inputs, training=False)
    h = layers.Dense(32, "relu")(h)
    out = layers.Dense(4, "softmax")(h)
    model = keras.Model(inputs, out)
    options = {"batch_size": 32, "epochs": 14, "verbose": 0}
    loss, labels = "sparse_categorical_crossentropy", y
    if case == "whole_frozen":
        for layer in model.layers:
            layer.trainable = False
    elif case == "base_sees_raw_pixels":
        x, held = 2550 * x + 3000, 2550 * held + 3000
    elif case == "head_of_relu_and_mse_below_zero":
        model = keras.Model(inputs, layers.Dense(4, "relu")(h))
        loss, labels = "mse", 2 * np.eye(4)[y].astype("float32") - 3
    elif case == "classes_sorted_in_batches":
        order = np.argsort(y, kind="stable")
        x, labels, options["shuffle"] = x[order], y[order], False
    optimizer = keras.optimizers.Adam(3e-3)
    if case == "features_first":
        x, held = base.predict(x, verbose=0), base.predict(held, verbose=0)
        model = keras.Sequential([
            keras.Input(x.shape[1:]), layers.Dense(32, "relu"), layers.Dense(4, "softmax")
        ])  # fmt: skip
    elif case == "fine_tuned_at_one":
        optimizer = keras.optimizers.Adam(1.0)
    elif case in ("base_sees_raw_pixels", "classes_sorted_in_batches"):
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    model.compile(optimizer, loss, metrics=["accuracy"])
    model.fit(x, labels, callbacks=run.callbacks(), **options)
    return accuracy(truth, model.predict(held, verbose=0))


@program(
    dense=0.4,
    convolutions=0.3,
    skipped=0.4,
    penalised_code=0.3,
    tanh_of_pixels_to_16=fault("output cannot reach the targets"),
    code_of_dead_units=fault("dead units"),
    noise_without_the_picture=fault("information missing"),
    clean_ones_in_another_order=fault("inputs and targets out of order"),
    code_penalised_by_a_thousand=fault("regularised to nothing"),
)
def denoised(run: Run, case: str) -> float:
    """Noise is taken off digits by a narrow network."""
    import keras
    from keras import layers

    clean, _, held, _ = bundled("digits", run.seed)
    clean, held = (each / (1.0 if "to_16" in case else 16.0) for each in (clean, held))
    spread = 0.3 * clean.max()
    noisy = (clean + spread * run.rng.normal(size=clean.shape)).astype("float32")
    asked = (held + spread * run.rng.normal(size=held.shape)).astype("float32")
    if case == "noise_without_the_picture":
        noisy, asked = noisy - clean, asked - held
    target = run.rng.permutation(clean) if "another_order" in case else clean
    if case == "tanh_of_pixels_to_16":
        target = target + 2
        held = held + 2
    weight = {"penalised_code": 1e-5, "code_penalised_by_a_thousand": 1e3}.get(case, 0.0)
    penalty = keras.regularizers.L2(weight) if weight else None
    inputs = keras.Input((64,))
    if case == "convolutions":
        h = layers.Reshape((8, 8, 1))(inputs)
        h = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(h)
        h = layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")(h)
        out = layers.Reshape((64,))(layers.Conv2D(1, 3, padding="same")(h))
    else:
        low = keras.initializers.Constant(-20.0 if case == "code_of_dead_units" else 0.0)
        code = layers.Dense(20, "relu", bias_initializer=low, kernel_regularizer=penalty)(inputs)
        h = layers.Dense(64, "relu", kernel_regularizer=penalty)(code)
        if case == "skipped":
            h = layers.Concatenate()([h, inputs])
        last = "tanh" if case == "tanh_of_pixels_to_16" else None
        out = layers.Dense(64, last)(h)
    model = keras.Model(inputs, out)
    model.compile(keras.optimizers.Adam(5e-3), "mse")
    model.fit(noisy, target, batch_size=32, epochs=8, verbose=0, callbacks=run.callbacks())
    return score("values", held, model.predict(asked, verbose=0))
