"""Networks by name: functions of the data and of options, that return a Keras model.

Layers are named by their place, `dense_1`, `dense_2`, ..., `output`, so that labels can name them.
"""

from __future__ import annotations

import keras
from keras import layers, ops

from . import odd_layers


def initializer(spec):
    """An initializer, from its name or from a kind and a number."""
    if not isinstance(spec, tuple):
        return spec
    kind, number = spec
    if kind == "constant":
        return keras.initializers.Constant(number)
    if kind == "orthogonal":
        return keras.initializers.Orthogonal(gain=number)
    return keras.initializers.RandomNormal(stddev=number)


def _options(common, at):
    """The options of a layer: those of all, and those of its own."""
    merged = {**common, **at}
    for name in tuple(merged):
        if name.endswith("_initializer"):
            merged[name] = initializer(merged[name])
        elif name == "kernel_regularizer":
            kind, strength = merged[name]
            merged[name] = getattr(keras.regularizers, kind)(strength)
        elif name == "kernel_constraint":
            merged[name] = keras.constraints.MaxNorm(merged[name])
    return merged


def _batch_norm(name):
    # Of so few steps the usual moving averages would still be near their start.
    return layers.BatchNormalization(momentum=0.9, name=name)


def _between(place, after, norm, dropout):
    """What follows the layer of that place."""
    norms = {
        "batch": _batch_norm,
        "layer": layers.LayerNormalization,
        "group": lambda **o: layers.GroupNormalization(4, **o),
    }
    if norm:
        yield norms[norm](name=f"norm_{place}")
    for name in after.get(place, ()):
        yield odd_layers.function(name, place)
    if dropout:
        kind = layers.AlphaDropout if dropout < 0 else layers.Dropout
        yield kind(abs(dropout), name=f"dropout_{place}")


def _output(units, last, head, before_last=()):
    yield from before_last
    yield layers.Dense(units, activation=last, name="output", **_options({}, head))


def mlp(
    shape, units, last, widths=(32, 32), activation="relu", at=None, after=None, norm=None,
    dropout=0.0, head=None, first=(), frozen=(), **common,
):  # fmt: skip
    """Dense layers; `at` has options of the layer of a place, `after` functions behind it."""
    parts = [keras.Input(shape), *(make() for make in (_FIRST[name] for name in first))]
    if len(shape) > 1:
        parts.append(layers.Flatten(name="flatten"))
    for place, width in enumerate(widths, 1):
        options = _options({"activation": activation, **common}, (at or {}).get(place, {}))
        parts.append(layers.Dense(width, name=f"dense_{place}", **options))
        parts += _between(place, after or {}, norm, dropout)
    model = keras.Sequential([*parts, *_output(units, last, head or {})], name="net")
    return _freeze(model, frozen)


def cnn(
    shape, units, last, filters=(8, 16), activation="relu", at=None, after=None, norm=None,
    dropout=0.0, head=None, pool=(2,), layer="conv", ending="flatten", first=(), frozen=(),
    **common,
):  # fmt: skip
    """Convolutions, pooled behind the places in `pool`."""
    made = {
        "conv": lambda width, **o: layers.Conv2D(width, 3, padding="same", **o),
        "separable": lambda width, **o: layers.SeparableConv2D(width, 3, padding="same", **o),
    }[layer]
    parts = [keras.Input(shape), *(make() for make in (_FIRST[name] for name in first))]
    for place, width in enumerate(filters, 1):
        options = _options({"activation": activation, **common}, (at or {}).get(place, {}))
        parts.append(made(width, name=f"conv_{place}", **options))
        parts += _between(place, after or {}, norm, dropout)
        if place in pool:
            parts.append(layers.MaxPooling2D(name=f"pool_{place}"))
    joined = layers.Flatten if ending == "flatten" else layers.GlobalAveragePooling2D
    parts.append(joined(name="join"))
    model = keras.Sequential([*parts, *_output(units, last, head or {})], name="net")
    return _freeze(model, frozen)


def residual(
    shape, units, last, blocks=4, width=24, activation="relu", norm=None, zero_last=False,
    scale=1.0, convolution=False, at=None, head=None,
):  # fmt: skip
    """A stem and blocks of two layers with a way around them."""

    def layer(name, options, place=0):
        chosen = _options(options, (at or {}).get(place, {}))
        if convolution:
            return layers.Conv2D(width, 3, padding="same", name=name, **chosen)
        return layers.Dense(width, name=name, **chosen)

    x = inputs = keras.Input(shape)
    x = layer("stem", {"activation": activation})(x)
    for place in range(1, blocks + 1):
        y = layer(f"block_{place}_a", {"activation": activation}, place)(x)
        if norm:
            y = _batch_norm(name=f"block_{place}_norm")(y)
        y = layer(f"block_{place}_b", {"kernel_initializer": "zeros"} if zero_last else {})(y)
        if scale != 1.0:
            y = layers.Rescaling(scale, name=f"block_{place}_scale")(y)
        x = layers.Add(name=f"block_{place}_add")([x, y])
    if convolution:
        x = layers.GlobalAveragePooling2D(name="join")(x)
    x = layers.Dense(units, activation=last, name="output", **_options({}, head or {}))(x)
    return keras.Model(inputs, x, name="net")


def recurrent(
    shape, units, last, cell="lstm", widths=(12,), bidirectional=False, after=None, head=None,
    dropout=0.0, **options,
):  # fmt: skip
    """Recurrent layers, one above the other."""
    kinds = {"lstm": layers.LSTM, "gru": layers.GRU, "simple": layers.SimpleRNN}
    parts = [keras.Input(shape)]
    for place, width in enumerate(widths, 1):
        whole = place < len(widths)
        made = kinds[cell](
            width, return_sequences=whole, name=f"rnn_{place}", **_options(options, {})
        )
        parts.append(layers.Bidirectional(made, name=f"both_{place}") if bidirectional else made)
        parts += _between(place, after or {}, None, dropout)
    return keras.Sequential([*parts, *_output(units, last, head or {})], name="net")


def convolution_in_time(shape, units, last, filters=(16, 16)):
    """One-dimensional convolutions over a sequence."""
    parts = [keras.Input(shape)]
    for place, width in enumerate(filters, 1):
        parts.append(layers.Conv1D(width, 3, activation="relu", name=f"conv_{place}"))
    parts.append(layers.GlobalMaxPooling1D(name="join"))
    return keras.Sequential([*parts, *_output(units, last, {})], name="net")


def words(
    shape, units, last, width=12, vocabulary=60, hidden=(16,), recurrent_width=0, after=None,
    embedding=None, at=None, activation="relu",
):  # fmt: skip
    """An embedding, pooled or read in order, and dense layers."""
    given = _options(embedding or {}, {})
    parts = [keras.Input(shape, dtype="int64")]
    parts.append(layers.Embedding(vocabulary, width, name="embedding", **given))
    parts += [odd_layers.function(name, 0) for name in (after or {}).get(0, ())]
    if recurrent_width:
        parts.append(layers.GRU(recurrent_width, name="rnn_1"))
    else:
        parts.append(layers.GlobalAveragePooling1D(name="join"))
    for place, units_here in enumerate(hidden, 1):
        options = _options({"activation": activation}, (at or {}).get(place, {}))
        parts.append(layers.Dense(units_here, name=f"dense_{place}", **options))
        parts += _between(place, after or {}, None, 0.0)
    return keras.Sequential([*parts, *_output(units, last, {})], name="net")


def transformer(shape, units, last, width=16, blocks=1, vocabulary=60):
    """Attention and dense layers with ways around them, over embedded tokens."""
    inputs = keras.Input(shape, dtype="int64")
    x = layers.Embedding(vocabulary, width, name="embedding")(inputs)
    x = odd_layers.Places(name="places")(x)
    for place in range(1, blocks + 1):
        y = layers.LayerNormalization(name=f"norm_{place}_a")(x)
        y = layers.MultiHeadAttention(2, width // 2, name=f"attention_{place}")(y, y)
        x = layers.Add(name=f"add_{place}_a")([x, y])
        y = layers.LayerNormalization(name=f"norm_{place}_b")(x)
        y = layers.Dense(2 * width, activation="gelu", name=f"up_{place}")(y)
        y = layers.Dense(width, name=f"down_{place}")(y)
        x = layers.Add(name=f"add_{place}_b")([x, y])
    x = layers.GlobalAveragePooling1D(name="join")(x)
    return keras.Model(inputs, layers.Dense(units, activation=last, name="output")(x), name="net")


def reader(shape, units, last, width=16, heads=2, sharp=0.0):
    """Attention of the first token to all.

    If `sharp`, keys are made as queries are, so many times as large as usual: each token attends to
    itself.
    """
    inputs = keras.Input(shape, dtype="int64")
    x = layers.Embedding(9, width, embeddings_initializer="glorot_uniform", name="embedding")(
        inputs
    )
    attention = layers.MultiHeadAttention(heads, width // heads, name="attention")
    x = odd_layers.Function(lambda x: x[:, 0], name="first")(attention(x, x))
    model = keras.Model(inputs, layers.Dense(units, activation=last, name="output")(x), name="net")
    if sharp:
        attention.query_dense.kernel.assign(sharp * attention.query_dense.kernel)
        attention.key_dense.kernel.assign(attention.query_dense.kernel)
    return model


def mixture(shape, units, last, experts=6, preference=0.0, balance=0.1):
    """Samples go to one of several narrow experts."""
    x = inputs = keras.Input(shape)
    x = odd_layers.Mixture(experts, preference, balance, name="mixture")(x)
    return keras.Model(inputs, layers.Dense(units, activation=last, name="output")(x), name="net")


def two_towers(shape, units, last, width=24, shared=True):
    """One layer used twice, on the inputs and on the inputs reversed."""
    inputs = keras.Input(shape)
    tower = layers.Dense(width, activation="relu", name="tower")
    other = tower if shared else layers.Dense(width, activation="relu", name="other")
    x = layers.Concatenate(name="both")([tower(inputs), other(ops.flip(inputs, axis=-1))])
    x = layers.Dense(units, activation=last, name="output")(x)
    return keras.Model(inputs, x, name="net")


def variational(shape, units, last, width=32, code=4):
    """A variational autoencoder: it samples, and adds a loss of its own."""

    class Sample(layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.seed = keras.random.SeedGenerator(1)

        def call(self, moments):
            mean, log_variance = moments
            divergence = ops.exp(log_variance) + mean**2 - 1.0 - log_variance
            self.add_loss(1e-3 * ops.mean(ops.sum(divergence, -1)))
            noise = keras.random.normal(ops.shape(mean), seed=self.seed)
            return mean + ops.exp(0.5 * log_variance) * noise

    inputs = keras.Input(shape)
    x = layers.Dense(width, activation="relu", name="dense_1")(inputs)
    mean = layers.Dense(code, name="mean")(x)
    spread = layers.Dense(code, kernel_initializer="zeros", name="log_variance")(x)
    x = Sample(name="sample")([mean, spread])
    x = layers.Dense(width, activation="relu", name="dense_2")(x)
    x = layers.Dense(units, activation=last, name="output")(x)
    return keras.Model(inputs, x, name="net")


def _freeze(model, names):
    for name in names:
        model.get_layer(name).trainable = False
    return model


_FIRST = {
    "rescaling": lambda: layers.Rescaling(1 / 255.0, name="rescaling"),
    "noise": lambda: layers.GaussianNoise(0.3, name="noise"),
    "norm": lambda: _batch_norm(name="norm_0"),
}

NETWORKS = {
    "mlp": mlp,
    "cnn": cnn,
    "residual": residual,
    "recurrent": recurrent,
    "convolution_in_time": convolution_in_time,
    "words": words,
    "transformer": transformer,
    "reader": reader,
    "mixture": mixture,
    "two_towers": two_towers,
    "variational": variational,
}
