"""Parameters that are to learn, and do not."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gradwatch.core import UNTRAINED, Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import enumerate_layers
from gradwatch.diagnosis.static_words import about_severity, since_severity

_LITTLE = 0.005
"""Of all parameters; adapters that learn something have more."""
_MEASURED, _GIVEN, _ENOUGH = 4, 0.5, 60
"""Measured steps, the share of parameters that an optimizer is given, and losses before it is said
of a training step of the user's own."""


def _nothing_trainable(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    known = facts.parameters
    if known.total and known.trainable == 0:
        yield Symptom(
            "No parameter of the model is trainable: nothing can be learned.",
            {"parameters": known.total, "trainable parameters": 0},
            since=history.first_step,
            severity=Severity.ERROR,
            remedy="Set trainable=True (torch: requires_grad=True) for the layers that are to "
            "learn, then compile the model again.",
            about="trainable",
        )


def _little_trainable(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    known = facts.parameters
    if is_flat and known.total and known.trainable and known.trainable < _LITTLE * known.total:
        yield Symptom(
            f"Only {known.trainable:,} of {known.total:,} parameters are trained, and nothing is "
            "learned.",
            {"parameters": known.total, "trainable parameters": known.trainable},
            since=history.step,
            severity=Severity.WARNING,
            remedy="Check which parameters have requires_grad=True (Keras: trainable) and are "
            "given to the optimizer: those of adapters are to learn.",
            about="little trainable",
        )


def _untrained(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    series = history.numbers.get(UNTRAINED)
    if not series:
        return  # It takes some steps until it is known.
    known = facts.parameters
    if known.unregistered:
        yield Symptom(
            f"The module does not know the parameters of {enumerate_layers(known.unregistered)}: "
            "they are not trained.",
            {"untrained parameters": series[-1][1]},
            layer=known.unregistered[0],
            since=history.first_step,
            severity=Severity.WARNING,
            remedy="Keep modules in a torch.nn.ModuleList or ModuleDict: parameters() does not see "
            "those in plain lists and dicts.",
            about="unregistered",
        )
    if known.unheld:
        # To train only what is behind them may be meant: the head of a pretrained model. But what
        # nothing has ever trained is no such model.
        is_last = facts.last_layer is not None and facts.last_layer.path in known.unheld
        is_mistake = is_last or is_flat or known.fresh
        severity = Severity.WARNING if is_mistake else Severity.INFO
        paths = known.fresh or known.unheld
        yield Symptom(
            f"No optimizer holds the parameters of {enumerate_layers(paths)}, although they get "
            "gradients: they are not trained.",
            {"untrained parameters": series[-1][1]},
            layer=paths[0],
            since=since_severity(history, severity),
            severity=severity,
            remedy="Create the optimizer from all parameters of the module, after it is complete; "
            "or set requires_grad=False for those that are not to learn.",
            about=about_severity("unheld", severity),
        )


def _not_given(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """A training step of the user's own gives the optimizer only some of the variables."""
    table, trainable = history[Kind.GRADIENT], facts.parameters.trainable
    if not facts.loss.is_of_own_step or not trainable or table.measured < _MEASURED:
        return
    counts = table.statistic("count", len(table))
    # Several optimizers may take turns.
    given = int(np.nansum(np.nanmax(np.nan_to_num(counts), axis=0)))
    if given >= _GIVEN * trainable:
        return
    # To train a part only may be meant, as long as it learns.
    so_far = judgement(history, facts)
    is_idle = history.has_ended and so_far.losses >= _ENOUGH and not so_far.has_learned
    severity = Severity.WARNING if is_flat or is_idle else Severity.INFO
    with_gradient = {site.layer for site in table.sites}
    left_out = [
        each.path
        for each in facts.layers
        if each.trainable and each.units and each.path not in with_gradient
    ]
    yield Symptom(
        f"The optimizer is given only {given:,} of {trainable:,} trainable parameters.",
        {"trainable parameters": trainable, "parameters with a gradient": given},
        sites=list(table.sites[:8]),
        layer=left_out[0] if left_out else "",
        since=since_severity(history, severity),
        severity=severity,
        remedy="Differentiate with respect to model.trainable_variables, and give the optimizer "
        "all of these gradients; or set trainable=False for layers that are not to learn.",
        about=about_severity("not given", severity),
    )


def _alike_units(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    paths = [path for path in facts.parameters.alike if path not in facts.outputs]
    if not paths:
        return
    yield Symptom(
        f"All units of {enumerate_layers(paths)} have the same weights, and will always "
        "have: they get the same gradients.",
        {"layers": len(paths)},
        layer=paths[0],
        since=history.first_step,
        severity=Severity.WARNING,
        remedy="Initialize weights with random numbers (Glorot, He), and not with a constant.",
        about="alike",
    )


PARAMETER_CHECKS: Sequence[Callable[[History, ModelFacts, bool], Iterator[Symptom]]] = (
    _nothing_trainable,
    _little_trainable,
    _untrained,
    _not_given,
    _alike_units,
)
