"""What to measure, where and when: watches, the plan, the budget, probes."""

from gradwatch.watches.plan import Due, Plan, Timetable
from gradwatch.watches.watch import (
    Watch,
    applied_gradients,
    for_diagnosis,
    gradients,
    of_the_step,
    output_gradients,
    outputs,
    pictures,
    spectral_norms,
    updates,
    weights,
)

__all__ = [
    "Due",
    "Plan",
    "Timetable",
    "Watch",
    "applied_gradients",
    "for_diagnosis",
    "gradients",
    "of_the_step",
    "output_gradients",
    "outputs",
    "pictures",
    "spectral_norms",
    "updates",
    "weights",
]
