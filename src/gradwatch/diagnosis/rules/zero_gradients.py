"""Variables that receive no gradient at all."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import enumerate_layers, matrices
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Mask, ValueTable


@rule(
    "zero-gradients",
    remedy=(
        "The loss does not depend on these variables: check for weights initialized to 0, a "
        "stop_gradient or detach, an output that the loss does not use, and dead units."
    ),
    thresholds={
        "measured steps": Threshold(
            3, "a last layer initialized to 0 hides the others for a step, and is healthy"
        ),
    },
    needs=[Kind.GRADIENT],
)
def zero_gradients(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The gradient of trainable matrices is exactly 0 or missing."""
    table = history[Kind.GRADIENT]
    count = int(limits["measured steps"])
    if table.measured <= count:
        return
    mixing = matrices(table, facts)
    if not mixing.any():
        return
    # Variables that were not measured are NaN: not 0.
    is_zero = table.statistic("sum_abs", count) == 0
    zero = is_zero[-1] & mixing
    if not zero.any():
        return
    never = np.all(is_zero & (table.nonfinite(count) == 0), axis=0)
    zero &= never
    # A network that has learned is done: a margin loss is 0 if all samples are right.
    if not zero.any() or judgement(history, facts).has_learned:
        return
    is_uncalled = zero & _not_called(table, history, count)
    if (zero & ~is_uncalled).any():
        zero &= ~is_uncalled
    sites = table.sites_where(zero)
    layers = list(dict.fromkeys(site.layer for site in sites))
    # A bias may have a gradient where the matrix beside it has none.
    reached = {site.layer for site in table.sites_where(table.latest("sum_abs") > 0)}
    part = "the weight matrices of " * (not reached.isdisjoint(layers))
    title = f"No gradient reaches {part}{enumerate_layers(layers)}."
    severity = Severity.INFO if is_uncalled[zero].any() else None
    yield Symptom(
        title="No variable receives a gradient." if never.all() else title,
        evidence={
            "weight matrices without gradient": len(sites),
            "weight matrices in total": int(mixing.sum()),
            "not connected to the loss": int((table.latest("count")[zero] == 0).sum()),
            "measured steps": count,
        },
        sites=sites,
        # The cause is right after the last one of them.
        layer=layers[-1],
        since=table.since(count),
        severity=Severity.ERROR if zero[mixing].all() else severity,
    )


def _not_called(table: ValueTable, history: History, count: int) -> Mask:
    """The variables of layers that the last steps have not called.

    Those are spare parts, which many models have, or are called now and then.
    """
    outputs = history[Kind.OUTPUT]
    if not len(outputs):
        return np.zeros(len(table.sites), bool)
    is_called: Mask = np.any(np.isfinite(outputs.statistic("count", count)), axis=0)
    called = {site.layer for site in outputs.sites_where(is_called)}
    return np.array([site.layer not in called for site in table.sites], bool)
