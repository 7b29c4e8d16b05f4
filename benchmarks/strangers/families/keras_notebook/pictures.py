"""Pictures and texts in `fit`, on JAX and TensorFlow."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run


@program(
    plain=0.5,
    stops_early=0.5,
    half_dropped=0.4,
    noisy_labels=0.35,
    cosine_with_warmup=0.5,
    smoothed=0.5,
    hundred_pictures=0.3,
    one_hot_mse=0.4,
    float16=0.5,
    norm_everywhere=0.5,
    softmax_on_axis_zero=fault("softmax over the wrong axis"),
    relu_at_the_end=fault("output cannot reach the targets"),
    labels_shuffled=fault("labels shuffled"),
    rate_of_one=fault("rate too high"),
    rate_of_1e_8=fault("rate too low"),
    schedule_of_one_epoch=fault("rate decays to nothing"),
    deep_sigmoid=fault("vanishing"),
    dead_from_the_start=fault("dead units", layer="hidden"),
    l2_of_one=fault("regularised to nothing"),
    all_frozen=fault("all frozen"),
    epoch_of_nans=fault("NaN in the data", 85),
    sorted_without_shuffling=fault("unshuffled"),
    clipped_to_1e_6=fault("clipped to nothing"),
    rate_times_1000_in_epoch_3=fault("rate jump", 85),
    sigmoid_and_crossentropy_of_logits=fault("two softmaxes"),
)
def digits(run: Run, case: str) -> float:
    """Scans of digits."""
    import keras
    from keras import layers

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt = x.reshape(-1, 8, 8, 1) / 16, xt.reshape(-1, 8, 8, 1) / 16
    truth = y.copy()
    if case == "hundred_pictures":
        x, truth = x[:100], truth[:100]
    elif case == "noisy_labels":
        wrong = run.rng.random(len(truth)) < 0.3
        truth[wrong] = run.rng.integers(0, 10, wrong.sum())
    elif case == "labels_shuffled":
        truth = run.rng.permutation(truth)
    elif case == "sorted_without_shuffling":
        order = truth.argsort(kind="stable")
        x, truth = x[order], truth[order]
    if case == "float16":
        keras.mixed_precision.set_global_policy("mixed_float16")
    penalty = keras.regularizers.L2(1.0) if case == "l2_of_one" else None
    bias = keras.initializers.Constant(-30.0) if case == "dead_from_the_start" else "zeros"
    bend = "sigmoid" if case == "deep_sigmoid" else "relu"
    stack = [keras.Input((8, 8, 1))]
    if case == "deep_sigmoid":
        stack += [layers.Flatten(), *(layers.Dense(48, "sigmoid") for _ in range(10))]
    else:
        stack += [layers.Conv2D(16, 3, activation=bend, kernel_regularizer=penalty)]
        if case == "norm_everywhere":
            stack.append(layers.BatchNormalization())
        stack += [layers.MaxPooling2D(), layers.Flatten()]
        stack.append(
            layers.Dense(64, bend, name="hidden", kernel_regularizer=penalty, bias_initializer=bias)
        )
        if case == "norm_everywhere":
            stack.append(layers.BatchNormalization())
        stack.append(layers.Dropout(0.5 if case == "half_dropped" else 0.1))
    last = {
        "relu_at_the_end": "relu",
        "sigmoid_and_crossentropy_of_logits": "softmax",
        "softmax_on_axis_zero": lambda v: keras.ops.softmax(v, axis=0),
    }.get(case)
    of_logits = case not in ("one_hot_mse", "relu_at_the_end", "softmax_on_axis_zero")
    stack.append(layers.Dense(10, last, dtype="float32"))
    if case == "one_hot_mse":
        stack.append(layers.Softmax(dtype="float32"))
    model = keras.Sequential(stack)
    if case == "all_frozen":
        for each in model.layers[:-1]:
            each.trainable = False
        model.layers[-1].trainable = False
    rate = {"rate_of_one": 1.0, "rate_of_1e_8": 1e-8, "schedule_of_one_epoch": 1e-2}.get(case, 2e-3)
    schedules = keras.optimizers.schedules
    if case == "cosine_with_warmup":
        rate = schedules.CosineDecay(1e-4, 200, warmup_target=4e-3, warmup_steps=30)
    elif case == "schedule_of_one_epoch":
        rate = schedules.ExponentialDecay(1e-3, 2, 0.2)
    if case == "clipped_to_1e_6":
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=1e-6)
    elif case == "l2_of_one":
        optimizer = keras.optimizers.SGD(0.01)
    elif case == "sigmoid_and_crossentropy_of_logits":
        optimizer = keras.optimizers.SGD(0.02)
    else:
        optimizer = keras.optimizers.Adam(rate)
    if case in ("one_hot_mse", "smoothed"):
        truth = np.eye(10, dtype="float32")[truth]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=of_logits)
    if case == "one_hot_mse":
        loss = "mse"
    elif case == "smoothed":
        loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(optimizer, loss, metrics=["accuracy"])
    more = list(run.callbacks())
    options = {"epochs": 5, "batch_size": 32, "verbose": 0, "callbacks": more}
    if case == "stops_early":
        options["validation_data"] = (xt, yt)
        more.append(keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True))
        options["epochs"] = 8
    elif case == "rate_times_1000_in_epoch_3":
        more.append(keras.callbacks.LearningRateScheduler(lambda e, r: 2.0 if e >= 2 else 2e-3))
    elif case == "hundred_pictures":
        options["epochs"] = 20
    if case == "sorted_without_shuffling":
        options["shuffle"] = False
    if case == "epoch_of_nans":
        model.fit(x, truth, **(options | {"epochs": 2}))
        broken = x.copy()
        broken[5::32, 2, 2] = np.nan
        options["initial_epoch"] = 2
        model.fit(broken, truth, **options)
    else:
        model.fit(x, truth, **options)
    keras.mixed_precision.set_global_policy("float32")
    return accuracy(yt, model.predict(xt, verbose=0))


def reviews(rng, n: int = 1400):
    """Made-up reviews: words of praise, of blame, and the rest; 'not' turns one around."""
    words = rng.integers(10, 300, (n, 24))
    good = rng.integers(0, 2, n)
    for row, label in zip(words, good, strict=True):
        places = rng.choice(23, 5, replace=False)
        for place in places:
            turned = rng.random() < 0.3
            word = rng.integers(10, 40) + (0 if bool(label) ^ turned else 30)
            row[place + 1] = word
            if turned:
                row[place] = 2
        row[rng.integers(14, 25) :] = 0
    rest = (words > 69).nonzero()
    words[rest] = np.maximum(words[rest], 70)
    return words.astype("int32"), good.astype("float32")


@program(
    averaged=0.3,
    convolved=0.3,
    recurrent=0.3,
    attended=0.3,
    tfidf_like=0.3,
    ids_as_numbers=fault("ids as numbers"),
    one_unit_with_softmax=fault("softmax over one unit"),
    labels_of_the_next_row=fault("inputs and targets out of order"),
    logits_taken_for_probabilities=fault("logits or not"),
    everything_dropped=fault("too much dropout"),
    embedding_frozen_and_zero=fault("constant inputs"),
    sgd_rate_of_500=fault("rate too high"),
    rate_halved_each_batch=fault("rate decays to nothing"),
)
def opinions(run: Run, case: str) -> float:
    """Whether a review praises."""
    import keras
    from keras import layers, ops

    words, good = reviews(run.rng)
    cut = 1100
    truth = good[:cut]
    if case == "labels_of_the_next_row":
        truth = np.roll(truth, 1)
    ids = keras.Input((24,), dtype="int32")
    start = "zeros" if case == "embedding_frozen_and_zero" else "uniform"
    embed = layers.Embedding(300, 24, embeddings_initializer=start)
    embed.trainable = case != "embedding_frozen_and_zero"
    if case == "ids_as_numbers":
        h = layers.Dense(32, "relu")(ops.cast(ids, "float32"))
    elif case == "tfidf_like":
        h = layers.CategoryEncoding(300, output_mode="multi_hot")(ids)
        h = layers.Dense(32, "relu")(h)
    else:
        h = embed(ids)
        if case == "convolved":
            h = layers.Conv1D(32, 3, activation="relu")(h)
            h = layers.GlobalMaxPooling1D()(h)
        elif case == "recurrent":
            h = layers.GRU(24)(h)
        elif case == "attended":
            h = layers.LayerNormalization()(h + layers.MultiHeadAttention(2, 12)(h, h))
            h = layers.GlobalAveragePooling1D()(h)
        else:
            h = layers.GlobalAveragePooling1D()(h)
        h = layers.Dense(32, "relu")(h)
    h = layers.Dropout(0.99 if case == "everything_dropped" else 0.2)(h)
    last = {"one_unit_with_softmax": "softmax", "logits_taken_for_probabilities": None}
    model = keras.Model(ids, layers.Dense(1, last.get(case, "sigmoid"))(h))
    optimizer = keras.optimizers.Adam(5e-3)
    more = list(run.callbacks())
    if case == "sgd_rate_of_500":
        optimizer = keras.optimizers.SGD(500.0)
    elif case == "rate_halved_each_batch":
        rate = keras.optimizers.schedules.ExponentialDecay(5e-3, 1, 0.5)
        optimizer = keras.optimizers.Adam(rate)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    model.fit(words[:cut], truth, batch_size=32, epochs=5, verbose=0, callbacks=more)
    said = model.predict(words[cut:], verbose=0)
    return accuracy(good[cut:].astype(int), said if last.get(case, 1) is None else said - 0.5)
