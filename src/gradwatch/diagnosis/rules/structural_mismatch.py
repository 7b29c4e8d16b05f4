"""Last layer, loss and labels that do not go together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gradwatch.core import Kind, LayerFacts, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.rule import Threshold, rule
from gradwatch.diagnosis.vocabulary import BOUNDS, LossKind, activation_of, loss_kind


@dataclass(frozen=True)
class Ends:
    """What the checks go by: what the model ends in, and what it should answer."""

    loss: LossKind
    loss_name: str
    from_logits: bool | None
    layer: LayerFacts
    activation: str | None
    targets: tuple[float, float, float] | None
    """Smallest, largest and mean so far."""
    targets_are_whole: bool | None
    outputs: tuple[float, float] | None
    """Smallest and largest so far."""
    slack: float

    @property
    def units(self) -> int | None:
        return self.layer.units

    def evidence(self) -> dict[str, float | str]:
        """All that is known of them."""
        known: dict[str, float | str] = {"loss": self.loss_name}
        if self.from_logits is not None and self.loss.is_of_probabilities:
            known["from_logits"] = str(self.from_logits)
        if self.activation:
            known["last activation"] = self.activation
        if self.units:
            known["output units"] = self.units
        if self.targets:
            known["smallest target"], known["largest target"] = self.targets[:2]
        if self.outputs:
            known["smallest output"], known["largest output"] = self.outputs
        return known


@rule(
    "structural-mismatch",
    severity=Severity.ERROR,
    thresholds={
        "slack": Threshold(0.05, "of the targets' range by which they may leave the output's"),
    },
)
def structural_mismatch(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """Output units, last activation, loss and range of the labels contradict each other."""
    ends = _ends(history, facts, limits["slack"])
    if ends is None:
        return
    for check in _CHECKS:
        found = check(ends)
        if found is not None:
            title, remedy = found
            yield Symptom(
                title=title,
                evidence=ends.evidence(),
                layer=ends.layer.path,
                remedy=remedy,
                since=history.first_step,
                severity=Severity.WARNING if check in _MILD else None,
            )
            # The others may follow from it.
            return


Verdict = tuple[str, str] | None


def _softmax_over_one_unit(ends: Ends) -> Verdict:
    if ends.activation != "softmax" or ends.units != 1:
        return None
    return (
        "Softmax over one unit is always 1: the model can answer nothing else.",
        "Use sigmoid with binary_crossentropy, or as many units as there are classes.",
    )


def _one_unit_for_several_classes(ends: Ends) -> Verdict:
    if ends.loss not in (LossKind.CATEGORICAL, LossKind.SPARSE) or ends.units != 1:
        return None
    return (
        f"{ends.loss_name} compares classes, and the model has one output unit.",
        "Use as many units as there are classes, or sigmoid with binary_crossentropy for two.",
    )


def _labels_outside(ends: Ends) -> Verdict:
    if ends.targets is None:
        return None
    low, high, mean = ends.targets
    if ends.loss is LossKind.SPARSE:
        if ends.units and (low < 0 or high >= ends.units):
            return (
                f"Labels go from {low:g} to {high:g}, and the model has {ends.units} classes, "
                f"0 to {ends.units - 1}.",
                "Count labels from 0, or give the last layer as many units as there are classes.",
            )
        if ends.targets_are_whole is False:
            return (
                f"Labels of {ends.loss_name} are whole numbers, and these are not.",
                "Give the classes' numbers; for values to predict, use mean_squared_error.",
            )
        return None
    if ends.loss in (LossKind.BINARY, LossKind.CATEGORICAL) and (low < -1e-6 or high > 1 + 1e-6):
        return (
            f"Labels of {ends.loss_name} are between 0 and 1, these go from {low:g} to {high:g}.",
            "Map the labels to 0 and 1; for class numbers use sparse_categorical_crossentropy, for "
            "values to predict mean_squared_error.",
        )
    if ends.loss is LossKind.CATEGORICAL and ends.units and not 0.9 < mean * ends.units < 1.1:
        return (
            f"The labels of a sample add up to {mean * ends.units:.3g}, and {ends.loss_name} "
            "expects 1.",
            "Give one-hot labels; for several classes at once use sigmoid with "
            "binary_crossentropy.",
        )
    if ends.loss is LossKind.COUNTS and low < 0:
        return (
            f"{ends.loss_name} is for targets of 0 and more, and these begin at {low:g}.",
            "Use mean_squared_error, or shift the targets.",
        )
    return None


def _logits_for_probabilities(ends: Ends) -> Verdict:
    if not ends.loss.is_of_probabilities or ends.from_logits is not False:
        return None
    is_outside = ends.outputs is not None and (ends.outputs[0] < -1e-3 or ends.outputs[1] > 1.001)
    is_linear = ends.activation == "linear" and ends.outputs is None
    if not (is_outside or is_linear):
        return None
    right = "sigmoid" if ends.loss is LossKind.BINARY else "softmax"
    return (
        f"{ends.loss_name} expects probabilities, and the last layer ends in "
        f"{ends.activation or 'something else'}.",
        f"Give the loss from_logits=True, or the last layer activation={right!r}.",
    )


def _probabilities_for_logits(ends: Ends) -> Verdict:
    if not ends.loss.is_of_probabilities or ends.from_logits is not True:
        return None
    if ends.activation not in ("softmax", "sigmoid", "hard_sigmoid"):
        return None
    return (
        f"{ends.loss_name} is told to expect logits, and the last layer ends in {ends.activation}.",
        "Set from_logits=False, or leave the last layer without activation.",
    )


def _sigmoid_for_classes(ends: Ends) -> Verdict:
    if ends.loss not in (LossKind.CATEGORICAL, LossKind.SPARSE):
        return None
    if ends.activation not in ("sigmoid", "hard_sigmoid"):
        return None
    return (
        f"{ends.loss_name} is about one class of several, and sigmoid answers for each by itself.",
        "Use softmax; or, if several classes may be right at once, binary_crossentropy.",
    )


def _bounded_logits(ends: Ends) -> Verdict:
    if not ends.loss.is_of_probabilities or ends.activation not in BOUNDS:
        return None
    if ends.activation in ("softmax", "sigmoid", "hard_sigmoid"):
        return None
    return (
        f"{ends.loss_name} is given the output of {ends.activation}, which is neither a "
        "probability nor free as a logit is.",
        "End in softmax or sigmoid; or in no activation, with from_logits=True.",
    )


def _bounded_for_unbounded(ends: Ends) -> Verdict:
    if ends.loss is not LossKind.REGRESSION or ends.targets is None:
        return None
    bounds = BOUNDS.get(ends.activation or "")
    if bounds is None:
        return None
    low, high, _ = ends.targets
    slack = ends.slack * max(high - low, 1e-30)
    if low >= bounds[0] - slack and high <= bounds[1] + slack:
        return None
    span = (
        f"from {bounds[0]:g} to {bounds[1]:g}"
        if math.isfinite(bounds[1])
        else (f"at least {bounds[0]:g}")
    )
    return (
        f"Targets go from {low:.3g} to {high:.3g}, and {ends.activation} returns values {span}.",
        "Leave the last layer without activation, or scale the targets into its range.",
    )


_CHECKS: tuple[Callable[[Ends], Verdict], ...] = (
    _softmax_over_one_unit,
    _one_unit_for_several_classes,
    _labels_outside,
    _logits_for_probabilities,
    _probabilities_for_logits,
    _sigmoid_for_classes,
    _bounded_logits,
    _bounded_for_unbounded,
)
# Something is learned like this, only less than could be.
_MILD = frozenset({_probabilities_for_logits, _sigmoid_for_classes})


def _ends(history: History, facts: ModelFacts, slack: float) -> Ends | None:
    kind = loss_kind(facts.loss.name)
    layer, activation = activation_of(facts)
    if kind is None or layer is None:
        return None
    targets = outputs = None
    whole = facts.targets_are_whole
    if Kind.TARGET in history:
        table = history[Kind.TARGET]
        low, high = table.statistic("min", 16)[:, 0], table.statistic("max", 16)[:, 0]
        mean = table.statistic("mean", 16)[:, 0]
        if not np.isnan(low).all():
            targets = (float(np.nanmin(low)), float(np.nanmax(high)), float(np.nanmean(mean)))
    table = history[Kind.OUTPUT]
    last = next((i for i, s in enumerate(table.sites) if s.layer == facts.outputs[0]), None)
    if last is not None and len(table):
        low, high = table.statistic("min", 4)[:, last], table.statistic("max", 4)[:, last]
        if not np.isnan(low).all():
            outputs = (float(np.nanmin(low)), float(np.nanmax(high)))
    return Ends(
        kind, facts.loss.name or "", facts.loss.from_logits, layer, activation, targets, whole,
        outputs, slack,
    )  # fmt: skip
