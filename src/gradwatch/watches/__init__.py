"""What to measure, where and when: watches, the plan, the budget, probes."""

from gradwatch.watches.budget import Cost
from gradwatch.watches.optional_watches import diagnosis_watches, number_watches
from gradwatch.watches.plan import DERIVED_KINDS, Due, Plan, Timetable
from gradwatch.watches.probes.probe import Pictures, Probe, SpectralNorms
from gradwatch.watches.state_watch import optimizer_state
from gradwatch.watches.vital_watches import (
    VITAL_KINDS,
    attention,
    logits,
    missing_vitals,
    residuals,
)
from gradwatch.watches.watch import (
    ATTENTION_KINDS,
    STATE_KINDS,
    Watch,
    applied_gradients,
    gradients,
    losses,
    output_gradients,
    outputs,
    pictures,
    probed,
    scalars,
    spectral_norms,
    updates,
    weights,
)

__all__ = [
    "ATTENTION_KINDS",
    "DERIVED_KINDS",
    "STATE_KINDS",
    "VITAL_KINDS",
    "Cost",
    "Due",
    "Pictures",
    "Plan",
    "Probe",
    "SpectralNorms",
    "Timetable",
    "Watch",
    "applied_gradients",
    "attention",
    "diagnosis_watches",
    "gradients",
    "logits",
    "losses",
    "missing_vitals",
    "number_watches",
    "optimizer_state",
    "output_gradients",
    "outputs",
    "pictures",
    "probed",
    "residuals",
    "scalars",
    "spectral_norms",
    "updates",
    "weights",
]
