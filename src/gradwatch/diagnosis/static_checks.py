"""Mistakes that the structure of a model shows by itself, before it has trained."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gradwatch.core import ADDED_LOSS, Kind, ModelFacts
from gradwatch.diagnosis.answer_checks import ANSWER_CHECKS
from gradwatch.diagnosis.data_losses import is_added
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import enumerate_layers
from gradwatch.diagnosis.pairing_checks import PAIRING_CHECKS
from gradwatch.diagnosis.static_normalization import NORMALIZATION_CHECKS
from gradwatch.diagnosis.static_parameters import PARAMETER_CHECKS
from gradwatch.diagnosis.static_words import about_severity, since_severity
from gradwatch.diagnosis.vocabulary import LossKind, loss_kind

_LARGE_TARGETS = 100.0
"""RMS of targets; networks begin with outputs of about 1."""
_ENOUGH = 50
"""Losses, within which a network has learned the mean of the targets at least."""
_BARELY = 0.2
"""The share of the guess's loss; what has just reached the mean of the targets has hardly more."""
_SCALES = 1e-2, 1e3
"""Of logits; temperatures from 0.01 to 20 are usual, and wide outputs may be divided by 50."""


def static_symptoms(
    history: History, facts: ModelFacts, is_flat: bool, is_little: bool
) -> Iterator[Symptom]:
    """The mistakes that are certain; and, if nothing is learned, those that may be the reason.

    Where many models learn nevertheless, or where it may be meant, it is an `info` until the loss
    `is_flat`; of what limits a model, until it has ended and what was learned `is_little`.
    """
    for check in _CHECKS:
        yield from check(history, facts, is_little if check in _LIMITING else is_flat)


def _broadcast(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    shapes = facts.loss.shapes
    if not shapes or len(shapes) != 2:
        return
    output, targets = (list(shape) for shape in shapes)
    wide = max(len(output), len(targets))
    padded = [1] * (wide - len(output)) + output, [1] * (wide - len(targets)) + targets
    result = [max(pair) for pair in zip(*padded, strict=True)]
    size = math.prod(result)
    # Only if both are enlarged: one target for several outputs may be meant.
    if size <= max(math.prod(output), math.prod(targets)):
        return
    yield Symptom(
        f"The loss compares each output with each target: it broadcasts an output of shape "
        f"{tuple(output)} and targets of shape {tuple(targets)} to {tuple(result)}.",
        {"compared pairs": size, "outputs": math.prod(output)},
        layer=facts.outputs[0] if len(facts.outputs) == 1 else "",
        since=history.first_step,
        severity=Severity.ERROR,
        remedy="Give both the same shape: output.squeeze(-1), or targets.unsqueeze(-1).",
        about="broadcast",
    )


def _unused_inputs(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    if facts.unused_inputs:
        names = ", ".join(facts.unused_inputs)
        yield Symptom(
            f"The model does not use its input {names}.",
            {"unused inputs": len(facts.unused_inputs)},
            since=history.first_step,
            severity=Severity.WARNING,
            remedy="Check which tensor each layer is called with; or leave the input out.",
            about="unused",
        )


def _mixed_samples(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    if facts.mixing_samples:
        yield Symptom(
            f"The samples of a batch are the steps of a sequence to "
            f"{enumerate_layers(facts.mixing_samples)}: each sample depends on those before it.",
            {"layers": len(facts.mixing_samples)},
            layer=facts.mixing_samples[0],
            since=history.first_step,
            severity=Severity.ERROR,
            remedy="Make it with batch_first=True, or give it x.transpose(0, 1).",
            about="time first",
        )


def _swapped_axes(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    if facts.loss.swapped is None or len(facts.loss.swapped) != 2:
        return
    before, after = facts.loss.swapped
    yield Symptom(
        f"The output of shape {tuple(before)} is viewed as {tuple(after)}: that mixes up its "
        "values, and does not exchange its axes.",
        {"axes": len(before)},
        layer=facts.outputs[0] if len(facts.outputs) == 1 else "",
        since=history.first_step,
        severity=Severity.ERROR,
        remedy="Use transpose or permute to exchange axes: view and reshape move no value.",
        about="view",
    )


def _softmax_over_batch(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    if facts.loss.axis == 0 or _add_up_over_samples(history, facts):
        yield Symptom(
            "Softmax runs over the samples of the batch, and not over the classes.",
            {"axis": 0},
            layer=facts.outputs[0] if len(facts.outputs) == 1 else "",
            since=history.first_step,
            severity=Severity.ERROR,
            remedy="Use the axis of the classes: dim=-1, or axis=-1.",
            about="axis",
        )


def _add_up_over_samples(history: History, facts: ModelFacts) -> bool:
    """Whether the outputs of each unit add up to 1, rather than those of each sample."""
    kind, last = loss_kind(facts.loss.name), facts.last_layer
    if kind not in (LossKind.CATEGORICAL, LossKind.SPARSE) or facts.loss.from_logits is not False:
        return False
    table = history[Kind.OUTPUT]
    place = next((i for i, s in enumerate(table.sites) if s.layer in facts.outputs), None)
    if last is None or not last.units or place is None or table.measured < 3:
        return False
    totals, counts = (table.column(name, place, 3) for name in ("sum", "count"))
    samples = counts / last.units
    are_units = np.abs(totals / last.units - 1.0) < 1e-3
    return bool((are_units & (np.abs(totals / samples - 1.0) > 0.1)).all())


def _no_log(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    if facts.loss.name == "nll_loss":
        last = facts.last_layer
        evidence = {} if last is None or not last.activation else {"activation": last.activation}
        yield Symptom(
            "nll_loss expects logarithms of probabilities, but it is given other values.",
            evidence,
            layer="" if last is None else last.path,
            since=history.first_step,
            severity=Severity.ERROR,
            remedy="Use cross_entropy on the logits, or log_softmax before nll_loss.",
            about="log",
        )


_MISUSES = {
    "softmax of one": (
        "The softmax before the loss runs over an axis of one element: it is always 1.",
        "Use sigmoid for a single output, or the axis of the classes.",
    ),
    "blank in targets": (
        "The letters to be told have the one that stands for none: ctc_loss can never be right.",
        "Number the letters from 1, as 0 is the blank; or give ctc_loss another blank.",
    ),
    "probabilities for logarithms": (
        "kl_div expects logarithms of probabilities, but it is given the result of a softmax.",
        "Use log_softmax for the first argument of kl_div.",
    ),
}


def _misused_operations(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    for name in facts.loss.misuses:
        if name in _MISUSES:
            title, remedy = _MISUSES[name]
            yield Symptom(
                title,
                layer=facts.outputs[0] if len(facts.outputs) == 1 else "",
                since=history.first_step,
                severity=Severity.ERROR,
                remedy=remedy,
                about=name,
            )


def _linear_network(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    layers = [layer for layer in facts.layers if layer.trainable and layer.units]
    if facts.is_linear and len(layers) > 1:
        severity = Severity.WARNING if is_flat else Severity.INFO
        yield Symptom(
            "There is no non-linearity between the layers: together they are one linear layer.",
            {"layers": len(layers)},
            layer=layers[0].path,
            since=since_severity(history, severity),
            severity=severity,
            remedy="Apply an activation such as ReLU to all layers but the last one.",
            about=about_severity("linear", severity),
        )


def _temperature(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    scale = facts.loss.scale
    if not scale or _SCALES[0] <= abs(scale) <= _SCALES[1]:
        return
    severity = Severity.WARNING if is_flat else Severity.INFO
    effect = "decides" if abs(scale) > 1.0 else "cannot tell classes apart"
    yield Symptom(
        f"The logits are multiplied by {scale:.3g} before the softmax, which {effect} whatever "
        "they are.",
        {"factor": scale, "temperature": 1.0 / scale},
        layer=facts.outputs[0] if len(facts.outputs) == 1 else "",
        since=since_severity(history, severity),
        severity=severity,
        remedy="Use a temperature between 0.05 and 10.",
        about=about_severity("temperature", severity),
    )


def _large_dropout(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    large = [layer for layer in facts.layers if layer.rate is not None and layer.rate >= 0.9]
    if large:
        rate = large[0].rate or 0.0
        severity = Severity.WARNING if is_flat else Severity.INFO
        yield Symptom(
            f"Dropout with a rate of {rate:g} removes nearly everything.",
            {"rate": rate},
            layer=large[0].path,
            since=since_severity(history, severity),
            severity=severity,
            remedy="The rate is the share that is dropped: use 0.1 to 0.5.",
            about=about_severity("dropout", severity),
        )


def _heavy_regularization(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    if not is_flat or not is_added(history, facts):
        return
    added, loss = history.numbers[ADDED_LOSS][0][1], history.data_losses.initial
    if added > loss > 0:
        yield Symptom(
            f"Regularization outweighs the loss, and nothing is learned: it added {added:.3g} to a "
            f"loss of {loss:.3g}.",
            {"loss without regularization": loss, "regularization": added},
            since=history.step,
            severity=Severity.WARNING,
            remedy="Lower the factor of the regularizers (1e-4 is usual), or the weight of what "
            "add_loss adds.",
            about="regularization",
        )


def _constant_labels(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    table, kind = history[Kind.TARGET], loss_kind(facts.loss.name)
    if kind not in (LossKind.SPARSE, LossKind.BINARY) or len(table.sites) != 1:
        return
    if table.measured < 16 or table.column("count", 0, 1)[0] < 8:
        return
    # A generator is told that all it makes is genuine: the labels of an adversary are one.
    if history.reading is None or history.reading.group:
        return
    low, high = table.column("min", 0, len(table)), table.column("max", 0, len(table))
    if low.min() == high.max():
        yield Symptom(
            f"All labels are {high[-1]:g}: there is nothing to learn.",
            {"measured steps": table.measured},
            sites=list(table.sites),
            since=history.first_step,
            severity=Severity.INFO,
            remedy="Check how the labels are loaded.",
            about="labels",
        )


def _far_targets(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Targets so large that the network, which starts near 0, has hardly reached their mean."""
    table = history[Kind.TARGET]
    if loss_kind(facts.loss.name) is not LossKind.REGRESSION or len(table.sites) != 1:
        return
    rms, mean = (float(np.nanmedian(table.column(name, 0, 16))) for name in ("rms", "mean"))
    if not rms > _LARGE_TARGETS:
        return
    so_far = judgement(history, facts)
    if not history.has_ended or so_far.losses < _ENOUGH or not so_far.skill.high < _BARELY:
        return
    yield Symptom(
        f"The targets have the wrong scale: their RMS is {rms:.3g}, and that of what a new network "
        "returns is about 1.",
        {"RMS of the targets": rms, "mean of the targets": mean, **so_far.evidence()},
        sites=list(table.sites),
        since=history.first_step,
        severity=Severity.WARNING,
        remedy="Subtract the mean of the targets and divide by their standard deviation; undo it "
        "in what is predicted.",
        about="targets",
    )


_CHECKS: Sequence[Callable[[History, ModelFacts, bool], Iterator[Symptom]]] = (
    *PARAMETER_CHECKS,
    _broadcast,
    _swapped_axes,
    _mixed_samples,
    _unused_inputs,
    *PAIRING_CHECKS,
    *ANSWER_CHECKS,
    _softmax_over_batch,
    _no_log,
    _misused_operations,
    _linear_network,
    *NORMALIZATION_CHECKS,
    _temperature,
    _large_dropout,
    _heavy_regularization,
    _constant_labels,
    _far_targets,
)
_LIMITING = frozenset({_linear_network, _temperature})
