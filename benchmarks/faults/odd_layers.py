"""Layers and losses that people write, most of them with a flaw."""

from __future__ import annotations

import keras
from keras import ops

import gradwatch


class Function(keras.layers.Layer):
    """A function of the values, without weights."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, x):
        return self.function(x)


class Places(keras.layers.Layer):
    """Adds what is learned of each place in a sequence."""

    def build(self, shape):
        self.places = self.add_weight(shape=shape[1:], name="places")

    def call(self, x):
        return x + self.places


class Mixture(keras.layers.Layer):
    """Gives each sample to the expert with the highest score; an expert has a single unit.

    `preference` is added to the first expert's score, and `balance` is the weight of the loss that
    spreads the samples.
    """

    def __init__(self, experts, preference, balance, **options):
        super().__init__(**options)
        self.experts, self.preference, self.balance = experts, preference, balance

    def build(self, shape):
        width = shape[-1]
        self.route = self.add_weight(shape=(width, self.experts), name="route")
        self.enter = self.add_weight(shape=(width, self.experts), name="enter")
        self.leave = self.add_weight(shape=(self.experts, width), name="leave")

    def call(self, x):
        first = ops.one_hot(0, self.experts)
        scores = gradwatch.router(ops.matmul(x, self.route) + self.preference * first, "router")
        weights = ops.softmax(scores)
        chosen = ops.one_hot(ops.argmax(scores, -1), self.experts)
        share = ops.mean(ops.stop_gradient(chosen), 0)
        self.add_loss(self.balance * self.experts * ops.sum(share * ops.mean(weights, 0)))
        return ops.matmul(chosen * weights * ops.matmul(x, self.enter), self.leave)


def _scaled_gradient(factor):
    # Forward the identity; backward only `factor` of it passes.
    return lambda x: factor * x + ops.stop_gradient((1 - factor) * x)


def _own_norm(x):
    # The gradient of the root at 0 is infinite; the sum outside of it does not help.
    return x / (ops.sqrt(ops.sum(x * x, -1, keepdims=True)) + 1e-6)


def _masked(function):
    # What is masked out is 0 before the function: its slope there, infinite, times 0 is NaN.
    def masked(x):
        mask = ops.cast(x > 0.2, x.dtype)
        return ops.where(mask > 0, function(x * mask), 0.0)

    return masked


def _distance_to_first(x):
    # The first sample's distance to itself is 0, where the root has no slope.
    return x + ops.sqrt(ops.sum((x - x[:1]) ** 2, -1, keepdims=True))


FUNCTIONS = {
    "log": ops.log,
    "exp": lambda x: ops.exp(40.0 * x),
    "masked_sqrt": _masked(ops.sqrt),
    "masked_log": _masked(ops.log),
    "masked_power": _masked(lambda x: ops.power(x, 0.3)),
    "distance_to_first": _distance_to_first,
    "sqrt_of_negative": lambda x: ops.sqrt(x - 0.5),
    "reciprocal": lambda x: 1.0 / x,
    "standardise": lambda x: (x - ops.mean(x, 0)) / ops.std(x, 0),
    "own_norm": _own_norm,
    "stop_gradient": ops.stop_gradient,
    "round": ops.round,
    "sign": ops.sign,
    "hard_step": lambda x: ops.cast(x > 0, x.dtype),
    "gradient_1e-6": _scaled_gradient(1e-6),
    "gradient_1e-7": _scaled_gradient(1e-7),
    "gradient_300": _scaled_gradient(300.0),
    "times_0": lambda x: x * 0.0,
}


def function(name, place):
    """The layer of that function after the layer of number `place`."""
    return Function(FUNCTIONS[name], name=f"odd_{place}")


def _own_crossentropy(y, p):
    rows = ops.one_hot(ops.cast(ops.reshape(y, (-1,)), "int32"), p.shape[-1])
    return -ops.sum(rows * ops.log(p), -1)


LOSSES = {
    "negative_mse": lambda y, p: -ops.mean((y - p) ** 2, -1),
    "likelihood": lambda y, p: ops.mean(
        y * ops.log(p + 1e-7) + (1 - y) * ops.log(1 - p + 1e-7), -1
    ),
    "negative_crossentropy": lambda y, p: -keras.losses.sparse_categorical_crossentropy(y, p),
    "mean_error": lambda y, p: ops.mean(y - p, -1),
    "own_crossentropy": _own_crossentropy,
    "own_rmse": lambda y, p: ops.sqrt(ops.mean((y - p) ** 2, -1)),
    "relative_error": lambda y, p: ops.mean(ops.abs(y - p) / y, -1),
    "mse_times_0": lambda y, p: 0.0 * ops.mean((y - p) ** 2, -1),
    "mse_times_1e-6": lambda y, p: 1e-6 * ops.mean((y - p) ** 2, -1),
    "mse_times_1e-7": lambda y, p: 1e-7 * ops.mean((y - p) ** 2, -1),
    "crossentropy_times_1e-6": (
        lambda y, p: 1e-6 * keras.losses.sparse_categorical_crossentropy(y, p)
    ),
    "rounded_mse": lambda y, p: ops.mean((y - ops.round(p)) ** 2, -1),
    "quantile": lambda y, p: ops.mean(ops.maximum(0.8 * (y - p), -0.2 * (y - p)), -1),
    "gaussian_likelihood": lambda y, p: ops.mean((y - p) ** 2 / 0.02 - 2.0, -1),
}
