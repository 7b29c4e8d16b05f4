"""Gradients that are never set to zero."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.rule import Limits, Threshold, rule

_NUMBER = "kept_gradients"


@rule(
    "kept-gradients",
    remedy="Call optimizer.zero_grad() once per step, before loss.backward().",
    thresholds={"measured steps": Threshold(5, "a step or two may be accumulated on purpose")},
    needs=[Kind.GRADIENT],
)
def kept_gradients(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Each step adds its gradients to those of all steps before: they are never set to zero."""
    names = [name for name in history.numbers if name.rpartition("/")[2] == _NUMBER]
    if not names or history.numbers[names[0]][-1][1] != 1.0:
        return
    since = history.numbers[names[0]][-1][0]
    table = history[Kind.GRADIENT]
    if (table.steps >= since).sum() < limits["measured steps"]:
        return
    squares = np.nansum(table.statistic("sum_squares", len(table)), axis=1)
    yield Symptom(
        title="Gradients are not set to zero: each step adds its own to those of all before.",
        evidence={
            "gradient norm": float(np.sqrt(squares[-1])),
            "gradient norm before": float(np.sqrt(squares[0])),
        },
        since=since,
        severity=Severity.INFO if judgement(history, facts).has_learned else None,
    )
