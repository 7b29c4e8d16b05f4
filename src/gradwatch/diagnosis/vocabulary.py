"""What losses and activations are by their names."""

from __future__ import annotations

import math
from enum import Enum

from gradwatch.core import LayerFacts, ModelFacts


class LossKind(Enum):
    """What a loss compares."""

    BINARY = "yes or no, each output by itself"
    CATEGORICAL = "one class of several, targets one-hot"
    SPARSE = "one class of several, targets as numbers"
    REGRESSION = "values"
    COUNTS = "values of 0 and more"

    @property
    def is_of_probabilities(self) -> bool:
        """Whether it takes probabilities, or logits in their place."""
        return self in (LossKind.BINARY, LossKind.CATEGORICAL, LossKind.SPARSE)


_LOSSES = {
    LossKind.BINARY: "binary_crossentropy bce binary_focal_crossentropy",
    LossKind.CATEGORICAL: "categorical_crossentropy categorical_focal_crossentropy",
    LossKind.SPARSE: "sparse_categorical_crossentropy",
    LossKind.REGRESSION: "mean_squared_error mse mean_absolute_error mae huber log_cosh logcosh "
    "mean_absolute_percentage_error mape smooth_l1",
    LossKind.COUNTS: "mean_squared_logarithmic_error msle poisson",
}
_KIND_OF = {name: kind for kind, names in _LOSSES.items() for name in names.split()}

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
"""Between which values the outputs of activations lie, of those that do not return all."""

_LIKE_ACTIVATIONS = {
    "Softmax": "softmax", "ReLU": "relu", "ReLU6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh",
}  # fmt: skip
# Layers that only pass on, in another shape, what they are given.
_SHAPE_ONLY = frozenset({"Reshape", "Flatten", "Permute", "Dropout", "Identity", "Cropping1D"})


def loss_kind(name: str | None) -> LossKind | None:
    """What the loss of that name compares; None if that is not known.

    Example:

    >>> from gradwatch.diagnosis.vocabulary import loss_kind
    >>> loss_kind("mse").value
    'values'
    """
    return _KIND_OF.get((name or "").lower())


def activation_of(facts: ModelFacts) -> tuple[LayerFacts | None, str | None]:
    """The layer that gives the model's output its values, and its activation; None if unknown."""
    layer = facts.last_layer
    if layer is None:
        return None, None
    place = facts.layers.index(layer)
    while layer.class_name in _SHAPE_ONLY and place > 0:
        place -= 1
        layer = facts.layers[place]
    like = _LIKE_ACTIVATIONS.get(layer.class_name or "")
    return layer, like or layer.activation
