"""What `show` shows of a run, as plain facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradwatch import select
from gradwatch.cli import queries
from gradwatch.cli.faults import Fault, asking
from gradwatch.cli.opening import size_of
from gradwatch.sites import Kind, Site
from gradwatch.store.reader.run import Run

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


def gradient_kind(sites: Iterable[Site]) -> Kind | None:
    """The kind of gradient to show of these: as computed, or else as applied."""
    kinds = {site.kind for site in sites}
    return next((k for k in (Kind.GRADIENT, Kind.APPLIED_GRADIENT) if k in kinds), None)


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


def layers_of(
    run: Run,
    sites: Sequence[Site],
    newest: Mapping[Site, queries.Newest],
    records: Mapping[Site, queries.Record],
    columns: int,
    rank: int,
) -> list[dict[str, Any]]:
    """One entry a layer, in network order: its newest norms, and its gradient over time."""
    members: dict[str, list[Site]] = {}
    for site in sites:
        is_of_network = not (site.kind.is_number or site.kind.is_of_batch)
        if is_of_network and not site.is_slice and site in newest:
            members.setdefault(site.layer, []).append(site)
    kind = gradient_kind(site for own in members.values() for site in own)
    trends = {} if kind is None else _trends(run, kind, members, columns, rank)

    def layer(name: str, own: Sequence[Site]) -> dict[str, Any]:
        def of(*kinds: Kind | None) -> list[queries.Newest]:
            return [newest[site] for site in own if site.kind in kinds]

        variables = [newest[site].count for site in own if site.kind is Kind.WEIGHT]
        gradients = of(kind)
        elements = sum(each.count for each in gradients)
        return {
            "layer": name,
            "parameters": sum(variables) or elements,
            "weight_l2": _norm(of(Kind.WEIGHT)),
            "gradient_l2": _norm(gradients),
            "gradient_trend": trends.get(name),
            "update_ratio": _ratio(own, newest),
            "gradient_zero_share": sum(each.zeros for each in gradients) / elements
            if elements
            else None,
            "output_l2": _norm(of(Kind.OUTPUT)),
            "nonfinite": sum(records[site].nonfinite for site in own),
        }

    return [layer(name, own) for name, own in members.items()]


def numbers_of(run: Run, sites: Sequence[Site], columns: int, rank: int) -> list[dict[str, Any]]:
    """One entry for each loss, and each other thing that is one number."""
    known = queries.numbers(run, rank)
    entries = []
    for kind in dict.fromkeys(site.kind for site in sites if site.kind.is_number):
        own = [site for site in sites if site.kind is kind and site in known]
        trend = sparse_heatmap(run, own, "value", columns, rank)
        for site in own:
            entries.append(
                {
                    "kind": str(kind),
                    "path": site.path,
                    **vars(known[site]),
                    "trend": trend[site],
                }
            )
    return entries


def sparse_heatmap(
    run: Run, sites: Sequence[Site], statistic: str, columns: int, rank: int
) -> dict[Site, dict[str, Any]]:
    """A statistic of some sites of one kind over time, in at most so many columns."""
    if not sites:
        return {}
    wanted = set(sites)
    chosen = select.where(lambda info: info.site in wanted)
    # Slices are sites too; a selector leaves them out unless it says that it is about them.
    pattern = select.Selector(chosen.name, chosen.matches, of_slices=True)
    with asking():
        cells = columns * len(sites)
        found = run.heatmap(sites[0].kind, statistic, max_cells=cells, pattern=pattern, rank=rank)
    return {
        site: {
            "first_steps": found.first.tolist(),
            "last_steps": found.last.tolist(),
            "values": [None if math.isnan(v) else v for v in found.values[i].tolist()],
            "nonfinite": found.nonfinite[i].astype(int).tolist(),
        }
        for i, site in enumerate(found.sites)
    }


def _trends(
    run: Run, kind: Kind, members: Mapping[str, Sequence[Site]], columns: int, rank: int
) -> dict[str, dict[str, Any]]:
    """The L2 norm of each layer's gradient over time: squares add up."""
    own = [site for sites in members.values() for site in sites if site.kind is kind]
    by_site = sparse_heatmap(run, own, "l2", columns, rank)
    trends = {}
    for name, sites in members.items():
        parts = [by_site[site] for site in sites if site.kind is kind]
        if parts:
            values = np.array([part["values"] for part in parts], np.float64)
            norms = np.sqrt(np.nansum(values**2, axis=0))
            norms[np.isnan(values).all(axis=0)] = np.nan
            trends[name] = {
                **parts[0],
                "values": [None if math.isnan(norm) else norm for norm in norms.tolist()],
                "nonfinite": np.sum([part["nonfinite"] for part in parts], axis=0).tolist(),
            }
    return trends


def _norm(measured: Sequence[queries.Newest]) -> float | None:
    return math.sqrt(sum(each.l2**2 for each in measured)) if measured else None


def _ratio(sites: Sequence[Site], newest: Mapping[Site, queries.Newest]) -> float | None:
    """The size of a layer's update relative to its weights', where both are known."""
    pairs = [
        (newest[site].l2, newest[weight].l2)
        for site in sites
        if site.kind is Kind.UPDATE and (weight := Site(Kind.WEIGHT, site.path)) in newest
    ]
    size = math.hypot(*(weight for _, weight in pairs))
    return math.hypot(*(update for update, _ in pairs)) / size if size > 0 else None
