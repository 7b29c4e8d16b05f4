"""Pictures: sums of two digits, augmented shapes, a variational autoencoder."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, score, shapes
from ...program import fault, program
from ...run import Run


@program(
    shared=0.5,
    two_bodies=0.4,
    dropped=0.4,
    difference=0.4,
    early_stopping=0.4,
    left_digit_twice=fault("information missing"),
    bytes_as_they_are=fault("unscaled inputs"),
    sum_below_zero=fault("output cannot reach the targets"),
    body_and_head_frozen=fault("all frozen"),
    sgd_rate_of_five=fault("rate too high"),
    sums_of_other_rows=fault("inputs and targets out of order"),
    cosine_to_step_eight=fault("rate decays to nothing", 8),
)
def sums(run: Run, case: str) -> float:
    """The sum of two written digits: two inputs, a body that both share."""
    import keras
    from keras import layers

    x, y, held, truth = bundled("digits", run.seed)
    scale = 1 / 16 if case != "bytes_as_they_are" else 4000.0
    x, held = (scale * each.reshape(-1, 8, 8, 1) for each in (x, held))

    def pairs(images, digits, n):
        a, b = run.rng.integers(0, len(images), (2, n))
        total = digits[a] - digits[b] if case == "difference" else digits[a] + digits[b]
        total = ((total - 9) / 4).astype("float32")
        return [images[a], images[b]], total[:, None]

    def body():
        return keras.Sequential(
            [layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(),
             layers.Dense(48, activation="relu")]
        )  # fmt: skip

    left, right = keras.Input((8, 8, 1), name="left"), keras.Input((8, 8, 1), name="right")
    first = body()
    second = body() if case == "two_bodies" else first
    both = [first(left), second(left if case == "left_digit_twice" else right)]
    h = layers.Dense(48, activation="relu")(layers.Concatenate()(both))
    if case == "dropped":
        h = layers.Dropout(0.4)(h)
    out = layers.Dense(1, "relu" if case == "sum_below_zero" else None)(h)
    model = keras.Model([left, right], out)
    if case == "body_and_head_frozen":
        for layer in model.layers:
            layer.trainable = False
        h.trainable = True  # A tensor, not the layer.
    rate = keras.optimizers.schedules.CosineDecay(4e-3, 8) if "cosine" in case else 4e-3
    optimizer = keras.optimizers.Adam(rate)
    if case in ("sgd_rate_of_five", "bytes_as_they_are"):
        optimizer = keras.optimizers.SGD(5.0 if case == "sgd_rate_of_five" else 0.01)
    model.compile(optimizer, "mse", metrics=["mae"])
    inputs, total = pairs(x, y, 1400)
    if case == "sum_below_zero":
        total = total - 8
    if case == "sums_of_other_rows":
        total = np.roll(total, 1, 0)
    callbacks, more = list(run.callbacks()), {}
    if case == "early_stopping":
        callbacks.append(keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True))
        more = {"validation_split": 0.2}
    model.fit(inputs, total, batch_size=48, epochs=8, verbose=0, callbacks=callbacks, **more)
    inputs, total = pairs(held, truth, 400)
    if case == "sum_below_zero":
        total = total - 8
    return score("values", total, model.predict(inputs, verbose=0))


@program(
    flips=0.4,
    moved_and_noisy=0.3,
    pooled_over_all=0.4,
    leaky=0.4,
    smoothed=0.4,
    scaled_down_twice=fault("scaled twice"),
    no_softmax=fault("logits or not"),
    sorted_by_name=fault("inputs and targets out of order"),
    dropout_of_all_but_one=fault("too much dropout"),
    adam_at_two=fault("rate too high"),
    black_pictures=fault("constant inputs"),
    kernels_of_zero=fault("symmetric start"),
)
def augmented(run: Run, case: str) -> float:
    """Shapes in bytes, scaled and augmented by layers."""
    import keras
    from keras import layers

    images, kinds = shapes(run.seed, 900)
    images = (np.clip(images, 0, 1.5) * 170).astype("uint8")[..., None]
    x, y, held, truth = images[:700], kinds[:700], images[700:], kinds[700:]
    if case == "sorted_by_name":
        y = np.sort(y)
    elif case == "black_pictures":
        x = np.zeros_like(x)
    elif case == "scaled_down_twice":
        x, held = x / 255 / 255, held / 255 / 255
    model = keras.Sequential([keras.Input((12, 12, 1)), layers.Rescaling(1 / 255)])
    if case == "moved_and_noisy":
        model.add(layers.RandomTranslation(0.1, 0.1))
        model.add(layers.GaussianNoise(0.1))
    elif case == "flips":
        model.add(layers.RandomFlip())
    start = "zeros" if case == "kernels_of_zero" else "glorot_uniform"
    bend = "leaky_relu" if case == "leaky" else "relu"
    for filters in (16, 32):
        model.add(layers.Conv2D(filters, 3, activation=bend, kernel_initializer=start))
        model.add(layers.MaxPooling2D() if filters == 16 else layers.Activation("linear"))
    if case == "pooled_over_all":
        model.add(layers.GlobalMaxPooling2D())
    else:
        model.add(layers.Flatten())
    if case == "dropout_of_all_but_one":
        model.add(layers.Dropout(0.99))
    model.add(layers.Dense(48, bend, kernel_initializer=start))
    last = None if case in ("no_softmax", "flips") else "softmax"
    model.add(layers.Dense(4, last, kernel_initializer=start))
    loss = "sparse_categorical_crossentropy"
    if case == "flips":
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    elif case == "smoothed":
        y = 0.9 * np.eye(4, dtype="float32")[y] + 0.025
        loss = "categorical_crossentropy"
    model.compile(keras.optimizers.Adam(2.0 if case == "adam_at_two" else 2e-3), loss)
    model.fit(x, y, batch_size=32, epochs=8, verbose=0, callbacks=run.callbacks())
    return accuracy(truth, model.predict(held, verbose=0))


@program(
    summed=0.3,
    little_divergence=0.3,
    squared_errors=0.3,
    divergence_comes_slowly=0.3,
    divergence_of_the_wrong_sign=fault("wrong sign"),
    mean_beside_a_sum=fault("posterior collapse", twin="squared_errors"),
    deviation_of_the_exponent=fault("overflow"),
    pixels_from_minus_one=fault("output cannot reach the targets"),
    code_forgotten=fault("detached"),
)
def variational(run: Run, case: str) -> float:
    """The variational autoencoder of the tutorial; how much of a digit's variance comes back."""
    import keras
    from keras import layers, ops

    x, _, held, _ = bundled("digits", run.seed)
    x, held = x / 16, held / 16
    if case == "pixels_from_minus_one":
        x, held = 6 * x - 5, 6 * held - 5
    wide = 30.0 if case == "deviation_of_the_exponent" else 0.5
    seeds = keras.random.SeedGenerator(run.seed)

    class Sampling(layers.Layer):
        def call(self, both):
            mean, log_variance = both
            noise = keras.random.normal(ops.shape(mean), seed=seeds)
            return mean + ops.exp(wide * log_variance) * noise

    class Variational(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = layers.Dense(48, "relu", name="hidden")
            self.mean = layers.Dense(8, name="mean")
            self.log_variance = layers.Dense(8, name="log_variance")
            self.sampling = Sampling()
            squares = case in ("squared_errors", "mean_beside_a_sum")
            self.back = keras.Sequential(
                [layers.Dense(48, "relu"), layers.Dense(64, None if squares else "sigmoid")]
            )
            self.share = self.add_weight(name="share", initializer="zeros", trainable=False)
            if case != "divergence_comes_slowly":
                self.share.assign(0.1 if case == "little_divergence" else 1.0)

        def call(self, x, training=False):
            h = self.hidden(x)
            if case == "deviation_of_the_exponent":
                h = 20 * h
            mean, log_variance = self.mean(h), self.log_variance(h)
            inside = 1 + log_variance - ops.square(mean) - ops.exp(log_variance)
            divergence = -0.5 * ops.mean(ops.sum(inside, -1))
            if case == "divergence_of_the_wrong_sign":
                divergence = -divergence
            self.add_loss(self.share * divergence)
            code = self.sampling([mean, log_variance]) if training else mean
            if case == "code_forgotten":
                code = ops.stop_gradient(ops.sign(code))
            return self.back(code)

    def crossentropy(truth, said):
        return 64 * keras.losses.binary_crossentropy(truth, said)

    def squares(truth, said):
        return ops.sum(ops.square(truth - said), -1) / 0.1

    loss = {"squared_errors": squares, "mean_beside_a_sum": "mse"}.get(case, crossentropy)
    model = Variational()
    model.compile(keras.optimizers.Adam(4e-3), loss)
    callbacks = list(run.callbacks())
    if case == "divergence_comes_slowly":
        callbacks.append(
            keras.callbacks.LambdaCallback(
                on_epoch_begin=lambda epoch, logs: model.share.assign(min(1.0, epoch / 6))
            )
        )
    model.fit(x, x, batch_size=48, epochs=10, verbose=0, callbacks=callbacks)
    return score("values", held, model.predict(held, verbose=0))
