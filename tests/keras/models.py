"""Small models of many kinds, each with its data."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

from tests.keras.cases import CASES, SAMPLES, Case, adam, case, compiled, fit_noise, sgd
from tests.keras.support import classes, normal

__all__ = ["CASES"]


@case
def sequential_mlp() -> Case:
    def make() -> Any:
        return keras.Sequential(
            [keras.Input((5,)), layers.Dense(6, "relu"), layers.Dense(4, "tanh"), layers.Dense(1)]
        )

    return Case(compiled(make, optimizer=adam, loss="mse"), normal(SAMPLES, 5), normal(SAMPLES, 1))


@case
def sequential_cnn_with_batch_norm() -> Case:
    def make() -> Any:
        return keras.Sequential(
            [
                keras.Input((6, 6, 2)),
                # Without a bias, whose gradient is exactly 0 before a
                # normalization: what is computed of it is rounding noise.
                layers.Conv2D(3, 3, use_bias=False),
                layers.BatchNormalization(),
                layers.Activation("relu"),
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dense(3),
            ]
        )

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    build = compiled(make, optimizer=sgd(momentum=0.9), loss=loss, metrics=["accuracy"])
    return Case(build, normal(SAMPLES, 6, 6, 2), classes(3, SAMPLES))


@case
def functional_two_inputs_two_outputs() -> Case:
    def make() -> Any:
        size, colour = keras.Input((4,), name="size"), keras.Input((3,), name="colour")
        both = layers.Concatenate()(
            [layers.Dense(5, "relu", name="a")(size), layers.Dense(4, "tanh", name="b")(colour)]
        )
        outputs = {
            "price": layers.Dense(1, name="price")(both),
            "kind": layers.Dense(3, "softmax", name="kind")(both),
        }
        return keras.Model({"size": size, "colour": colour}, outputs)

    build = compiled(
        make,
        optimizer=sgd(),
        loss={"price": "mse", "kind": "sparse_categorical_crossentropy"},
        loss_weights={"price": 0.3, "kind": 2.0},
    )
    return Case(
        build,
        {"size": normal(SAMPLES, 4), "colour": normal(SAMPLES, 3, seed=2)},
        {"price": normal(SAMPLES, 1, seed=3), "kind": classes(3, SAMPLES, 1)},
    )


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__(name="subclassed")
        self.inner = layers.Dense(6, "gelu")
        self.outer = layers.Dense(2)
        self.own = self.add_weight(shape=(2,), initializer="ones", name="own")

    def call(self, x: Any) -> Any:
        return self.outer(self.inner(x)) * self.own


@case
def subclassed_unbuilt_before_fit() -> Case:
    return fit_noise(Subclassed, (4,), targets=2)


class Nest(keras.Model):
    def __init__(self) -> None:
        super().__init__(name="nest")
        x = keras.Input((4,))
        innermost = keras.Model(x, layers.Dense(4, "tanh", name="deep")(x) + x, name="innermost")
        self.middle = keras.Sequential([innermost, layers.Dense(3, "relu")], name="middle")
        self.head = layers.Dense(1, name="head")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.head(self.middle(x, training=training))


@case
def functional_in_sequential_in_subclassed() -> Case:
    return fit_noise(Nest, (4,))


@case
def layer_used_twice() -> Case:
    def make() -> Any:
        x = keras.Input((4,))
        shared = layers.Dense(4, "tanh", name="shared")
        return keras.Model(x, layers.Dense(1)(shared(shared(x))))

    return fit_noise(make, (4,))


@case
def embedding_with_repeated_indices_and_mask() -> Case:
    def make() -> Any:
        return keras.Sequential(
            [
                keras.Input((6,), dtype="int32"),
                layers.Embedding(12, 4, mask_zero=True),
                layers.GlobalAveragePooling1D(),
                layers.Dense(1, "sigmoid"),
            ]
        )

    # Words 9 and above never occur; with 9 words in 48 places, others do repeatedly.
    words = classes(9, SAMPLES, 6)
    words[:, 0] = 3
    build = compiled(make, optimizer=adam, loss="binary_crossentropy")
    return Case(build, words, classes(2, SAMPLES, 1).astype("float32"))


@case
def frozen_layers() -> Case:
    def make() -> Any:
        model = keras.Sequential(
            [
                keras.Input((4,)),
                layers.Dense(6, "relu", name="frozen"),
                layers.BatchNormalization(name="frozen_norm"),
                layers.Dense(5, "relu", name="free"),
                layers.Dense(1, name="head"),
            ]
        )
        model.get_layer("frozen").trainable = False
        model.get_layer("frozen_norm").trainable = False
        return model

    return fit_noise(make, (4,))


class HalfUsed(keras.Model):
    """Calls a layer whose output the loss does not depend on."""

    def __init__(self) -> None:
        super().__init__(name="half_used")
        self.used = layers.Dense(1, name="used")
        self.idle = layers.Dense(3, name="idle")

    def call(self, x: Any) -> Any:
        self.idle(x)
        return self.used(x)


@case
def weight_that_the_loss_does_not_touch() -> Case:
    untouched = frozenset({"half_used/idle/kernel", "half_used/idle/bias"})
    return fit_noise(HalfUsed, (4,), untouched=untouched)


@case
def lstm() -> Case:
    def make() -> Any:
        return keras.Sequential([keras.Input((4, 3)), layers.LSTM(3), layers.Dense(1)])

    return fit_noise(make, (4, 3))


@case
def bidirectional_gru() -> Case:
    def make() -> Any:
        recurrent = layers.Bidirectional(layers.GRU(2))
        return keras.Sequential([keras.Input((3, 3)), recurrent, layers.Dense(1)])

    return fit_noise(make, (3, 3))


@case
def dropout_and_gaussian_noise() -> Case:
    def make() -> Any:
        return keras.Sequential(
            [
                keras.Input((6,)),
                layers.GaussianNoise(0.5),
                layers.Dense(8, "relu"),
                layers.Dropout(0.5),
                layers.Dense(1),
            ]
        )

    return fit_noise(make, (6,), random=True)


@case
def small_transformer() -> Case:
    def make() -> Any:
        x = keras.Input((4, 6))
        # Without biases: that of the keys shifts all of a query's scores alike,
        # so its gradient is exactly 0, and what is computed of it rounding noise.
        attention = layers.MultiHeadAttention(2, 3, use_bias=False, dropout=0.1)
        h = layers.LayerNormalization()(x + attention(x, x))
        h = layers.LayerNormalization()(h + layers.Dense(6)(layers.Dense(8, "gelu")(h)))
        return keras.Model(x, layers.Dense(1)(layers.Flatten()(h)))

    build = compiled(make, optimizer=adam, loss="mse")
    return Case(build, normal(SAMPLES, 4, 6), normal(SAMPLES, 1), random=True)


@case
def regularizers_and_constraints() -> Case:
    def make() -> Any:
        return keras.Sequential(
            [
                keras.Input((5,)),
                layers.Dense(
                    6,
                    "tanh",
                    kernel_regularizer=keras.regularizers.L1L2(0.01, 0.02),
                    bias_regularizer="l2",
                    activity_regularizer=keras.regularizers.L2(0.05),
                ),
                layers.Dense(8, kernel_constraint=keras.constraints.UnitNorm()),
                layers.Dense(
                    1,
                    # Mostly positive: not all of it may be cut off at 0.
                    kernel_initializer=keras.initializers.RandomUniform(-0.1, 0.5),
                    kernel_constraint="non_neg",
                    kernel_regularizer=keras.regularizers.L1(0.01),
                ),
            ]
        )

    return fit_noise(make, (5,))


@case
def separable_and_plain_conv1d() -> Case:
    def make() -> Any:
        return keras.Sequential(
            [
                keras.Input((8, 2)),
                layers.SeparableConv1D(4, 3, activation="relu", padding="same"),
                layers.Conv1D(3, 3, strides=2, activation="tanh"),
                layers.GlobalMaxPooling1D(),
                layers.Dense(1),
            ]
        )

    return fit_noise(make, (8, 2))


class Namesakes(keras.Model):
    """Has two layers of one name."""

    def __init__(self) -> None:
        super().__init__(name="namesakes")
        self.first = layers.Dense(4, "tanh", name="block")
        self.second = layers.Dense(2, name="block")

    def call(self, x: Any) -> Any:
        return self.second(self.first(x))


@case
def two_layers_of_one_name() -> Case:
    return fit_noise(Namesakes, (3,), targets=2)


def _classifier() -> Any:
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(5, "relu"), layers.Dense(3, "softmax")]
    )


@case
def sample_weight() -> Case:
    build = compiled(_classifier, optimizer=sgd(), loss="sparse_categorical_crossentropy")
    weights = np.linspace(0.1, 3.0, SAMPLES).astype("float32")
    return Case(build, normal(SAMPLES, 4), classes(3, SAMPLES), {"sample_weight": weights})


@case
def class_weight() -> Case:
    build = compiled(_classifier, optimizer=sgd(), loss="sparse_categorical_crossentropy")
    weights = {0: 0.5, 1: 3.0, 2: 1.25}
    return Case(build, normal(SAMPLES, 4), classes(3, SAMPLES), {"class_weight": weights})
