"""Sentences: the subject of a message, and the next letter."""

from __future__ import annotations

import numpy as np

from ...data import accuracy
from ...program import fault, program
from ...run import Run


def _messages(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Words in [1, 200), 0 behind the end; four subjects have words of their own."""
    y = rng.integers(0, 4, n)
    words = rng.integers(1, 200, (n, 20))
    own = 1 + 25 * y[:, None] + rng.integers(0, 25, (n, 20))
    words = np.where(rng.random((n, 20)) < 0.18, own, words)
    is_word = np.arange(20) < rng.integers(8, 21, n)[:, None]
    return words * is_word, y


@program(
    averaged=0.4,
    convolution=0.4,
    both_ways=0.4,
    attention=0.4,
    one_hot_labels=0.4,
    bag_of_words=0.4,
    binary_loss_of_four=fault("targets out of range"),
    numbers_of_words_as_numbers=fault("ids as numbers"),
    embedding_frozen_at_zero=fault("constant inputs"),
    labels_of_another_file=fault("inputs and targets out of order"),
    schedule_by_epoch_exponent=fault("rate decays to nothing", 26),
    one_step_per_epoch=fault("rate too low"),
    recurrent_of_large_start=fault("saturated"),
    last_of_padded=fault("memory too short"),
)
def messages(run: Run, case: str) -> float:
    """What a message is about."""
    import keras
    from keras import layers

    words, y = _messages(run.rng, 2000)
    cut = 1600
    if case == "last_of_padded":
        # Padded to a hundred, and the last state is asked for.
        words = np.pad(words, ((0, 0), (0, 80)))
    inputs = keras.Input((words.shape[1],), dtype="int32")
    if case == "numbers_of_words_as_numbers":
        h = layers.Dense(32, "relu")(layers.Rescaling(1.0)(inputs))
    elif case == "bag_of_words":
        encode = layers.CategoryEncoding(200, output_mode="count")
        h = layers.Dense(32, "relu")(encode(inputs))
    else:
        is_zero = case == "embedding_frozen_at_zero"
        embedding = layers.Embedding(
            200, 24, mask_zero=case in ("both_ways", "averaged"), trainable=not is_zero,
            embeddings_initializer="zeros" if is_zero else "uniform",
        )  # fmt: skip
        h = embedding(inputs)
        if case == "convolution":
            h = layers.GlobalMaxPooling1D()(layers.Conv1D(48, 3, activation="relu")(h))
        elif case == "both_ways":
            h = layers.Bidirectional(layers.LSTM(16))(h)
        elif case == "attention":
            h = layers.LayerNormalization()(h + layers.MultiHeadAttention(2, 12)(h, h))
            h = layers.GlobalMaxPooling1D()(h)
        elif case == "recurrent_of_large_start":
            large = keras.initializers.RandomNormal(stddev=30.0)
            h = layers.SimpleRNN(32, kernel_initializer=large, recurrent_initializer=large)(h)
        elif case == "last_of_padded":
            h = layers.SimpleRNN(32)(h)
        else:
            h = layers.GlobalAveragePooling1D()(h)
        h = layers.Dense(32, "relu")(h)
    out = layers.Dense(4, "softmax")(h)
    model = keras.Model(inputs, out)
    rate, callbacks, options = 1e-2, list(run.callbacks()), {"epochs": 8, "batch_size": 64}
    if case == "one_step_per_epoch":
        rate, options = 1e-4, {"epochs": 60, "batch_size": cut}
    elif case == "schedule_by_epoch_exponent":
        rate = 3e-4
        falls = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 3e-4 * 0.001**epoch)
        callbacks.append(falls)
    loss, labels = "sparse_categorical_crossentropy", y[:cut]
    if case == "one_hot_labels":
        loss, labels = "categorical_crossentropy", np.eye(4, dtype="float32")[labels]
    elif case == "binary_loss_of_four":
        # One unit for four classes.
        model = keras.Model(inputs, layers.Dense(1, "sigmoid")(h))
        loss, labels = "binary_crossentropy", labels.astype("float32")
    elif case == "labels_of_another_file":
        labels = _messages(run.rng, cut)[1]
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    model.fit(words[:cut].astype("int32"), labels, verbose=0, callbacks=callbacks, **options)
    said = model.predict(words[cut:].astype("int32"), verbose=0)
    if case == "binary_loss_of_four":
        said = -np.abs(said * 3 - np.arange(4))
    return accuracy(y[cut:], said)


@program(
    stacked=0.3,
    one_hot=0.3,
    causal_convolutions=0.3,
    clip_and_decay=0.3,
    target_is_the_input=fault("target leaks"),
    rate_of_ten=fault("rate too high"),
    norm_of_ten_millionths=fault("clipped to nothing"),
    next_line_instead_of_next_letter=fault("inputs and targets out of order"),
)
def letters(run: Run, case: str) -> float:
    """The next letter of a language with rules of its own."""
    import keras
    from keras import layers

    rng, kinds, length = run.rng, 16, 15
    rules = np.random.default_rng(77).dirichlet(np.full(kinds, 0.12), (kinds, kinds))
    text = [0, 1]
    for _ in range(16 * 900):
        text.append(int(rng.choice(kinds, p=rules[text[-2], text[-1]])))
    lines = np.array(text[: 16 * 900]).reshape(900, 16)
    x, y, cut = lines[:, :-1], lines[:, 1:], 700
    shown = x[:cut]
    labels = y[:cut]
    if case == "target_is_the_input":
        labels = x[:cut]
    elif case == "next_line_instead_of_next_letter":
        labels = np.roll(y[:cut], 1, axis=0)
    model = keras.Sequential([keras.Input((length,), dtype="int32")])
    if case == "one_hot":
        same = keras.initializers.Identity()
        model.add(layers.Embedding(kinds, kinds, embeddings_initializer=same, trainable=False))
    else:
        model.add(layers.Embedding(kinds, 16))
    if case == "causal_convolutions":
        for hole in (1, 2):
            model.add(layers.Conv1D(48, 2, padding="causal", dilation_rate=hole, activation="relu"))
    elif case == "stacked":
        model.add(layers.GRU(32, return_sequences=True))
        model.add(layers.GRU(32, return_sequences=True))
    else:
        model.add(layers.LSTM(48, return_sequences=True))
    model.add(layers.Dense(kinds))
    optimizer = keras.optimizers.Adam(1e-2)
    if case == "clip_and_decay":
        rate = keras.optimizers.schedules.CosineDecay(2e-2, 132)
        optimizer = keras.optimizers.AdamW(rate, weight_decay=1e-3, clipnorm=1.0)
    elif case == "rate_of_ten":
        optimizer = keras.optimizers.RMSprop(10.0)
    elif case == "norm_of_ten_millionths":
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=1e-6)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(shown, labels, batch_size=64, epochs=12, verbose=0, callbacks=run.callbacks())
    said = model.predict(x[cut:], verbose=0)
    return accuracy(y[cut:].ravel(), said.reshape(-1, kinds))
