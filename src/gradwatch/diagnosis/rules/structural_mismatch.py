"""A last layer, a loss and labels that contradict each other."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from gradwatch.core import Kind, LayerFacts, ModelFacts
from gradwatch.diagnosis.chance import SKILL
from gradwatch.diagnosis.equal_weights import equal_weights
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import Judgement, judgement
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.static_checks import static_symptoms
from gradwatch.diagnosis.value_table import ValueTable
from gradwatch.diagnosis.vocabulary import (
    BOUNDS,
    LossKind,
    activation_before_last,
    last_activation,
    loss_kind,
)

_LITTLE = 0.3
"""The share of the constant guess's loss, and of what accuracy can gain: noise leaves most models
more, and a model that lacks something as much."""
_PROBABILITIES = ("softmax", "sigmoid", "hard_sigmoid")


@dataclass(frozen=True)
class ModelEnd:
    """The end of a model: its last layer, its loss and its targets.

    `targets` are the smallest, the largest and the mean so far, `outputs` the smallest and the
    largest. `slack` is the share of the targets' range by which they may exceed the output's.
    `activation_before` is the one that the last activation is applied to, with nothing between.
    """

    loss: LossKind
    loss_name: str
    from_logits: bool | None
    layer: LayerFacts
    activation: str | None
    targets: tuple[float, float, float] | None
    targets_are_whole: bool | None
    outputs: tuple[float, float] | None
    slack: float
    activation_before: str | None = None

    @property
    def units(self) -> int | None:
        return self.layer.units

    def evidence(self) -> dict[str, float | str]:
        known: dict[str, float | str] = {"loss": self.loss_name}
        if self.from_logits is not None and self.loss.takes_probabilities:
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
        "slack": Threshold(0.05, "share of the targets' range by which they may exceed the output"),
        "losses": Threshold(60, "advice becomes a warning if so many losses show no progress"),
        "losses without an end": Threshold(150, "while training goes on: it may be a plateau"),
    },
)
def structural_mismatch(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Layers, last activation, loss, labels and optimizer contradict each other."""
    is_flat, is_little = _learns_nothing(history, facts, limits)
    yield from static_symptoms(history, facts, is_flat, is_little)
    yield from equal_weights(history, facts)
    end = _model_end(history, facts, limits["slack"])
    if end is None:
        return
    for check in _CHECKS:
        found = check(end)
        if found is not None:
            title, remedy = found
            is_advice = check in _SLOWING or check in _HARMLESS
            symptom = Symptom(
                title=title,
                evidence=end.evidence(),
                layer=end.layer.path,
                remedy=remedy,
                since=history.first_step,
                severity=Severity.INFO if is_advice else _SEVERITIES.get(check),
                about="advice" if is_advice else "",
            )
            yield symptom
            if check in _SLOWING and is_little:
                # Since now: it explains nothing that was there before.
                yield replace(symptom, severity=Severity.WARNING, about="", since=history.step)
            # Further contradictions may follow from this one.
            return


TitleAndRemedy: TypeAlias = tuple[str, str] | None


def _softmax_over_one_unit(end: ModelEnd) -> TitleAndRemedy:
    if end.activation != "softmax" or end.units != 1:
        return None
    return (
        "Softmax over one unit is always 1: the model can return nothing else.",
        "Use sigmoid with binary_crossentropy, or as many units as there are classes.",
    )


def _one_unit_for_several_classes(end: ModelEnd) -> TitleAndRemedy:
    if end.loss not in (LossKind.CATEGORICAL, LossKind.SPARSE) or end.units != 1:
        return None
    return (
        f"{end.loss_name} needs one output unit per class, but the model has one output unit.",
        "Use as many units as there are classes, or sigmoid with binary_crossentropy for two.",
    )


def _labels_out_of_range(end: ModelEnd) -> TitleAndRemedy:
    if end.targets is None:
        return None
    low, high, mean = end.targets
    if end.loss is LossKind.SPARSE:
        if end.units and (low < 0 or high >= end.units):
            return (
                f"Labels range from {low:g} to {high:g}, but the model has {end.units} classes, "
                f"0 to {end.units - 1}.",
                "Number the labels from 0, or give the last layer as many units as there are "
                "classes.",
            )
        if end.targets_are_whole is False:
            return (
                f"{end.loss_name} needs whole numbers as labels, but these are not.",
                "Use class numbers as labels; to predict values, use mean_squared_error.",
            )
        return None
    if end.loss in (LossKind.BINARY, LossKind.CATEGORICAL) and (low < -1e-6 or high > 1 + 1e-6):
        return (
            f"{end.loss_name} needs labels between 0 and 1, but these range from {low:g} to "
            f"{high:g}.",
            "Map the labels to 0 and 1; for class numbers use sparse_categorical_crossentropy, to "
            "predict values use mean_squared_error.",
        )
    if end.loss is LossKind.CATEGORICAL and end.units and mean * end.units > 1.1:
        return (
            f"The labels of a sample add up to {mean * end.units:.3g}, but {end.loss_name} "
            "expects 1.",
            "Use one-hot labels; for several classes at once use sigmoid with binary_crossentropy.",
        )
    if end.loss is LossKind.COUNTS and low < 0:
        return (
            f"{end.loss_name} needs targets of at least 0, but the smallest is {low:g}.",
            "Use mean_squared_error, or shift the targets.",
        )
    return None


def _labels_below_one(end: ModelEnd) -> TitleAndRemedy:
    if end.loss is not LossKind.CATEGORICAL or end.targets is None or not end.units:
        return None
    total = end.targets[2] * end.units
    if total > 0.9:
        return None
    return (
        f"The labels of a sample add up to {total:.3g} on average, but {end.loss_name} expects 1.",
        "Samples without a label, such as padding, count as perfectly predicted. Leave them out, "
        "by sample_weight for example.",
    )


def _logits_for_probabilities(end: ModelEnd) -> TitleAndRemedy:
    if not end.loss.takes_probabilities or end.from_logits is not False:
        return None
    if end.activation in ("sigmoid", "softmax"):
        return None  # In torch, the layer's measured output is what its activation receives.
    is_outside = end.outputs is not None and (end.outputs[0] < -1e-3 or end.outputs[1] > 1.001)
    is_linear = end.activation == "linear" and end.outputs is None
    if not (is_outside or is_linear):
        return None
    right = "sigmoid" if end.loss is LossKind.BINARY else "softmax"
    ending = f"activation is {end.activation}" if end.activation else "layer returns other values"
    return (
        f"{end.loss_name} expects probabilities, but the last {ending}.",
        f"Give the loss from_logits=True, or the last layer activation={right!r}.",
    )


def _two_softmaxes(end: ModelEnd) -> TitleAndRemedy:
    is_twice = end.activation in _PROBABILITIES and end.activation_before in _PROBABILITIES
    if not is_twice or not end.loss.takes_probabilities:
        return None
    return (
        f"The output passes two activations: {end.activation_before}, then {end.activation}. "
        "Probabilities that are squeezed twice are all nearly the same.",
        "Remove one of them, or use the logits with from_logits=True.",
    )


def _probabilities_for_logits(end: ModelEnd) -> TitleAndRemedy:
    if not end.loss.takes_probabilities or end.from_logits is not True:
        return None
    if end.activation not in _PROBABILITIES:
        return None
    return (
        f"{end.loss_name} expects logits (from_logits=True), but the last activation is "
        f"{end.activation}.",
        "Set from_logits=False, or remove the activation of the last layer.",
    )


def _sigmoid_for_classes(end: ModelEnd) -> TitleAndRemedy:
    if end.loss not in (LossKind.CATEGORICAL, LossKind.SPARSE):
        return None
    if end.activation not in ("sigmoid", "hard_sigmoid"):
        return None
    return (
        f"{end.loss_name} expects one of several classes, but sigmoid treats each independently.",
        "Use softmax; or, if several classes may be right at once, binary_crossentropy.",
    )


def _bounded_logits(end: ModelEnd) -> TitleAndRemedy:
    if not end.loss.takes_probabilities or end.activation not in BOUNDS:
        return None
    if end.activation in _PROBABILITIES:
        return None
    return (
        f"{end.loss_name} receives the output of {end.activation}, which is neither a probability "
        "nor an unbounded logit.",
        "Use softmax or sigmoid; or no activation, with from_logits=True.",
    )


def _bounded_for_unbounded(end: ModelEnd) -> TitleAndRemedy:
    if end.loss is not LossKind.REGRESSION or end.targets is None:
        return None
    bounds = BOUNDS.get(end.activation or "")
    if bounds is None:
        return None
    low, high, _ = end.targets
    slack = end.slack * max(high - low, 1e-30)
    if low >= bounds[0] - slack and high <= bounds[1] + slack:
        return None
    is_bounded = math.isfinite(bounds[1])
    span = f"from {bounds[0]:g} to {bounds[1]:g}" if is_bounded else f"of at least {bounds[0]:g}"
    return (
        f"Targets range from {low:.3g} to {high:.3g}, but {end.activation} returns values {span}.",
        "Remove the activation of the last layer, or scale the targets into its range.",
    )


_CHECKS: tuple[Callable[[ModelEnd], TitleAndRemedy], ...] = (
    _softmax_over_one_unit,
    _one_unit_for_several_classes,
    _labels_out_of_range,
    _logits_for_probabilities,
    _bounded_for_unbounded,
    _two_softmaxes,
    _probabilities_for_logits,
    _bounded_logits,
    _sigmoid_for_classes,
    _labels_below_one,
)
# The loss cannot become small, though models may tell some classes apart.
_SEVERITIES: dict[Callable[[ModelEnd], TitleAndRemedy], Severity] = {
    _two_softmaxes: Severity.WARNING,
    _probabilities_for_logits: Severity.WARNING,
}
# Most models learn nevertheless, only worse than they could.
_SLOWING = frozenset({_bounded_logits})
# Not even that is certain.
_HARMLESS = frozenset({_sigmoid_for_classes, _labels_below_one})


def _learns_nothing(history: History, facts: ModelFacts, limits: Limits) -> tuple[bool, bool]:
    """Whether nothing is learned, and whether that or, at the end, little is."""
    so_far = judgement(history, facts)
    if so_far.losses < limits["losses" if history.has_ended else "losses without an end"]:
        return False, False
    # Whatever the loss has come from: at the end, a constant guess is as good.
    is_at_end = history.has_ended and so_far.skill.high < 0.5 * SKILL and not so_far.has_learned
    is_flat = so_far.is_flat or is_at_end
    return is_flat, is_flat or (history.has_ended and _is_little(so_far))


def _is_little(so_far: Judgement) -> bool:
    """Whether the loss rests where little of the constant guess's is removed, or is above that.

    If that guess is not known, little of the initial loss.
    """
    if not math.isfinite(so_far.skill.value):
        return 0.0 <= so_far.fall < _LITTLE and not (so_far.is_falling or so_far.is_vague)
    gain = (so_far.accuracy - so_far.best_constant) / max(1.0 - so_far.best_constant, 0.05)
    is_done = not so_far.is_falling or so_far.skill.high < 0.0
    if so_far.is_past_scale or not is_done:
        return False
    return so_far.skill.high < _LITTLE and not gain > _LITTLE


def _model_end(history: History, facts: ModelFacts, slack: float) -> ModelEnd | None:
    kind = loss_kind(facts.loss.name)
    layer, activation = last_activation(facts)
    if kind is None or layer is None:
        return None
    targets = outputs = None
    table = history[Kind.TARGET]
    if len(table) and (target_range := _range(table, 0, 16)):
        if kind is LossKind.SPARSE:
            target_range = _of_first_head(table, target_range, layer.units or 0)
        targets = (*target_range, float(np.nanmean(table.column("mean", 0, 16))))
    table = history[Kind.OUTPUT]
    last = next((i for i, s in enumerate(table.sites) if s.layer == facts.outputs[0]), None)
    if len(table) and last is not None:
        outputs = _range(table, last, 4)
    return ModelEnd(
        kind, facts.loss.name or "", facts.loss.from_logits, layer, activation, targets,
        facts.targets_are_whole, outputs, slack, activation_before_last(facts),
    )  # fmt: skip


def _of_first_head(table: ValueTable, now: tuple[float, float], units: int) -> tuple[float, float]:
    """The range of the labels for the output that the model began with.

    Labels that fitted for long and no longer do belong to another head: with this one, the loss
    would not be finite.
    """
    if table.measured < 16:
        return now
    early: tuple[float, float] = table.cached_per_sites("early", lambda: now)
    return early if 0 <= early[0] <= early[1] < units else now


def _range(table: ValueTable, column: int, count: int) -> tuple[float, float] | None:
    """The smallest and largest value of a site; None if it was not measured."""
    low, high = table.column("min", column, count), table.column("max", column, count)
    return None if np.isnan(low).all() else (float(np.nanmin(low)), float(np.nanmax(high)))
