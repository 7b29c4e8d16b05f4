"""ReLU-like units that return 0 for every input."""

import numpy as np

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.quantities import are_constant, has_one_sample, known_fall
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Array, Mask, ValueTable

_RELU_LIKE = frozenset({"relu", "relu6", "ReLU", "ReLU6"})
"""Activations that return exactly 0, with slope 0, for a range of inputs."""


@rule(
    "dead-units",
    remedy=(
        "Lower the learning rate, initialize biases with 0 or slightly above, use He "
        "initialization, scale the inputs, or use LeakyReLU, ELU or GELU."
    ),
    thresholds={
        "warn share": Threshold(0.5, "of a layer's units; below, enough are left to learn with"),
        "error share": Threshold(0.95, "of a layer's units; hardly anything passes the layer"),
        "losses": Threshold(150, "before a partly dead layer is blamed for a flat loss"),
        "measured steps": Threshold(3, "a unit may be silent for a batch"),
        "samples": Threshold(256, "in these steps: small batches need more steps"),
    },
    needs=[Kind.DEAD_UNIT],
)
def dead_units(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Units of a ReLU-like layer return 0 for every sample, in several steps, without progress.

    A step records how many units were silent, not which. The title has the smallest of these
    numbers over the steps.
    """
    table = history[Kind.DEAD_UNIT]
    if table.measured <= limits["measured steps"]:
        return
    shares = table.latest("mean")
    suspects = shares > limits.per_site("warn share", table.sites)
    if suspects.any():
        suspects &= _can_die(table, history, facts)
    if not suspects.any():
        return
    # Units that are silent for one input need not be for others.
    if has_one_sample(history, int(table.steps[-1])) or are_constant(history[Kind.INPUT], 3):
        return
    if _are_all_one_number(history, facts):
        return
    samples = _samples_per_step(table, history)
    for i in np.flatnonzero(suspects):
        site = table.sites[i]
        count = int(limits["measured steps"])
        if shares[i] < 1.0:
            # Some units may be silent by chance; all units of a layer are not.
            count = int(max(count, np.ceil(limits["samples"] / samples[i])))
        # The first measured step does not count: units initialized to 0 are not dead yet.
        if min(table.measured - 1, len(table)) < count:
            continue
        least = float(np.min(table.statistic("mean", count)[:, i]))
        if not least > limits.at("warn share", site.path):
            continue
        is_whole = least > limits.at("error share", site.path)
        # If inputs hardly differ, units start on or off for all of them; that passes.
        # And the units that are left may be about to learn.
        if not is_whole and len(history.losses) < limits["losses"]:
            continue
        # A network that learns is sparse on purpose.
        so_far = judgement(history, facts)
        if so_far.has_learned or (least < 1.0 and not so_far.is_flat):
            continue
        # Nor is a part of a layer to blame for a loss that is only too noisy to tell.
        if not is_whole and not so_far.is_nothing:
            continue
        units = float(table.latest("count")[i])
        yield Symptom(
            title=f"{least:.0%} of the units of {site.layer} are dead: they always return 0.",
            evidence={
                "dead units": float(np.round(least * units)),
                "units": units,
                "measured steps": count,
                "samples per step": float(samples[i]),
                **known_fall(history, facts),
            },
            sites=[site],
            layer=site.layer,
            since=table.since(count),
            severity=Severity.ERROR if is_whole else None,
            about=site.path,
        )
        # Later layers may be silent because of this one.
        return


def _are_all_one_number(history: History, facts: ModelFacts) -> bool:
    """Whether the first layer, in which no unit can die, has always returned one number."""
    table = history[Kind.OUTPUT]
    path = None if facts.first_layer is None else facts.first_layer.path
    first = next((i for i, site in enumerate(table.sites) if site.layer == path), None)
    if first is None or _is_relu_like(facts, table.sites[first]) is not False:
        return False
    low, high = (table.column(name, first, len(table)) for name in ("min", "max"))
    return bool(np.all(low == high))


def _can_die(table: ValueTable, history: History, facts: ModelFacts) -> Mask:
    known = table.cached_per_sites(
        "can die", lambda: [_is_relu_like(facts, site) for site in table.sites]
    )
    lowest = _output_statistic(history, "min")
    # A layer without facts can die if it never returns less than 0. The first layer is left out:
    # it may only pass on zeros of the data.
    guesses = [i > 0 and lowest.get(site.path, -1.0) >= 0.0 for i, site in enumerate(table.sites)]
    return np.array([g if k is None else k for k, g in zip(known, guesses, strict=True)], bool)


def _is_relu_like(facts: ModelFacts, site: Site) -> bool | None:
    """Whether a layer ends in an activation that can die; None if unknown."""
    known = facts.layer(site.layer)
    if known is None or (known.activation is None and known.class_name is None):
        return None
    return known.activation in _RELU_LIKE or known.class_name in _RELU_LIKE


def _samples_per_step(table: ValueTable, history: History) -> Array:
    """For each site, the number of values of one unit in a step: samples times positions."""
    sizes = _output_statistic(history, "count")
    counts = np.ones(len(table.sites))
    for i, (site, units) in enumerate(zip(table.sites, table.latest("count"), strict=True)):
        size = sizes.get(site.path, np.nan)
        if size > 0 and units > 0:
            counts[i] = size / units
    return counts


def _output_statistic(history: History, name: str) -> dict[str, float]:
    """A statistic of the layers' outputs in the newest step, by path."""
    outputs = history[Kind.OUTPUT]
    values = outputs.latest(name) if len(outputs) else np.empty(0)
    return dict(zip((site.path for site in outputs.sites), values, strict=True))
