"""The rules; importing this package declares them all."""

from gradwatch.diagnosis.rules import (
    constant_output,
    dead_units,
    exploding_gradients,
    imbalance,
    input_scale,
    learning_rate,
    loss_course,
    non_finite,
    overfitting,
    saturated_activations,
    stalled_weights,
    structural_mismatch,
    underflow,
    unshuffled_data,
    vanishing_gradients,
    zero_gradients,
)

__all__ = [
    "constant_output",
    "dead_units",
    "exploding_gradients",
    "imbalance",
    "input_scale",
    "learning_rate",
    "loss_course",
    "non_finite",
    "overfitting",
    "saturated_activations",
    "stalled_weights",
    "structural_mismatch",
    "underflow",
    "unshuffled_data",
    "vanishing_gradients",
    "zero_gradients",
]
