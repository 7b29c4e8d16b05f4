"""The layers of a run: how they stand, and their gradients over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradwatch.core import Kind, Site
from gradwatch.read import Run
from gradwatch.view.glance import queries
from gradwatch.view.glance.trends import trends_of


def gradient_kind(sites: Iterable[Site]) -> Kind | None:
    """The kind of gradient to show of these: as computed, or else as applied."""
    kinds = {site.kind for site in sites}
    return next((k for k in (Kind.GRADIENT, Kind.APPLIED_GRADIENT) if k in kinds), None)


def is_of_network(site: Site) -> bool:
    """Whether it counts for its layer: no loss, nothing of the batch, no part of another."""
    return not (site.kind.is_number or site.kind.is_of_batch or site.is_slice)


def without_root(paths: Sequence[str]) -> list[str]:
    """Paths without the model's name, where that begins all of them.

    >>> from gradwatch.view.glance.layer_rows import without_root
    >>> without_root(["net/conv", "net/dense"])
    ['conv', 'dense']
    """
    roots = {path.partition("/")[0] for path in paths}
    short = [path.partition("/")[2] for path in paths]
    return short if len(roots) == 1 and all(short) else list(paths)


def layers_of(
    run: Run,
    sites: Sequence[Site],
    newest: Mapping[Site, queries.Newest],
    nonfinite: Mapping[Site, int],
    columns: int,
    rank: int,
) -> list[dict[str, Any]]:
    """One entry a layer, in network order: its newest norms, and its gradient over time.

    Args:
        run: the run.
        sites: those of interest.
        newest: their last measurements.
        nonfinite: how many of their elements were NaN or infinite, over the whole run.
        columns: how many values a gradient over time has at most.
        rank: the process of a parallel training.
    """
    members: dict[str, list[Site]] = {}
    for site in sites:
        if is_of_network(site) and site in newest:
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
            "nonfinite": sum(nonfinite.get(site, 0) for site in own),
        }

    return [layer(name, own) for name, own in members.items()]


def _trends(
    run: Run, kind: Kind, members: Mapping[str, Sequence[Site]], columns: int, rank: int
) -> dict[str, dict[str, Any]]:
    """The L2 norm of each layer's gradient over time: squares add up."""
    own = [site for sites in members.values() for site in sites if site.kind is kind]
    by_site = trends_of(run, own, "l2", columns, rank)
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
