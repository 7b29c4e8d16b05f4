"""What is known about losses and activations by their names."""

import math
from enum import Enum

from gradwatch.core import LayerFacts, ModelFacts


class LossKind(Enum):
    """What a loss compares."""

    BINARY = "independent yes/no answers"
    CATEGORICAL = "one of several classes, one-hot targets"
    SPARSE = "one of several classes, integer targets"
    REGRESSION = "values"
    COUNTS = "non-negative values"

    @property
    def takes_probabilities(self) -> bool:
        """Whether it takes probabilities, or logits instead."""
        return self in (LossKind.BINARY, LossKind.CATEGORICAL, LossKind.SPARSE)


_LOSSES = {
    LossKind.BINARY: "binary_crossentropy bce binary_focal_crossentropy",
    LossKind.CATEGORICAL: "categorical_crossentropy categorical_focal_crossentropy",
    LossKind.SPARSE: "sparse_categorical_crossentropy",
    LossKind.REGRESSION: "mean_squared_error mse mean_absolute_error mae huber log_cosh logcosh "
    "mean_absolute_percentage_error mape smooth_l1",
    LossKind.COUNTS: "mean_squared_logarithmic_error msle poisson",
}
_KIND_BY_NAME = {name: kind for kind, names in _LOSSES.items() for name in names.split()}
_NON_NEGATIVE = {*_KIND_BY_NAME, "cross_entropy", "hinge", "squared_hinge", "categorical_hinge"} - {
    "poisson"
}
SQUARED_ERROR = ("mean_squared_error", "mse")

BOUNDS = {
    "sigmoid": (0.0, 1.0),
    "hard_sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "hard_tanh": (-1.0, 1.0),
    "softsign": (-1.0, 1.0),
    "relu": (0.0, math.inf),
    "relu6": (0.0, 6.0),
    "softplus": (0.0, math.inf),
    "exponential": (0.0, math.inf),
}
"""The ranges of the activations that are bounded."""

_ACTIVATION_LAYERS = {
    "Softmax": "softmax", "ReLU": "relu", "ReLU6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh",
}  # fmt: skip
# Layers that do not change values, at most their arrangement.
_SHAPE_ONLY = frozenset({"Reshape", "Flatten", "Permute", "Dropout", "Identity", "Cropping1D"})


def loss_kind(name: str | None) -> LossKind | None:
    """What the loss with this name compares; None if unknown."""
    return _KIND_BY_NAME.get((name or "").lower())


def is_non_negative(facts: ModelFacts) -> bool:
    """Whether the loss is known to be at least 0 for valid targets."""
    given = facts.loss.is_nonnegative
    return facts.loss.name in _NON_NEGATIVE if given is None else given


def last_activation(facts: ModelFacts) -> tuple[LayerFacts | None, str | None]:
    """The layer that computes the values of the model's output, and its activation."""
    if facts.last_layer is None:
        return None, None
    layer = _with_values(facts, facts.layers.index(facts.last_layer))
    return layer, _activation(layer)


def activation_before_last(facts: ModelFacts) -> str | None:
    """The activation whose output the last activation is applied to, if nothing is between."""
    last = last_activation(facts)[0]
    if last is None or last.class_name not in (*_ACTIVATION_LAYERS, "Activation"):
        return None
    place = facts.layers.index(last)
    return _activation(_with_values(facts, place - 1)) if place else None


def _with_values(facts: ModelFacts, place: int) -> LayerFacts:
    """The layer at a place, or the one before it that computes its values."""
    while facts.layers[place].class_name in _SHAPE_ONLY and place > 0:
        place -= 1
    return facts.layers[place]


def _activation(layer: LayerFacts) -> str | None:
    return _ACTIVATION_LAYERS.get(layer.class_name or "") or layer.activation
