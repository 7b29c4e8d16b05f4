"""What `show` shows of a run, as plain facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradwatch.cli.faults import Fault, asking
from gradwatch.cli.opening import size_of
from gradwatch.core import Site, select
from gradwatch.read import Run
from gradwatch.view.glance import gradient_kind, queries

EXTREMES = 3
"""How many of the largest and of the smallest gradients are named."""


def chosen_sites(run: Run, pattern: select.Selector | None, kind: str | None = None) -> list[Site]:
    """The sites that are asked for.

    Raises:
        Fault: that is none, though there are some.
    """
    with asking():
        sites = run.sites(kind, pattern)
    if not sites and run.sites():
        kinds = ", ".join(dict.fromkeys(str(site.kind) for site in run.sites()))
        what = (
            f"--kind {kind} --sites {pattern}" if pattern and kind else pattern or f"--kind {kind}"
        )
        raise Fault(f"{what} selects nothing of {run.name}, which has {kinds}. See gradwatch show.")
    return sites


def facts_of(run: Run) -> dict[str, Any]:
    """What the run is, in a few numbers."""
    kinds: dict[str, int] = {}
    for site in run.sites():
        kinds[str(site.kind)] = kinds.get(str(site.kind), 0) + 1
    epochs = [epoch.number for epoch in run.epochs if epoch.number > 0]
    fits = run.facts.get("fits") or [{}]
    return {
        "name": run.name,
        "path": str(run.path),
        "status": str(run.status),
        "started": run.started,
        "duration": run.duration,
        "last_step": run.last_step,
        "measured_steps": len(run.steps()),
        "epochs": max(epochs, default=None),
        "ranks": list(run.ranks),
        "rank_statuses": [{**vars(each), "status": str(each.status)} for each in run.rank_statuses],
        "attempts": int(run.sql("select count(*) from attempts").fetchall()[0][0]),
        "sites": kinds,
        "rows": run.rows,
        "bytes": size_of(run.path),
        "cost": run.facts.get("cost"),
        "environment": fits[-1].get("environment"),
        "imported": fits[-1].get("imported"),
        "meaning": run.meaning,
    }


def health_of(run: Run, records: Mapping[Site, queries.Record]) -> dict[str, Any]:
    """What is wrong with the numbers, or with their record."""
    kind = gradient_kind(records)
    return {
        "nonfinite": [
            {
                "kind": str(site.kind),
                "path": site.path,
                "elements": record.nonfinite,
                "steps": record.nonfinite_steps,
                "first_step": record.first_nonfinite,
                "last_step": record.last_nonfinite,
            }
            for site, record in records.items()
            if record.nonfinite and not site.is_slice
        ],
        "zero_gradients": [
            {
                "path": site.path,
                "steps": record.zero_steps,
                "of": record.steps,
            }
            for site, record in records.items()
            if site.kind is kind and record.zero_steps and not site.is_slice
        ],
        "lost_rows": run.lost_rows,
        "damage": [{"file": str(d.file), "what": d.what} for d in run.damage],
    }


def extremes(
    newest: Mapping[Site, queries.Newest], records: Mapping[Site, queries.Record]
) -> dict[str, list[dict[str, Any]]]:
    """The gradients that are largest and smallest at their last measured step."""
    kind = gradient_kind(newest)
    own = [s for s in newest if s.kind is kind and not s.is_slice and newest[s].count]
    ordered = sorted(own, key=lambda site: -newest[site].l2)
    few = min(EXTREMES, (len(ordered) + 1) // 2)

    def about(site: Site) -> dict[str, Any]:
        record = records[site]
        return {
            "path": site.path,
            "step": newest[site].step,
            "l2": newest[site].l2,
            "peak": record.peak,
            "peak_step": record.peak_step,
        }

    return {
        "largest": [about(site) for site in ordered[:few]],
        "smallest": [about(site) for site in ordered[::-1][: min(few, len(ordered) - few)]],
    }
