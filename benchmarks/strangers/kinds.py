"""The kinds of fault, and the rules that name each rightly.

A fault often has several honest names; a name that would send the user elsewhere is not one.
`learned-nothing` is right where that nothing is learned is all that can be seen, and
wrong where a broken part could be named.
"""

from __future__ import annotations

_NOTHING = ("learned-nothing", "loss-not-falling")
_TOO_FAST = (
    "learning-rate-too-high", "loss-oscillating", "loss-diverging", "exploding-gradients",
    "loss-spike",
)  # fmt: skip
_TOO_SLOW = ("learning-rate-too-low", "stalled-weights")

KINDS: dict[str, tuple[str, ...]] = {
    # Rates and optimizers.
    "rate too low": (*_TOO_SLOW, *_NOTHING),
    "rate too high": (
        *_TOO_FAST,
        "non-finite",
        "dead-units",
        "saturated-activations",
        "constant-output",
        "learned-nothing",
    ),
    "rate jump": (*_TOO_FAST, "non-finite", "dead-units"),
    "rate decays to nothing": (*_TOO_SLOW, "learned-nothing"),
    "warm-up without end": (*_TOO_SLOW, *_NOTHING),
    "Adam's epsilon": (*_TOO_SLOW, *_NOTHING),
    "weight decay": ("shrinking-weights", *_NOTHING, "constant-output"),
    "regularised to nothing": (
        "shrinking-weights",
        *_NOTHING,
        "constant-output",
        "structural-mismatch",
    ),
    "clipped to nothing": (*_TOO_SLOW, *_NOTHING),
    "rounded away": (*_TOO_SLOW, "underflow", *_NOTHING),
    "loss scale": ("underflow", "non-finite", *_TOO_SLOW, "zero-gradients"),
    "gradients accumulate": ("kept-gradients", *_TOO_FAST),
    # What is trained.
    "all frozen": ("stalled-weights", "zero-gradients", "structural-mismatch"),
    "not in the optimizer": ("stalled-weights", "zero-gradients", "structural-mismatch"),
    "no gradient required": ("stalled-weights", "zero-gradients", "structural-mismatch"),
    "modules in a plain list": ("stalled-weights", "zero-gradients", "structural-mismatch"),
    "detached": ("zero-gradients", "stalled-weights"),
    "no_grad": ("zero-gradients", "stalled-weights", "structural-mismatch"),
    # Data.
    "labels shuffled": (*_NOTHING, "overfitting", "structural-mismatch"),
    "inputs and targets out of order": (*_NOTHING, "overfitting", "structural-mismatch"),
    "unscaled inputs": (
        "input-scale",
        "structural-mismatch",
        "saturated-activations",
        "dead-units",
        *_TOO_FAST,
    ),
    "constant inputs": ("input-scale", "constant-output", "structural-mismatch", *_NOTHING),
    "unshuffled": ("unshuffled-data",),
    "overfits": ("overfitting",),
    "targets out of range": ("structural-mismatch", "negative-loss"),
    # Output and loss.
    "two softmaxes": ("structural-mismatch",),
    "logits or not": ("structural-mismatch",),
    "softmax over one unit": ("structural-mismatch", "constant-output"),
    "softmax over the wrong axis": ("structural-mismatch", "constant-output"),
    "broadcasting": ("structural-mismatch", "constant-output"),
    "output cannot reach the targets": (
        "structural-mismatch",
        "saturated-activations",
        "dead-units",
        "constant-output",
        "zero-gradients",
    ),
    "wrong sign": ("negative-loss", "structural-mismatch", "loss-diverging"),
    "summed loss": (
        *_TOO_FAST,
        "structural-mismatch",
        "dead-units",
        "saturated-activations",
        "non-finite",
    ),
    # Design.
    "no non-linearity": ("structural-mismatch", *_NOTHING),
    "vanishing": ("vanishing-gradients",),
    "exploding": (*_TOO_FAST, "non-finite"),
    "dead units": ("dead-units",),
    "saturated": ("saturated-activations",),
    "symmetric start": (
        "structural-mismatch",
        "constant-output",
        "zero-gradients",
        "symmetric-units",
        *_NOTHING,
    ),
    "too much dropout": ("structural-mismatch", *_NOTHING),
    "norm in inference mode": ("structural-mismatch", *_TOO_FAST),
    "norm of one sample": ("structural-mismatch", "constant-output", "zero-gradients", *_NOTHING),
    "attention saturated": (
        "saturated-activations",
        "attention-saturated",
        "vanishing-gradients",
        "zero-gradients",
    ),
    "temperature": (
        "structural-mismatch",
        "saturated-activations",
        "vanishing-gradients",
        *_TOO_FAST,
        *_NOTHING,
        *_TOO_SLOW,
    ),
    "representations collapse": ("representation-collapse", "constant-output"),
    "posterior collapse": ("posterior-collapse", "constant-output", "representation-collapse"),
    "dead experts": ("dead-units", "zero-gradients", "imbalance", "dead-experts"),
    "one layer runs away": ("imbalance", *_TOO_FAST),
    "discriminator wins": (
        "adversary-wins",
        "vanishing-gradients",
        "zero-gradients",
        "saturated-activations",
    ),
    "generator collapses": ("constant-output", "representation-collapse"),
    # Numbers that are not finite, and events in mid-training.
    "NaN in the data": ("non-finite",),
    "NaN forward": ("non-finite",),
    "NaN backward": ("non-finite",),
    "overflow": ("non-finite", *_TOO_FAST),
    "spike": ("loss-spike", *_TOO_FAST),
    "units die": ("dead-units",),
    "weights lost": ("loss-spike", "loss-diverging", "weights-reset", "exploding-gradients"),
    "frozen in mid-training": ("stalled-weights", "zero-gradients"),
    "data goes wrong": (
        "loss-spike",
        "loss-diverging",
        "input-scale",
        "unshuffled-data",
        "exploding-gradients",
    ),
}
