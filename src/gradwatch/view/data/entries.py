"""A run in the list of runs."""

from collections.abc import Sequence

import numpy as np

from gradwatch.diagnosis import Finding
from gradwatch.read import Run
from gradwatch.view.data.health import health_of, unreadable
from gradwatch.view.data.plain import Answer, number

_UNKNOWN = (
    "status", "started", "duration", "last_step", "steps", "sites", "loss", "health", "error",
)  # fmt: skip


def unknown_entry(id: str, name: str) -> Answer:
    """`RunEntry` of `types.ts` for a run that has not been opened."""
    return {"id": id, "name": name, **dict.fromkeys(_UNKNOWN)}


def broken_entry(id: str, name: str, error: str) -> Answer:
    """The entry of a run that cannot be opened."""
    health = unreadable(error).facts()
    return {**unknown_entry(id, name), "status": "broken", "health": health, "error": error}


def entry(run: Run, id: str, name: str, findings: Sequence[Finding] | None) -> Answer:
    """The entry of a run; findings are None if it was not diagnosed."""
    losses = run.sites("loss")
    last = np.zeros(0)
    if losses:
        _, last = run.series("loss", losses[0].path, "value")
    return {
        **unknown_entry(id, name),
        "status": str(run.status),
        "started": run.started,
        "duration": run.duration,
        "last_step": run.last_step,
        "steps": int(run.measured_steps.size),
        "sites": len(run.site_order),
        "loss": number(float(last[-1])) if last.size else None,
        "health": health_of(run, findings).facts(),
    }
