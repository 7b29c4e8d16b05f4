"""Models of several parts in Keras: an autoencoder, pairs, a base that is tuned, a forecast."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, score, shapes
from ...program import fault, program
from ...run import Run


@program(
    crossentropy=0.25,
    squared=0.3,
    variational=0.2,
    denoising=0.25,
    pull_of_a_hundred=fault("posterior collapse", twin="variational"),
    tanh_for_sixteen=fault("output cannot reach the targets", twin="squared"),
    code_of_dead_units=fault("dead units", twin="squared", layer="code"),
    pictures_of_others=fault("inputs and targets out of order", twin="squared"),
    sigmoid_crossentropy_of_bytes=fault("targets out of range", twin="crossentropy"),
)
def autoencoder(run: Run, case: str) -> float:
    """Digits through twelve numbers and back."""
    import keras
    from keras import layers, ops

    x, _, xt, _ = bundled("digits", run.seed)
    if case not in ("tanh_for_sixteen", "sigmoid_crossentropy_of_bytes"):
        x, xt = x / 16, xt / 16

    class Sample(layers.Layer):
        def __init__(self, weight):
            super().__init__()
            self.weight, self.dice = weight, keras.random.SeedGenerator(3)

        def call(self, parts):
            mean, spread = parts
            pull = 0.5 * ops.sum(mean**2 + ops.exp(spread) - 1 - spread, axis=1)
            self.add_loss(self.weight * ops.mean(pull))
            noise = keras.random.normal(ops.shape(mean), seed=self.dice)
            return mean + noise * ops.exp(0.5 * spread)

    inputs = keras.Input((64,))
    h = layers.Dense(64, "relu")(inputs)
    if case in ("variational", "pull_of_a_hundred"):
        weight = 1e-3 if case == "variational" else 100.0
        code = Sample(weight)([layers.Dense(12)(h), layers.Dense(12)(h)])
    else:
        dead = case == "code_of_dead_units"
        start = keras.initializers.Constant(-30.0) if dead else "zeros"
        code = layers.Dense(12, "relu" if dead else None, name="code", bias_initializer=start)(h)
    last = {"squared": None, "tanh_for_sixteen": "tanh"}.get(case, "sigmoid")
    out = layers.Dense(64, last)(layers.Dense(64, "relu")(code))
    model = keras.Model(inputs, out)
    bits = case in ("crossentropy", "denoising", "sigmoid_crossentropy_of_bytes")
    model.compile(keras.optimizers.Adam(5e-3), "binary_crossentropy" if bits else "mse")
    seen = x
    if case == "denoising":
        seen = x + 0.2 * run.rng.normal(size=x.shape).astype("float32")
    target = run.rng.permutation(x) if case == "pictures_of_others" else x
    model.fit(seen, target, batch_size=48, epochs=7, verbose=0, callbacks=run.callbacks())
    return score("values", xt, model.predict(xt, verbose=0))


@program(
    contrastive=0.3,
    crossentropy=0.3,
    labels_reversed=fault("labels shuffled", twin="crossentropy"),
    distance_of_zero=fault("trivial solution", twin="contrastive"),
    margin_of_nothing=fault("loss cancels", twin="contrastive"),
)
def pairs(run: Run, case: str) -> float:
    """Whether two digits are the same one; one network sees both."""
    import keras
    from keras import layers, ops

    rng = run.rng
    x, y, _, _ = bundled("digits", run.seed)
    x = x / 16
    left = rng.integers(0, len(x), 1600)
    right = rng.integers(0, len(x), 1600)
    for i in range(0, 1600, 2):
        right[i] = rng.choice(np.flatnonzero(y == y[left[i]]))
    same = (y[left] == y[right]).astype("float32")[:, None]
    truth, cut = same.copy(), 1300
    if case == "labels_reversed":
        truth = rng.permutation(truth)
    tower = keras.Sequential(
        [keras.Input((64,)), layers.Dense(64, "relu"), layers.Dense(16)], name="tower"
    )
    a, b = keras.Input((64,)), keras.Input((64,))
    gap = ops.square(tower(a) - tower(b))
    distance = ops.sqrt(ops.sum(gap, axis=1, keepdims=True) + 1e-6)
    out = (
        layers.Dense(1, "sigmoid")(gap) if case in ("crossentropy", "labels_reversed") else distance
    )
    model = keras.Model([a, b], out)

    def contrastive(t, d):
        margin = 0.0 if case == "margin_of_nothing" else 1.0
        apart = 0.0 if case == "distance_of_zero" else 1.0
        near = 0.0 if case == "margin_of_nothing" else 1.0
        loss = near * t * ops.square(d) + apart * (1 - t) * ops.square(ops.relu(margin - d))
        return ops.mean(loss, axis=-1)

    of_classes = case in ("crossentropy", "labels_reversed")
    model.compile(keras.optimizers.Adam(2e-3), "binary_crossentropy" if of_classes else contrastive)
    data = [x[left[:cut]], x[right[:cut]]]
    model.fit(data, truth[:cut], batch_size=32, epochs=5, verbose=0, callbacks=run.callbacks())
    said = model.predict([x[left[cut:]], x[right[cut:]]], verbose=0)[:, 0]
    if not of_classes:
        said = 0.5 - said
        return accuracy(same[cut:, 0].astype(int), said)
    return score("binary", same[cut:, 0].astype(int), said)


@program(
    frozen_base=0.3,
    tuned_afterwards=0.4,
    small_rate_for_all=0.3,
    normalisation_at_rest=0.3,
    forgot_the_head=fault("all frozen"),
    tuned_at_rate_of_one=fault("rate jump", 76, twin="tuned_afterwards"),
    pictures_in_bytes=fault("unscaled inputs"),
)
def tuned(run: Run, case: str) -> float:
    """A base trained on two sorts of shapes tells four."""
    import keras
    from keras import layers

    images, kinds = shapes(run.seed, 1100)
    images, cut = images[..., None], 900
    base = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(12, 3, activation="relu", padding="same"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(24, 3, activation="relu", padding="same"),
            layers.MaxPooling2D(),
            layers.Flatten(),
        ],
        name="base",
    )
    first = keras.Sequential([base, layers.Dense(1, "sigmoid")])
    first.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy")
    first.fit(images[:300], kinds[:300] > 1, batch_size=32, epochs=5, verbose=0)
    base.trainable = case in ("small_rate_for_all", "normalisation_at_rest")
    if case == "normalisation_at_rest":
        base.layers[1].trainable = False
    inputs = keras.Input((12, 12, 1))
    h = base(inputs, training=False)
    h = layers.Dropout(0.2)(layers.Dense(48, "relu")(h))
    model = keras.Model(inputs, layers.Dense(4, "softmax")(h))
    if case == "forgot_the_head":
        model.trainable = False
    x, y = images[300:cut], kinds[300:cut]
    if case == "pictures_in_bytes":
        x, images = 255 * x + 1000, 255 * images + 1000
    rate = 5e-4 if case == "small_rate_for_all" else 2e-3
    if case == "small_rate_for_all":
        rate = 1e-3
    model.compile(
        keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    options = {"batch_size": 24, "verbose": 0, "callbacks": run.callbacks()}
    if case.startswith("tuned"):
        model.fit(x, y, epochs=3, **options)
        base.trainable = True
        rate = 1.0 if case == "tuned_at_rate_of_one" else 3e-4
        model.compile(
            keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"]
        )
        model.fit(x, y, epochs=7, initial_epoch=3, **options)
    else:
        model.fit(x, y, epochs=6, **options)
    return accuracy(kinds[cut:], model.predict(images[cut:], verbose=0))


@program(
    lstm=0.4,
    convolution=0.4,
    stacked=0.4,
    with_plateaus=0.4,
    series_of_others=fault("inputs and targets out of order"),
    plain_recurrence_of_large_weights=fault("saturated"),
    sigmoid_for_waves=fault("output cannot reach the targets"),
    rate_of_ten=fault("rate too high"),
    sensor_dies=fault("inputs lost", 64),
)
def forecast(run: Run, case: str) -> float:
    """The next value of a wave with noise."""
    import keras
    from keras import layers

    rng, n, cut = run.rng, 900, 700
    start, pace = rng.uniform(0, 6.28, (n, 1)), rng.uniform(0.2, 0.6, (n, 1))
    wave = 2 * np.sin(start + pace * np.arange(21)) + 0.1 * rng.normal(size=(n, 21))
    x, y = wave[:, :20, None].astype("float32"), wave[:, 20:].astype("float32")
    truth = rng.permutation(y[:cut]) if case == "series_of_others" else y[:cut]
    model = keras.Sequential([keras.Input((20, 1))])
    if case == "convolution":
        model.add(layers.Conv1D(24, 4, activation="relu"))
        model.add(layers.Flatten())
    elif case == "stacked":
        model.add(layers.GRU(16, return_sequences=True))
        model.add(layers.GRU(16))
    elif case == "plain_recurrence_of_large_weights":
        large = keras.initializers.RandomNormal(stddev=40.0)
        model.add(layers.SimpleRNN(24, kernel_initializer=large, recurrent_initializer=large))
    else:
        model.add(layers.LSTM(24))
    model.add(layers.Dense(1, "sigmoid" if case == "sigmoid_for_waves" else None))
    rate = 10.0 if case == "rate_of_ten" else 1e-2
    model.compile(keras.optimizers.Adam(rate), "mse")
    more = list(run.callbacks())
    options = {"batch_size": 32, "verbose": 0, "callbacks": more, "epochs": 7}
    if case == "with_plateaus":
        options["validation_split"] = 0.2
        more.append(keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.3))
    if case == "sensor_dies":
        rows = run.rng.permutation(np.tile(np.arange(cut), 7))[: 150 * 32].reshape(-1, 32)

        def batches():
            for step, chosen in enumerate(rows):
                yield x[chosen] * (step < 63), truth[chosen]

        model.fit(batches(), verbose=0, callbacks=more)
    else:
        model.fit(x[:cut], truth, **options)
    return score("values", y[cut:], model.predict(x[cut:], verbose=0))
