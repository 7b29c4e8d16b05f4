"""A transformer of any size, in Keras, for benchmarks on a CPU."""

import keras


def transformer(length, vocabulary, width, depth, heads):
    """Compiled with Adam; run eagerly, as torch does by default."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((length,), dtype="int32")
    x = keras.layers.Embedding(vocabulary, width)(tokens)
    for _ in range(depth):
        h = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(heads, width // heads)(h, h, use_causal_mask=True)
        h = keras.layers.LayerNormalization()(x)
        h = keras.layers.Dense(4 * width, activation="gelu")(h)
        x = x + keras.layers.Dense(width)(h)
    model = keras.Model(tokens, keras.layers.Dense(vocabulary)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=True)
    return model
