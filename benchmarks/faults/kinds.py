"""The kinds of fault, and which symptoms name each rightly.

A fault often has several honest names: a learning rate that is far too high kills ReLUs, makes
the loss oscillate and in the end overflows. Any of these is right; a name that would send
the user elsewhere is not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        symptoms: the rules that name it rightly.
        visible: whether gradients or outputs show it, rather than the loss alone.
    """

    symptoms: tuple[str, ...]
    visible: bool = True


_TOO_FAST = ("learning-rate-too-high", "loss-oscillating", "loss-diverging", "exploding-gradients")

KINDS: dict[str, Kind] = {
    "non-finite forward": Kind(("non-finite",)),
    "non-finite backward": Kind(("non-finite",)),
    "exploding": Kind((*_TOO_FAST, "non-finite")),
    "vanishing": Kind(("vanishing-gradients",)),
    "dead units": Kind(("dead-units",)),
    "saturated": Kind(("saturated-activations",)),
    "constant output": Kind(("constant-output", "structural-mismatch", "zero-gradients")),
    "zero gradients": Kind(("zero-gradients", "vanishing-gradients")),
    "stalled": Kind(("stalled-weights", "learning-rate-too-low")),
    "rate too low": Kind(("learning-rate-too-low", "stalled-weights")),
    "rate too high": Kind((*_TOO_FAST, "dead-units", "saturated-activations", "non-finite")),
    "diverging": Kind((*_TOO_FAST, "non-finite"), visible=False),
    "oscillating": Kind(_TOO_FAST, visible=False),
    "wrong sign": Kind(("negative-loss", "structural-mismatch", "loss-diverging"), visible=False),
    "logits or not": Kind(("structural-mismatch",)),
    "output and loss": Kind(("structural-mismatch",)),
    "bounded output": Kind(("structural-mismatch", "saturated-activations")),
    "rectified output": Kind(("structural-mismatch", "dead-units", "constant-output")),
    "labels": Kind(("structural-mismatch", "negative-loss")),
    "unscaled inputs": Kind(
        ("input-scale", "structural-mismatch", "saturated-activations", *_TOO_FAST)
    ),
    "imbalance": Kind(("imbalance", *_TOO_FAST)),
    "underflow": Kind(("underflow", "zero-gradients", "vanishing-gradients", "stalled-weights")),
    "overfitting": Kind(("overfitting",), visible=False),
    "attention collapse": Kind(("attention-collapse", "saturated-activations")),
    "router collapse": Kind(("router-collapse",)),
    "nothing learned": Kind(("loss-not-falling",), visible=False),
}
