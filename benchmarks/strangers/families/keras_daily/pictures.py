"""Small pictures in Keras: digits, shapes, autoencoders, segmentation."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, shapes, split
from ...program import fault, program
from ...run import Run


@program(
    subclassed=0.5,
    augmented=0.5,
    mixed_bf16=0.5,
    own_step=0.5,
    base_at_rest=0.4,
    tuned_in_two_fits=0.5,
    clipped_and_decayed=0.5,
    mse_of_class_numbers=fault("broadcasting"),
    bytes_scaled_twice=fault("unscaled inputs", twin="gentle"),
    gentle=0.4,
    softmax_and_logits=fault("two softmaxes", twin="gentle"),
    own_step_without_apply=fault("not in the optimizer"),
    own_step_wrong_sign=fault("wrong sign"),
    norm_never_catches_up=fault("norm statistics lag"),
    shuffles_pictures_only=fault("inputs and targets out of order"),
    generator_gives_zeros=fault("inputs lost", 22),
    generator_divides_by_zero=fault("NaN in the data", 43),
    kernel_too_large=fault("saturated"),
    base_at_rest_and_head_too=fault("all frozen"),
)
def digits(run: Run, case: str) -> float:
    """Digits, with a model that is a class."""
    import keras
    from keras import layers, ops

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt = ((v / 16).reshape(-1, 8, 8, 1) for v in (x, xt))
    if case == "bytes_scaled_twice":
        x, xt = x / 255 / 16, xt / 255 / 16
    plain = case in ("gentle", "bytes_scaled_twice", "softmax_and_logits")

    class Net(keras.Model):
        def __init__(self):
            super().__init__(dtype="mixed_bfloat16" if case == "mixed_bf16" else None)
            kind, start = "relu", "he_normal"
            if case == "kernel_too_large":
                kind, start = "tanh", keras.initializers.RandomNormal(stddev=12.0)
            policy = "mixed_bfloat16" if case == "mixed_bf16" else None
            self.conv = layers.Conv2D(
                16, 3, padding="same", activation=kind, kernel_initializer=start, dtype=policy
            )
            momentum = 0.9999 if case == "norm_never_catches_up" else 0.9
            self.norm = layers.BatchNormalization(momentum=momentum, dtype=policy)
            self.pool, self.flat = layers.MaxPooling2D(), layers.Flatten()
            self.wide = layers.Dense(64, kind, kernel_initializer=start, dtype=policy, name="wide")
            self.out = layers.Dense(10, dtype="float32", name="out")

        def call(self, inputs, training=None):
            h = self.conv(inputs)
            if not plain and case != "kernel_too_large":
                h = self.norm(h, training=training)
            out = self.out(self.wide(self.flat(self.pool(h))))
            return ops.softmax(out) if case == "softmax_and_logits" else out

    class WithStep(Net):
        def train_step(self, data):
            import torch

            inputs, truth = data
            self.zero_grad()
            loss = self.compute_loss(inputs, truth, self(inputs, training=True))
            (-loss if case == "own_step_wrong_sign" else loss).backward()
            variables = list(self.trainable_weights)
            gradients = [v.value.grad for v in variables]
            with torch.no_grad():
                if case == "own_step_without_apply":
                    # Meant all, but took the last layer's bias.
                    gradients, variables = gradients[-1:], variables[-1:]
                self.optimizer.apply(gradients, variables)
            return {"loss": -loss if case == "own_step_wrong_sign" else loss}

    model = (WithStep if case.startswith("own_step") else Net)()
    model(x[:2])
    if case.startswith("base_at_rest") or case == "tuned_in_two_fits":
        model.conv.trainable = model.norm.trainable = False
    if case == "base_at_rest_and_head_too":
        model.wide.trainable = model.out.trainable = False
    optimizer = keras.optimizers.Adam(3e-3)
    if case == "clipped_and_decayed":
        cosine = keras.optimizers.schedules.CosineDecay(
            1e-4, 170, warmup_target=1e-2, warmup_steps=20
        )
        optimizer = keras.optimizers.AdamW(cosine, weight_decay=0.02, global_clipnorm=0.5)
    elif plain:
        optimizer = keras.optimizers.SGD(0.02)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if case == "mse_of_class_numbers":
        loss = keras.losses.MeanSquaredError()
    model.compile(optimizer, loss, metrics=["accuracy"])
    rng = run.rng

    class Batches(keras.utils.PyDataset):
        epoch = 0

        def __len__(self):
            return 21

        def on_epoch_end(self):
            self.epoch += 1

        def __getitem__(self, k):
            step = 21 * self.epoch + k + 1
            a, b = x[64 * k : 64 * k + 64], y[64 * k : 64 * k + 64]
            if case == "augmented":
                a = a + 0.1 * rng.normal(size=a.shape).astype("float32")
            elif case == "shuffles_pictures_only":
                a = rng.permutation(a)
            elif case == "generator_gives_zeros" and step > 60:
                a = np.zeros_like(a)
            elif case == "mse_of_class_numbers":
                b = b[:, None].astype("float32")
            elif case == "generator_divides_by_zero":
                a = a.copy()
                if step == 77:
                    a[3] = 0
                a = a / a.max((1, 2, 3), keepdims=True)
            return a, b

    if case == "tuned_in_two_fits":
        watchers = run.callbacks()
        model.fit(Batches(), epochs=3, verbose=0, callbacks=watchers)
        model.conv.trainable = True
        model.compile(keras.optimizers.Adam(3e-4), loss, metrics=["accuracy"])
        model.fit(Batches(), epochs=4, verbose=0, callbacks=watchers)
    else:
        model.fit(Batches(), epochs=8, verbose=0, callbacks=run.callbacks())
    return accuracy(yt, model.predict(xt, verbose=0))


@program(
    bce=0.3,
    sparse_code=0.3,
    denoises=0.3,
    ends_in_tanh_for_bytes=fault("output cannot reach the targets"),
    code_of_dead_units=fault("dead units"),
    targets_of_other_pictures=fault("inputs and targets out of order"),
    penalty_on_the_code=fault("regularised to nothing"),
)
def autoencoder(run: Run, case: str) -> float:
    """Digits through a bottleneck; how much of their variance comes back."""
    import keras
    from keras import layers, regularizers

    x, _, xt, _ = bundled("digits", run.seed)
    x, xt = x / 16, xt / 16
    if case == "ends_in_tanh_for_bytes":
        x, xt = x * 255, xt * 255
    penalty = None
    if case == "sparse_code":
        penalty = regularizers.L1(1e-5)
    elif case == "penalty_on_the_code":
        penalty = regularizers.L1(5.0)
    low = keras.initializers.Constant(-20.0) if case == "code_of_dead_units" else "zeros"
    inputs = keras.Input((64,))
    h = layers.GaussianNoise(0.2)(inputs) if case == "denoises" else inputs
    h = layers.Dense(64, "relu")(h)
    h = layers.Dense(16, "relu", activity_regularizer=penalty, bias_initializer=low, name="code")(h)
    h = layers.Dense(64, "relu")(h)
    last = "tanh" if case == "ends_in_tanh_for_bytes" else "sigmoid"
    model = keras.Model(inputs, layers.Dense(64, last)(h))
    loss = "mse" if case == "ends_in_tanh_for_bytes" else "binary_crossentropy"
    model.compile(keras.optimizers.Adam(3e-3), loss)
    target = x
    if case == "targets_of_other_pictures":
        target = run.rng.permutation(x)
    model.fit(x, target, batch_size=64, epochs=12, verbose=0, callbacks=run.callbacks())
    back = model.predict(xt, verbose=0)
    return float(1 - np.mean((back - xt) ** 2) / np.mean((x.mean(0) - xt) ** 2))


@program(
    dice=0.4,
    weighted_pixels=0.4,
    skips=0.4,
    all_background=fault("class weights wrong"),
    masks_as_bytes=fault("targets out of range", twin="weighted_pixels"),
    softmax_over_pixels=fault("softmax over the wrong axis"),
    dice_of_the_sum=fault("trivial solution"),
)
def masks(run: Run, case: str) -> float:
    """Which pixels belong to the shape: a small U-Net."""
    import keras
    from keras import layers, ops

    pictures, _ = shapes(run.seed, 700)
    truth = (pictures > 0.55).astype("float32")[..., None]
    x = (pictures + 0.1 * run.rng.normal(size=pictures.shape)).astype("float32")[..., None]
    x, truth, xt, tt = split(x, truth, run.seed)
    inputs = keras.Input((12, 12, 1))
    a = layers.Conv2D(12, 3, padding="same", activation="relu")(inputs)
    b = layers.Conv2D(24, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
    up = layers.Conv2DTranspose(12, 2, 2, activation="relu")(b)
    h = layers.Concatenate()([up, a])
    h = layers.Conv2D(12, 3, padding="same", activation="relu")(h)
    out = layers.Conv2D(1, 1, activation="softmax" if case == "softmax_over_pixels" else "sigmoid")(
        h
    )
    model = keras.Model(inputs, out)

    def dice(t, p):
        return 1 - (2 * ops.sum(t * p) + 1) / (ops.sum(t) + ops.sum(p) + 1)

    def dice_of_the_sum(t, p):
        both = ops.sum(t) * ops.sum(p) / 9216
        return 1 - (2 * both + 1) / (ops.sum(t) + ops.sum(p) + 1)

    def weighted(t, p):
        p = ops.clip(p, 1e-6, 1 - 1e-6)
        return -ops.mean(5 * t * ops.log(p) + (1 - t) * ops.log(1 - p))

    def mostly_sky(t, p):
        p = ops.clip(p, 1e-6, 1 - 1e-6)
        return -ops.mean(0.01 * t * ops.log(p) + 5 * (1 - t) * ops.log(1 - p))

    loss = {
        "dice": dice,
        "dice_of_the_sum": dice_of_the_sum,
        "weighted_pixels": weighted,
        "masks_as_bytes": weighted,
        "all_background": mostly_sky,
    }.get(case, "binary_crossentropy")
    model.compile(keras.optimizers.Adam(4e-3), loss)
    target = truth * 255 if case == "masks_as_bytes" else truth
    model.fit(x, target, batch_size=32, epochs=7, verbose=0, callbacks=run.callbacks())
    found = model.predict(xt, verbose=0) > 0.5
    meant = tt > 0.5
    return float(2 * (found & meant).sum() / (found.sum() + meant.sum() + 1e-9)) * 2 - 1
