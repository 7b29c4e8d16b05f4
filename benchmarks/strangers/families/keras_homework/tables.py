"""Tables: incomes through preprocessing layers, a student of a teacher, mixtures."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, made, score
from ...program import fault, program
from ...run import Run


def _incomes(rng: np.random.Generator, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Age, capital and hours of people, the code of their work; who earns much: one in five."""
    effect = np.random.default_rng(31).normal(size=12)
    columns = {
        "age": rng.uniform(18, 80, n),
        "capital": rng.lognormal(8, 1.5, n),
        "hours": rng.normal(40, 8, n),
        "work": rng.integers(0, 12, n),
    }
    value = effect[columns["work"]] - ((columns["age"] - 50) / 15) ** 2
    value += 0.8 * (np.log(columns["capital"]) - 8) + 0.1 * (columns["hours"] - 40)
    value += 0.5 * rng.normal(size=n)
    return columns, (value > np.quantile(value, 0.8)).astype("float32")


@program(
    adapted=0.5,
    class_weight=0.5,
    focal=0.5,
    by_its_own_dataset=0.5,
    wide_and_deep=0.5,
    batches_of_400=0.4,
    plateaus=0.5,
    never_adapted=fault("unscaled inputs"),
    weights_of_the_other_class=fault("class weights wrong"),
    no_weight_at_all=fault("no sample counts"),
    same_batch_always=fault("one batch only"),
    labels_one_row_off=fault("inputs and targets out of order"),
    piecewise_to_zero=fault("rate decays to nothing", 21),
    clipped_to_a_millionth=fault("clipped to nothing"),
    all_kernels_zero=fault("symmetric start"),
    decay_of_a_hundred=fault("weight decay"),
    hinge_of_zero_and_one=fault("output cannot reach the targets"),
    loss_times_minus_one=fault("wrong sign"),
    capital_of_the_broke=fault("NaN in the data"),
)
def income(run: Run, case: str) -> float:
    """Who earns much: numbers are normalised, a code is looked up."""
    import keras
    from keras import layers, ops

    columns, y = _incomes(run.rng, 2000)
    cut = 1500
    numbers = np.stack([columns["age"], columns["capital"], columns["hours"]], 1)
    if case != "never_adapted":
        numbers[:, 1] = np.log(numbers[:, 1])
    if case == "capital_of_the_broke":
        numbers[run.rng.integers(0, cut, 40), 1] = np.nan
    numbers = numbers.astype("float32")
    work = columns["work"][:, None].astype("int32")
    wide = keras.Input((3,), name="numbers")
    code = keras.Input((1,), dtype="int32", name="work")
    start = "zeros" if case == "all_kernels_zero" else "glorot_uniform"
    norm = layers.Normalization()
    if case != "never_adapted":
        rows = numbers[:cut]
        norm.adapt(rows[np.isfinite(rows).all(1)])
    h = wide if case == "never_adapted" else norm(wide)
    kept = layers.Flatten()(layers.Embedding(12, 4, embeddings_initializer=start)(code))
    h = layers.Concatenate()([h, kept])
    deep = layers.Dense(32, "relu", kernel_initializer=start)(h)
    deep = layers.Dense(16, "relu", kernel_initializer=start)(deep)
    if case == "wide_and_deep":
        deep = layers.Concatenate()([deep, h])
    last = None if case == "capital_of_the_broke" else "sigmoid"
    if case == "hinge_of_zero_and_one":
        last = "relu"
    out = layers.Dense(1, last, kernel_initializer=start)(deep)
    model = keras.Model({"numbers": wide, "work": code}, out)

    def reward(truth, said):
        return -keras.losses.binary_crossentropy(truth, said)

    loss = {"focal": "binary_focal_crossentropy", "loss_times_minus_one": reward}.get(
        case, "mse" if case == "hinge_of_zero_and_one" else "binary_crossentropy"
    )
    if case == "capital_of_the_broke":
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
    rate = 5e-3
    if case == "piecewise_to_zero":
        rate = keras.optimizers.schedules.PiecewiseConstantDecay([20, 40], [5e-4, 1e-9, 1e-10])
    optimizer = keras.optimizers.Adam(rate)
    if case in ("never_adapted", "clipped_to_a_millionth"):
        more = {"clipvalue": 1e-6} if case == "clipped_to_a_millionth" else {}
        optimizer = keras.optimizers.SGD(0.05, **more)
    elif case == "decay_of_a_hundred":
        optimizer = keras.optimizers.AdamW(rate, weight_decay=100.0)
    model.compile(optimizer, loss)
    x = {"numbers": numbers[:cut], "work": work[:cut]}
    labels, options, callbacks = y[:cut], {"verbose": 0}, list(run.callbacks())
    if case == "hinge_of_zero_and_one":
        labels = -10 * labels
    if case == "labels_one_row_off":
        labels = np.roll(labels, 1)
    if case in ("class_weight", "weights_of_the_other_class"):
        rare = 4.0 if case == "class_weight" else 0.002
        options["class_weight"] = {0: 1.0, 1: rare}
    elif case == "no_weight_at_all":
        options["sample_weight"] = np.zeros(cut, "float32")
    elif case == "plateaus":
        callbacks.append(keras.callbacks.ReduceLROnPlateau("loss", patience=1, factor=0.5))

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 31

        def __getitem__(self, index):
            at = slice(0, 8) if case == "same_batch_always" else slice(48 * index, 48 * index + 48)
            return {name: each[at] for name, each in x.items()}, labels[at]

    if case in ("by_its_own_dataset", "same_batch_always"):
        model.fit(Batches(), epochs=8, callbacks=callbacks, **options)
    else:
        size = 400 if case == "batches_of_400" else 48
        epochs = 25 if case == "batches_of_400" else 8
        model.fit(x, labels, batch_size=size, epochs=epochs, callbacks=callbacks, **options)
    test = {"numbers": numbers[cut:], "work": work[cut:]}
    if case == "capital_of_the_broke":
        test["numbers"] = np.nan_to_num(test["numbers"])
    said = model.predict(test, verbose=0)
    if case == "weights_of_the_other_class":
        return accuracy(y[cut:].astype(int), said - 0.5)
    return score("binary", y[cut:], ops.convert_to_numpy(said))


@program(
    of_its_teacher=0.4,
    labels_too=0.4,
    labels_alone=0.4,
    teacher_never_fitted=fault("teacher knows nothing"),
    temperature_of_a_million=fault("temperature"),
    student_at_rest=fault("all frozen"),
)
def student(run: Run, case: str) -> float:
    """A small network learns from a large one, by a loss that the model computes."""
    import keras
    from keras import layers, ops

    data = made("blobs", run.seed, 800, classes=6, features=12, spread=0.8)

    def mlp(width):
        return keras.Sequential(
            [keras.Input((12,)), layers.Dense(width, "relu"), layers.Dense(6)],
            name=f"mlp_{width}",
        )

    teacher, small = mlp(96), mlp(16)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if case != "teacher_never_fitted":
        teacher.compile(keras.optimizers.Adam(1e-2), loss)
        teacher.fit(data.x, data.y, epochs=10, verbose=0)
    teacher.trainable = False
    if case == "student_at_rest":
        small.trainable = False
        small.layers[0].trainable = False
    heat = 1e6 if case == "temperature_of_a_million" else 3.0
    hard = {"labels_too": 0.3, "labels_alone": 1.0}.get(case, 0.0)

    class Distiller(keras.Model):
        def __init__(self):
            super().__init__()
            self.teacher, self.student = teacher, small

        def call(self, x, training=False):
            return self.student(x, training=training)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            said = self.teacher(x, training=False)
            wanted = ops.softmax(said / heat)
            soft = keras.losses.kl_divergence(wanted, ops.softmax(y_pred / heat))
            return hard * loss(y, y_pred) + (1 - hard) * ops.mean(soft) * min(heat, 10) ** 2

    model = Distiller()
    model.compile(keras.optimizers.Adam(8e-3))
    model.fit(data.x, data.y, batch_size=32, epochs=8, verbose=0, callbacks=run.callbacks())
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0))


@program(
    three_bells=0.3,
    one_bell=0.2,
    sharp_bells=0.3,
    many_bells=0.3,
    spread_without_a_bend=fault("NaN forward"),
    likelihood_turned_round=fault("wrong sign"),
    shares_over_the_batch=fault("softmax over the wrong axis"),
    underflow_then_log=fault("NaN forward"),
    bells_at_one_place=fault("symmetric start"),
    rate_of_three=fault("rate too high"),
)
def mixture(run: Run, case: str) -> float:
    """A mixture of bells for values that have two branches; judged by the better of its means."""
    import keras
    from keras import layers, ops

    rng, n, cut = run.rng, 1600, 1300
    x = rng.uniform(-2, 2, (n, 1)).astype("float32")
    branch = rng.integers(0, 2, (n, 1))
    noise = 0.01 if case == "sharp_bells" else 0.1
    y = np.where(branch > 0, np.sin(2 * x) + 1.5, -np.cos(2 * x) - 1.5)
    if case == "one_bell":
        y = np.sin(2 * x)
    y = (y + noise * rng.normal(size=(n, 1))).astype("float32")
    bells = {"one_bell": 1, "many_bells": 12}.get(case, 3)

    def likelihood(truth, out):
        means, spreads, shares = (out[:, i * bells : (i + 1) * bells] for i in range(3))
        bent = ops.softplus(spreads) + 1e-2
        spreads = spreads + 0.5 if case == "spread_without_a_bend" else bent
        z = (truth - means) / spreads
        if case == "underflow_then_log":
            bell = ops.exp(-0.5 * ops.square(100 * z)) / spreads
            return -ops.log(ops.sum(ops.softmax(shares) * bell, -1))
        logs = -0.5 * ops.square(z) - ops.log(spreads)
        axis = 0 if case == "shares_over_the_batch" else -1
        total = ops.logsumexp(logs + ops.log_softmax(shares, axis), -1)
        return total if case == "likelihood_turned_round" else -total

    start = "zeros" if case == "bells_at_one_place" else "glorot_uniform"
    model = keras.Sequential(
        [keras.Input((1,)), layers.Dense(40, "tanh"), layers.Dense(40, "tanh"),
         layers.Dense(3 * bells, kernel_initializer=start)]
    )  # fmt: skip
    model.compile(keras.optimizers.Adam(3.0 if case == "rate_of_three" else 1e-2), likelihood)
    model.fit(x[:cut], y[:cut], batch_size=50, epochs=10, verbose=0, callbacks=run.callbacks())
    out = model.predict(x[cut:], verbose=0)
    if not np.isfinite(out).all():
        return -1.0
    means, shares = out[:, :bells], out[:, 2 * bells :]
    shares = np.exp(shares - shares.max(1, keepdims=True))
    likely = shares > 0.1 * shares.sum(1, keepdims=True)
    error = np.where(likely, (means - y[cut:]) ** 2, np.inf).min(1).mean()
    return max(-1.0, float(1 - error / y[cut:].var()))
