"""ReLU-like units that return 0 whatever they are given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.network_order import is_relu_like
from gradwatch.diagnosis.quantities import has_learned, progress
from gradwatch.diagnosis.rule import Threshold, rule
from gradwatch.diagnosis.value_table import ValueTable


@rule(
    "dead-units",
    remedy=(
        "Lower the learning rate, start biases at 0 or slightly above, initialise with He, scale "
        "the inputs, or use LeakyReLU, ELU or GELU."
    ),
    thresholds={
        "warn share": Threshold(0.5, "of a layer's units; below, enough are left to learn with"),
        "error share": Threshold(0.95, "of a layer's units; next to nothing passes through it"),
        "losses": Threshold(30, "before a layer that is dead in part is blamed for a flat loss"),
        "measured steps": Threshold(3, "a unit may be silent for a batch"),
        "samples": Threshold(256, "seen in these steps: with small batches it takes more of them"),
    },
    needs=[Kind.DEAD_UNIT],
)
def dead_units(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """Units of a ReLU-like layer return 0 for every sample, in several steps, without progress.

    What is recorded of a step is how many units were silent, not which. The least of these
    numbers over the steps is what is said.
    """
    table = history[Kind.DEAD_UNIT]
    if table.measured <= limits["measured steps"]:
        return
    shares = table.latest("mean")
    suspects = (shares > limits.per_site("warn share", table.sites)) & _can_die(
        table, history, facts
    )
    if not suspects.any():
        return
    samples = _samples_a_step(table, history)
    for i in np.flatnonzero(suspects):
        site = table.sites[i]
        count = int(limits["measured steps"])
        if shares[i] < 1.0:
            # A unit may be silent by chance; all units of a layer are not.
            count = int(max(count, np.ceil(limits["samples"] / samples[i])))
        # The first measured step does not count: what starts at 0 is not dead yet.
        if min(table.measured - 1, len(table)) < count:
            continue
        silent = table.statistic("mean", count)[:, i]
        least = float(np.min(silent))
        if not least > limits.at("warn share", site.path):
            continue
        is_whole = least > limits.at("error share", site.path)
        # Where inputs hardly differ, units start on or off for all of them; that passes.
        if not is_whole and len(history.losses) < limits["losses"]:
            continue
        # A sparse network that learns is meant to be so.
        if (least < 1.0 and not progress(history, facts) < 0.05) or has_learned(history, facts):
            continue
        units = float(table.latest("count")[i])
        yield Symptom(
            title=f"{least:.0%} of the units of {site.layer} are dead: they return 0 throughout.",
            evidence={
                "dead units": float(np.round(least * units)),
                "units": units,
                "measured steps": count,
                "samples in each": float(samples[i]),
                "loss improvement": progress(history, facts),
            },
            sites=[site],
            layer=site.layer,
            since=table.since(count),
            severity=Severity.ERROR if is_whole else None,
            about=site.path,
        )
        # What comes after it only passes the silence on.
        return


def _can_die(table: ValueTable, history: History, facts: ModelFacts) -> NDArray[np.bool_]:
    known = table.fixed(
        "can die",
        lambda: [is_relu_like(facts, site) for site in table.sites],
    )
    outputs = history[Kind.OUTPUT]
    lowest = dict(zip((s.path for s in outputs.sites), _minimum(outputs), strict=True))
    # Where nothing is known of the layer, one that never returns less than 0, and is
    # not the first: that may just pass on the zeros of the data.
    guesses = [i > 0 and lowest.get(site.path, -1.0) >= 0.0 for i, site in enumerate(table.sites)]
    return np.array([g if k is None else k for k, g in zip(known, guesses, strict=True)], bool)


def _minimum(outputs: ValueTable) -> NDArray[np.float64]:
    return outputs.latest("min") if len(outputs) else np.empty(0)


def _samples_a_step(table: ValueTable, history: History) -> NDArray[np.float64]:
    """For each site, how many values of a unit a step has: samples times positions."""
    outputs = history[Kind.OUTPUT]
    counts = np.ones(len(table.sites))
    if len(outputs):
        sizes = dict(zip((s.path for s in outputs.sites), outputs.latest("count"), strict=True))
        units = table.latest("count")
        for i, site in enumerate(table.sites):
            size = sizes.get(site.path, np.nan)
            counts[i] = size / units[i] if size > 0 and units[i] > 0 else 1.0
    return counts
