"""A run in the few facts that Markdown and JSON tell of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from gradwatch.read import Run
from gradwatch.view.data import all_layer_rows, number_rows
from gradwatch.view.report.worst import worst_layers

COLUMNS = 24
"""How many values a series over time has at most."""
WORST = 12
"""How many layers are told apart as those to look at first."""


def digest(run: Run, data: Mapping[str, Any], rank: int, version: str) -> dict[str, Any]:
    """What a run was like: verdict, findings, layers, losses, facts.

    Args:
        run: the run.
        data: the contract's `RunData` of it.
        rank: the process of a parallel training that layers and losses are of.
        version: of this library.

    Returns:
        Plain facts. In numbers over time, None is where nothing was measured.
    """
    findings = data["findings"]
    alarms = [f["severity"] for f in findings if not f["explained_by"]]
    errors, warnings = alarms.count("error"), alarms.count("warning")
    own = all_layer_rows(run, COLUMNS, rank)
    worst = worst_layers(own, findings, WORST)
    by_name = {layer["layer"]: layer for layer in own}
    return {
        "gradwatch_report": version,
        "made": time.time(),
        "run": data["name"],
        "status": data["status"],
        "verdict": "errors" if errors else "warnings" if warnings else "healthy",
        "errors": errors,
        "warnings": warnings,
        "started": data["started"],
        "duration": data["duration"],
        "last_step": data["last_step"],
        "measured_steps": data["steps"],
        "ranks": data["ranks"],
        "rank": rank,
        "processes": _processes(data["processes"]),
        "findings": findings,
        "worst_layers": [{**by_name[name], "why": why} for name, why in worst.items()],
        # Their courses would be most of the text, and are for those to look at.
        "layers": [
            {key: value for key, value in layer.items() if key != "gradient_trend"} for layer in own
        ],
        "numbers": number_rows(run, run.sites(), COLUMNS, rank),
        "meaning": data["meaning"],
        "facts": data["facts"],
        "cost": data["cost"],
        "damage": data["damage"],
        "lost_rows": data["lost_rows"],
    }


def _processes(about: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """One entry for each process of several."""
    if about is None:
        return []
    names = ("rank", "status", "first_step", "first_time", "last_step", "last_time")
    rows = zip(*(about[name] for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]
