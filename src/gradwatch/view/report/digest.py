"""The facts of a run for reports in Markdown and JSON."""

import time
from collections.abc import Mapping
from typing import Any

from gradwatch.read import Run
from gradwatch.view.data import Answer, all_layer_rows, cast_rows, number_rows, told_facts
from gradwatch.view.report.worst_layers import MAX_LAYERS, worst_layers

COLUMNS = 24
_OVERVIEW = (
    "status", "health", "started", "duration", "last_step", "ranks", "findings", "learning",
    "meaning", "facts", "cost", "damage", "lost_rows",
)  # fmt: skip


def digest(run: Run, overview: Answer, rank: int, version: str) -> Answer:
    """Verdict, findings, layers, losses, facts, from the `RunData` of `types.ts`.

    Layers and losses are those of `rank`. Numbers over time are None where nothing was measured.
    """
    health = overview["health"]
    errors, warnings = health["errors"], health["warnings"]
    layers = all_layer_rows(run, COLUMNS, rank)
    worst = worst_layers(layers, overview["findings"], MAX_LAYERS)
    by_name = {layer["layer"]: layer for layer in layers}
    return {
        "gradwatch_report": version,
        "made": time.time(),
        "run": overview["name"],
        "verdict": "errors" if errors else "warnings" if warnings else "healthy",
        "errors": errors,
        "warnings": warnings,
        "measured_steps": overview["steps"],
        "rank": rank,
        "processes": _processes(overview["processes"]),
        **{name: overview[name] for name in _OVERVIEW},
        **told_facts(run),
        "worst_layers": [{**by_name[name], "why": why} for name, why in worst.items()],
        # Only the worst layers have their gradient over time: it would be most of the text.
        "layers": [{k: v for k, v in each.items() if k != "gradient_trend"} for each in layers],
        "numbers": number_rows(run, run.sites(), COLUMNS, rank),
        "casts": cast_rows(run, run.sites(), rank),
    }


def _processes(columns: Mapping[str, Any] | None) -> list[Answer]:
    """One entry for each of several processes."""
    if columns is None:
        return []
    names = ("rank", "status", "first_step", "first_time", "last_step", "last_time")
    rows = zip(*(columns[name] for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]
