"""Which findings cause which: only the root cause is reported."""

_LOSS = {"loss-not-falling", "loss-oscillating", "loss-diverging", "learned-nothing"}
_LEARNS_NOTHING = {
    "stalled-weights", "learning-rate-too-low", "loss-not-falling", "learned-nothing",
}  # fmt: skip

OF_THE_COURSE = frozenset({"loss-not-falling", "loss-oscillating", "learned-nothing"})
"""These are about the whole course of the loss up to where they are found."""

LEFT_ALONE = frozenset({
    "dead-units", "imbalance", "input-scale", "representation-collapse", "saturated-activations",
    "vanishing-gradients",
})  # fmt: skip
"""These say why a network does not learn: of one that certainly does, they are no alarm."""

_SIGNALS = {
    "structural-mismatch", "input-scale", "learning-rate-too-high", "shrinking-weights",
    "exploding-gradients", "loss-diverging", "saturated-activations", "vanishing-gradients",
    "constant-output",
}  # fmt: skip
"""What is wrong with the signals of a network makes its outputs the same, too. (Not dead units:
half of the units look dead if all samples are the same to them.)"""

_NOT_BY_TENSORS = {"straggling-rank"}
"""No tensor causes these."""

# A finding of the rule on the left explains findings of the rules on the right that begin no
# earlier. There are no cycles.
_EXPLAINS: dict[str, set[str]] = {
    "structural-mismatch": {
        "vanishing-gradients", "exploding-gradients", "dead-units", "saturated-activations",
        "constant-output", "zero-gradients", "learning-rate-too-high", "imbalance", "negative-loss",
        "overfitting", *_LOSS, *_LEARNS_NOTHING,
    },
    "input-scale": {
        "vanishing-gradients", "exploding-gradients", "dead-units", "saturated-activations",
        "constant-output", "zero-gradients", "learning-rate-too-high", "imbalance",
        *_LOSS, *_LEARNS_NOTHING,
    },
    "learning-rate-too-high": {
        "vanishing-gradients", "exploding-gradients", "dead-units", "saturated-activations",
        "constant-output", "zero-gradients", "imbalance", "loss-spike", "attention-collapse",
        *_LOSS, *_LEARNS_NOTHING,
    },
    "kept-gradients": {
        "exploding-gradients", "learning-rate-too-high", "dead-units", "saturated-activations",
        "constant-output", "zero-gradients", "imbalance", "loss-spike", *_LOSS, *_LEARNS_NOTHING,
    },
    "shrinking-weights": {
        "vanishing-gradients", "learning-rate-too-high", "dead-units", "constant-output",
        "zero-gradients", "imbalance", *_LOSS, *_LEARNS_NOTHING,
    },
    "unshuffled-data": {
        "dead-units", "constant-output", "learning-rate-too-high", "overfitting", "loss-spike",
        *_LOSS,
    },
    "negative-loss": {"exploding-gradients", *_LOSS},
    "exploding-gradients": {
        "dead-units", "saturated-activations", "constant-output", "zero-gradients", "imbalance",
        "vanishing-gradients", "loss-spike", *_LOSS, *_LEARNS_NOTHING,
    },
    "second-moment-lagging": {"loss-spike", "exploding-gradients", *_LOSS},
    "loss-spike": _LOSS,
    "loss-diverging": {
        "loss-oscillating", "dead-units", "saturated-activations", "constant-output",
        "zero-gradients", "vanishing-gradients", *_LEARNS_NOTHING,
    },
    "underflow": {"zero-gradients", "vanishing-gradients", *_LEARNS_NOTHING},
    "dead-units": {"constant-output", "zero-gradients", *_LEARNS_NOTHING},
    "saturated-activations": {"zero-gradients", "vanishing-gradients", *_LEARNS_NOTHING},
    "vanishing-gradients": {"constant-output", "imbalance", *_LEARNS_NOTHING},
    "constant-output": {"zero-gradients", *_LEARNS_NOTHING},
    "zero-gradients": _LEARNS_NOTHING,
    "imbalance": {"loss-not-falling", "loss-oscillating", "learned-nothing"},
    "loss-oscillating": {"loss-not-falling", "learned-nothing"},
    "stalled-weights": {"learning-rate-too-low", "loss-not-falling", "learned-nothing"},
    "learning-rate-too-low": {"loss-not-falling", "learned-nothing"},
    "representation-collapse": {"zero-gradients"},
    "attention-collapse": {"saturated-activations", "vanishing-gradients", *_LEARNS_NOTHING},
    "adversary-wins": {"vanishing-gradients", "zero-gradients", "stalled-weights"},
    # Both say the same; the one that came first is reported.
    "loss-not-falling": {"learned-nothing"},
    "overfitting": {"learned-nothing"},
}  # fmt: skip

_REFUTES = {"learning-rate-too-high": {"learning-rate-too-low"}}
"""A finding of the rule on the left is the cause of what those on the right see, and both cannot
be true: weights that large steps have blown up make the next steps look small."""


_PARTIAL = {
    name: {"loss-not-falling", "learned-nothing"} for name in ("dead-units", "zero-gradients")
}
"""If only a part is broken, the rest of the network could learn: that it does not has another
reason."""


def explains(cause: str, symptom: str, is_error: bool = True) -> bool:
    """Whether findings of one rule cause findings of another, if both exist.

    `is_error` says whether the cause is an error by itself.
    """
    if not is_error and symptom in _PARTIAL.get(cause, ()):
        return False
    if cause == "non-finite-rank":
        return symptom not in (cause, *_NOT_BY_TENSORS)
    if cause == "non-finite":
        # What the model and the inputs show by themselves was there before.
        others = cause, "non-finite-rank", "structural-mismatch", "input-scale"
        return symptom not in (*others, *_NOT_BY_TENSORS)
    if symptom == "representation-collapse" and cause in _SIGNALS:
        return True
    return symptom in _EXPLAINS.get(cause, ())


def refutes(cause: str, symptom: str) -> bool:
    """Whether a finding is wrong if findings of another rule explain it."""
    return symptom in _REFUTES.get(cause, ())
