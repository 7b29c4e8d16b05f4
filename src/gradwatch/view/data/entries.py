"""A run in the list of runs."""

from collections.abc import Sequence

from gradwatch.diagnosis import Finding
from gradwatch.read import Outline, Run, outline_of
from gradwatch.view.data.health import health_of, unreadable
from gradwatch.view.data.plain import Answer, number

_UNKNOWN = (
    "status", "started", "duration", "last_step", "steps", "sites", "loss", "health", "error",
    "metrics", "course", "config", "tags", "note",
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
    outline = outline_of(run)
    return {
        **unknown_entry(id, name),
        "status": str(run.status),
        "started": run.started,
        "duration": run.duration,
        "last_step": run.last_step,
        "steps": int(run.measured_steps.size),
        "sites": len(run.site_order),
        "loss": next(map(number, outline.losses.values()), None),
        "health": health_of(run, findings).facts(),
        **outline_facts(outline),
    }


def outline_facts(outline: Outline) -> Answer:
    """Metrics, the course of the loss, and what the user told of the run."""
    return {
        "metrics": {name: number(value) for name, value in outline.metrics.items()},
        "course": [number(value) for value in outline.course],
        "config": {
            name: number(value) if isinstance(value, float) else value
            for name, value in outline.config.items()
        },
        "tags": list(outline.tags),
        "note": outline.note,
    }
