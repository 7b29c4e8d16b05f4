"""All programs, by family.

Rules are written and thresholds chosen while looking at the tuning families only. The
others are run when the rules are fixed.
"""

from __future__ import annotations

from importlib import import_module

from .program import Case, registered

TUNING = (
    "keras_mlp", "keras_recurrent", "keras_custom", "keras_events",
    "torch_mlp", "torch_conv", "torch_generative", "torch_language",
)  # fmt: skip
HELD_OUT = (
    "keras_regression", "keras_conv", "keras_attention", "keras_tuning",
    "torch_rnn", "torch_modern", "torch_events", "torch_structures",
    "keras_forum", "keras_mid_training",
    "torch_transformers", "torch_vision_generative", "torch_mid_training",
    "torch_science", "torch_representation", "torch_control", "keras_everyday",
    "torch_frontier", "keras_recipes", "torch_daily", "keras_daily",
    "torch_notebook", "keras_notebook", "torch_homework", "keras_homework", "torch_lab",
    "keras_lab",
)  # fmt: skip
BACKENDS = {
    "keras_regression/curve": "jax",
    "keras_regression/linear_table": "tensorflow",
    "keras_forum/autoencoder": "tensorflow",
    "keras_forum/diabetes": "tensorflow",
    "keras_forum/exam": "jax",
    "keras_notebook/rare": "tensorflow",
    "keras_notebook/autoencoder": "jax",
    "keras_homework/variational": "jax",
    "keras_homework/mixture": "jax",
    "keras_lab/messages": "jax",
    "keras_lab/sensors": "jax",
    "keras_lab/denoised": "tensorflow",
}
"""The Keras backend of a program where it is not torch."""


def split_of(family: str) -> str:
    """`tuning` or `held-out`."""
    return "tuning" if family in TUNING else "held-out"


def cases() -> dict[str, Case]:
    """All cases by name; importing them imports no framework."""
    for family in (*TUNING, *HELD_OUT):
        import_module(f".families.{family}", __package__)
    return registered()
