"""Words as integers, as `TextVectorization` gives them: 0 is a pad, 1 an unknown word."""

from __future__ import annotations

import numpy as np

from ...data import accuracy
from ...program import fault, program
from ...run import Run


@program(
    mean_of_words=0.4,
    masked_gru=0.4,
    convolution=0.4,
    transformer=0.4,
    fixed_vectors=0.3,
    both_directions=0.4,
    all_words_unknown=fault("information missing"),
    ends_in_pads=fault("information missing", twin="masked_gru"),
    embedding_at_1e6=fault("saturated", layer=("gru", "words"), twin="masked_gru"),
    learning_rate_1e_8=fault("rate too low"),
)
def reviews(run: Run, case: str) -> float:
    """Good or bad: good and bad words, turned round by the word before them."""
    import keras
    from keras import layers

    rng = run.rng
    n, length, size = 1500, 40 if case == "ends_in_pads" else 24, 120
    ids = rng.integers(6, size, (n, length))
    mood = np.zeros(n)
    for _ in range(4):
        at, good = rng.integers(1, 12, n), rng.integers(0, 2, n)
        ids[np.arange(n), at] = np.where(good, rng.integers(4, 6, n), rng.integers(2, 4, n))
    for k in range(12):
        mood += (np.isin(ids[:, k], (4, 5)) * 1.0) - np.isin(ids[:, k], (2, 3))
    y = (mood + 0.1 * rng.normal(size=n) > 0).astype("float32")
    words = rng.integers(12, 25, n)
    ids[np.arange(length) >= words[:, None]] = 0
    if case == "all_words_unknown":
        ids = np.where(ids > 0, 1, 0)
    inputs = keras.Input((length,), dtype="int32")
    recurrent = case in ("masked_gru", "embedding_at_1e6", "both_directions")
    start = "uniform"
    if case == "embedding_at_1e6":
        start = keras.initializers.RandomNormal(stddev=1e6)
    table = layers.Embedding(size, 24, mask_zero=recurrent, embeddings_initializer=start,
                             name="words")  # fmt: skip
    if case == "fixed_vectors":
        table.embeddings_initializer = keras.initializers.RandomNormal(stddev=0.7)
        table.trainable = False
    h = table(inputs)
    if case == "convolution":
        h = layers.Conv1D(32, 3, padding="same", activation="relu")(h)
        h = layers.GlobalMaxPooling1D()(h)
    elif case == "transformer":
        more = layers.MultiHeadAttention(2, 12)(h, h)
        h = layers.LayerNormalization()(h + more)
        h = layers.GlobalAveragePooling1D()(h)
    elif case in ("masked_gru", "embedding_at_1e6", "ends_in_pads"):
        h = layers.GRU(24, name="gru")(h)
    elif case == "both_directions":
        h = layers.Bidirectional(layers.LSTM(12))(h)
    else:
        h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dense(16, "relu")(h)
    h = layers.Dropout(0.3)(h)
    model = keras.Model(inputs, layers.Dense(1, "sigmoid")(h))
    rate = 1e-8 if case == "learning_rate_1e_8" else 1e-2
    model.compile(optimizer=keras.optimizers.Adam(rate), loss="binary_crossentropy",
                  metrics=["accuracy"])  # fmt: skip
    epochs = 4 if recurrent or case == "ends_in_pads" else 8
    epochs = 3 if case == "both_directions" else epochs
    model.fit(ids[300:], y[300:], batch_size=40, epochs=epochs, verbose=0,
              validation_split=0.1, callbacks=run.callbacks())  # fmt: skip
    return accuracy(y[:300], model.predict(ids[:300], verbose=0) - 0.5)
