"""A model that returns the same number for every input."""

import numpy as np

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.quantities import are_constant, has_one_sample
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Mask, ValueTable

_MEASURED = 8
"""Measured steps, in which inputs that are to differ have differed."""
_LOOK_AT_INPUTS = (
    "The model gets nothing to tell samples apart by: check how the inputs are loaded and scaled."
)


@rule(
    "constant-output",
    severity=Severity.ERROR,
    remedy=(
        "Check that the samples of a batch differ. Then check the last activation: softmax over "
        "one unit is always 1 (use sigmoid), all ReLU units may be dead, a sigmoid may be "
        "saturated. Then check the input of the last layer."
    ),
    thresholds={
        "spread": Threshold(1e-6, "relative range of the outputs; rounding alone is below it"),
        "measured steps": Threshold(3, "a last layer initialized to 0 is constant for one step"),
    },
    needs=[Kind.OUTPUT],
)
def constant_output(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """All outputs of the model are one number for all samples, and the targets are not."""
    table = history[Kind.OUTPUT]
    count = int(limits["measured steps"])
    if table.measured <= count:
        return
    if _are_all_samples_one(history, count):
        yield _one_sample(history, count)
        return
    is_generator = facts.loss.is_through_others and are_constant(history[Kind.INPUT], count)
    if is_generator or _are_inputs_one(history, facts, count):
        yield _constant_inputs(history[Kind.INPUT], None, count)
        return
    # Without facts the last layer is a guess; then the loss must confirm it.
    if not facts.outputs and not judgement(history, facts).is_flat:
        return
    for i in table.cached_per_sites("last", lambda: _output_columns(table, facts)):
        site = table.sites[i]
        is_constant = _is_constant(table, i, limits.at("spread", site.path))
        if not is_constant[-count:].all():
            continue
        if table.column("count", i, count).min() < 2 or _is_one_number(history[Kind.TARGET], count):
            continue
        varied = np.flatnonzero(~is_constant)
        if are_constant(history[Kind.INPUT], count):
            yield _constant_inputs(history[Kind.INPUT], site, count)
            continue
        low, high = float(table.latest("min")[i]), float(table.latest("max")[i])
        yield Symptom(
            title=f"The model returns {high:.6g} for every input.",
            evidence={"smallest output": low, "largest output": high},
            sites=[site],
            layer=site.layer,
            since=int(table.steps[varied[-1] + 1 if varied.size else 0]),
            about=site.path,
        )


def _is_constant(table: ValueTable, column: int, spread: float) -> Mask:
    """For each kept step, whether all outputs of a layer were one number."""
    low, high = table.column("min", column, len(table)), table.column("max", column, len(table))
    return np.asarray(high - low <= spread * np.maximum(np.abs(low), np.abs(high)))


def _output_columns(table: ValueTable, facts: ModelFacts) -> list[int]:
    if facts.outputs:
        return [i for i, site in enumerate(table.sites) if site.layer in set(facts.outputs)]
    return [len(table.sites) - 1]


def _is_one_number(table: ValueTable, count: int) -> bool:
    """Whether all elements of the last steps were one and the same number."""
    if not len(table):
        return False
    low, high = table.statistic("min", count), table.statistic("max", count)
    return bool(np.all(np.nanmin(low, 0) == np.nanmax(high, 0)))


def _are_all_samples_one(history: History, count: int) -> bool:
    """Whether the samples of a batch are all the same, in the last measured steps, but no target.

    What tells samples apart is then not in the data; a single step may be odd.
    """
    targets = history[Kind.TARGET]
    if len(targets) <= count or not has_one_sample(history, int(targets.steps[-count - 1])):
        return False
    low, high = targets.statistic("min", count), targets.statistic("max", count)
    return bool(np.any(low < high))


def _one_sample(history: History, count: int) -> Symptom:
    inputs = history[Kind.INPUT]
    return Symptom(
        title="All samples of a batch are the same, but their targets are not.",
        evidence={"measured steps": count},
        sites=list(inputs.sites),
        since=history.numbers["input_spread"][-1][0],
        remedy=_LOOK_AT_INPUTS,
        about="inputs",
    )


def _are_inputs_one(history: History, facts: ModelFacts, count: int) -> bool:
    """Whether the model was always given one number in all places, for targets that differ.

    Its outputs may differ from place to place, and teach nothing about samples.
    """
    inputs, targets = history[Kind.INPUT], history[Kind.TARGET]
    if inputs.measured < _MEASURED or not len(targets) or not judgement(history, facts).is_flat:
        return False
    return are_constant(inputs, len(inputs)) and not _is_one_number(targets, count)


def _constant_inputs(inputs: ValueTable, output: Site | None, count: int) -> Symptom:
    value = float(inputs.latest("max")[0]) + 0.0  # Not -0.
    return Symptom(
        title=f"All inputs of a batch are the same: {value:.6g}.",
        evidence={"smallest input": float(inputs.latest("min")[0]), "largest input": value},
        sites=[*inputs.sites] if output is None else [*inputs.sites, output],
        since=inputs.since(count),
        remedy=_LOOK_AT_INPUTS,
        about="inputs",
    )
