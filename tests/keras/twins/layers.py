"""Random networks, as the source text of the lines that build them with Keras's functional API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

ACTIVATIONS = (
    "linear", "relu", "sigmoid", "tanh", "softmax", "elu", "gelu", "selu", "silu", "softplus",
    "hard_sigmoid", "relu6", "leaky_relu", "exponential", "mish",
)  # fmt: skip
VECTOR, SEQUENCE, IMAGE = "vector", "sequence", "image"


@dataclass
class Lines:
    """The lines so far, of which the last one's `t` is a tensor of a form and some features."""

    form: str
    features: int
    lines: list[str] = field(default_factory=list)
    has_mask: bool = False

    def add(self, line: str, features: int | None = None, form: str | None = None) -> None:
        self.lines.append(line)
        self.features = self.features if features is None else features
        self.form = form or self.form


def activation(draw: Any) -> str:
    return repr(draw(st.sampled_from(ACTIVATIONS)))


def dense(draw: Any, units: int) -> str:
    """A dense layer, perhaps with what hangs on one."""
    more = draw(
        st.sampled_from(
            [
                "",
                "",
                "",
                ", kernel_regularizer='l2'",
                ", bias_regularizer=keras.regularizers.L1L2(1e-3, 1e-3)",
                ", activity_regularizer='l2'",
                ", kernel_constraint='max_norm'",
                ", kernel_initializer='zeros'",
                ", use_bias=False",
                ", trainable=False",
                ", kernel_initializer='he_normal'",
                ", kernel_regularizer='orthogonal_regularizer'",
            ]
        )
    )
    return f"L.Dense({units}, {activation(draw)}{more})"


def network(draw: Any, lines: Lines, most: int) -> None:
    """Some layers, from whatever form to a vector."""
    for _ in range(draw(st.integers(0, most))):
        {VECTOR: _on_vector, SEQUENCE: _on_sequence, IMAGE: _on_image}[lines.form](draw, lines)
    if lines.form == SEQUENCE:
        pooled = ["L.GlobalAveragePooling1D()", "L.GlobalMaxPooling1D()", "L.LSTM(4)"]
        how = draw(st.sampled_from(pooled))
        lines.add(f"t = {how}(t)", 4 if "LSTM" in how else None, VECTOR)
    elif lines.form == IMAGE:
        pooled = ["L.GlobalAveragePooling2D()", "L.GlobalMaxPooling2D()"]
        lines.add(f"t = {draw(st.sampled_from(pooled))}(t)", form=VECTOR)


def _on_vector(draw: Any, lines: Lines) -> None:
    units, same = draw(st.integers(1, 6)), lines.features
    plain: list[tuple[str, int]] = [
        (f"t = {dense(draw, units)}(t)", units),
        ("t = L.BatchNormalization()(t)", same),
        ("t = L.LayerNormalization()(t)", same),
        ("t = L.RMSNormalization()(t)", same),
        ("t = L.UnitNormalization()(t)", same),
        (f"t = L.Activation({activation(draw)})(t)", same),
        ("t = L.Dropout(0.4)(t)", same),
        ("t = L.Dropout(0.0)(t)", same),
        ("t = L.GaussianNoise(0.3)(t)", same),
        ("t = L.AlphaDropout(0.3)(t)", same),
        ("t = L.PReLU()(t)", same),
        ("t = L.Softmax()(t)", same),
        ("t = L.Identity()(t)", same),
        ("t = L.ActivityRegularization(1e-2, 1e-2)(t)", same),
        ("t = L.Lambda(lambda x: keras.ops.square(x) - x)(t)", same),
        ("t = L.Lambda(lambda x: keras.ops.softmax(x))(t)", same),
        ("t = keras.ops.sigmoid(t)", same),
        (f"t = L.Add()([t, {dense(draw, same)}(t)])", same),
        (f"u = {dense(draw, same)}(t); t = L.Multiply()([u, t, u])", same),
        (
            f"u = L.Activation('linear')(t); t = L.Average()([t, u, {dense(draw, same)}(u), t])",
            same,
        ),
        (f"t = L.Concatenate()([t, {dense(draw, units)}(t)])", same + units),
        (f"s = L.Dense({same}, {activation(draw)}); t = s(s(t))", same),
        (f"t = keras.Sequential([{dense(draw, units)}, L.BatchNormalization()])(t)", units),
        (
            f"i = keras.Input(({same},)); o = {dense(draw, units)}(i); "
            f"n = keras.Model(i, [o, L.Dense({units})(o)]); a, b = n(t); t = L.Subtract()([a, b])",
            units,
        ),
        (f"t = L.SpectralNormalization(L.Dense({units}))(t)", units),
        (
            f"with keras.RematScope(mode='full'): s = L.Dense({units}, {activation(draw)})\n"
            "    t = s(t)",
            units,
        ),
        (f"t = Gate({units})(t)", units),
        ("t = Probabilities()(t)", same),
    ]
    line, features = draw(st.sampled_from(plain))
    lines.add(line, features)
    if draw(st.integers(0, 9)) == 0 and lines.features > 1:
        lines.add(f"t = L.Reshape(({lines.features}, 1))(t)", 1, SEQUENCE)


def _on_sequence(draw: Any, lines: Lines) -> None:
    units, same = draw(st.integers(1, 5)), lines.features
    recurrent = draw(st.sampled_from(["LSTM", "GRU", "SimpleRNN"]))
    options = draw(
        st.sampled_from(["", ", dropout=0.3", ", recurrent_dropout=0.3", ", unroll=True"])
    )
    if lines.has_mask and "unroll" in options:
        options = ""
    plain: list[tuple[str, int, str]] = [
        (f"t = L.{recurrent}({units}, return_sequences=True{options})(t)", units, SEQUENCE),
        (f"t = L.{recurrent}({units}{options})(t)", units, VECTOR),
        (f"t = L.Bidirectional(L.{recurrent}({units}))(t)", 2 * units, VECTOR),
        ("t = L.Masking(0.0)(t)", same, SEQUENCE),
        (f"t = L.TimeDistributed({dense(draw, units)})(t)", units, SEQUENCE),
        (f"t = L.Dense({units}, {activation(draw)})(t)", units, SEQUENCE),
        (
            f"t = L.Conv1D({units}, 2, padding='same', activation={activation(draw)})(t)",
            units,
            SEQUENCE,
        ),
        ("t = L.LayerNormalization()(t)", same, SEQUENCE),
        ("t = L.BatchNormalization()(t)", same, SEQUENCE),
        ("t = L.SpatialDropout1D(0.3)(t)", same, SEQUENCE),
        ("t = L.MultiHeadAttention(2, 3, dropout=0.2)(t, t)", same, SEQUENCE),
        (
            "t = L.Add()([t, L.MultiHeadAttention(1, 2)(t, t, use_causal_mask=True)])",
            same,
            SEQUENCE,
        ),
        ("t = L.Attention()([t, t])", same, SEQUENCE),
        (f"t = L.EinsumDense('abc,cd->abd', output_shape=(None, {units}))(t)", units, SEQUENCE),
        (
            f"u, h, c = L.LSTM({units}, return_sequences=True, return_state=True)(t); "
            f"t = L.GRU({units})(u, initial_state=h)",
            units,
            VECTOR,
        ),
    ]
    line, features, form = draw(st.sampled_from(plain))
    lines.has_mask |= "Masking" in line
    lines.add(line, features, form)


def _on_image(draw: Any, lines: Lines) -> None:
    units, same = draw(st.integers(1, 4)), lines.features
    act = activation(draw)
    plain: list[tuple[str, int]] = [
        (f"t = L.Conv2D({units}, 3, padding='same', activation={act})(t)", units),
        (f"t = L.Conv2D({units}, 3, padding='same', use_bias=False)(t)", units),
        (f"t = L.Conv2D({units}, 2, strides=1)(t); t = L.ReLU()(t)", units),
        (f"t = L.DepthwiseConv2D(3, padding='same', activation={act})(t)", same),
        (f"t = L.SeparableConv2D({units}, 3, padding='same')(t)", units),
        (f"t = L.Conv2DTranspose({units}, 2, padding='same', activation={act})(t)", units),
        ("t = L.BatchNormalization()(t)", same),
        ("t = L.BatchNormalization()(t); t = L.ReLU()(t)", same),
        ("t = L.GroupNormalization(1)(t)", same),
        ("t = L.SpatialDropout2D(0.3)(t)", same),
        ("t = L.MaxPooling2D(2, padding='same')(t)", same),
        ("t = L.AveragePooling2D(2, padding='same')(t)", same),
        ("t = L.UpSampling2D(2)(t)", same),
        ("t = L.ZeroPadding2D(1)(t)", same),
        (f"t = L.Activation({act})(t)", same),
        (
            f"u = L.Conv2D({same}, 3, padding='same')(t); u = L.BatchNormalization()(u); "
            f"u = L.ReLU()(u); u = L.Conv2D({same}, 3, padding='same')(u); "
            "t = L.ReLU()(L.Add()([t, L.BatchNormalization()(u)]))",
            same,
        ),
    ]
    line, features = draw(st.sampled_from(plain))
    lines.add(line, features)
