"""The layers of a run: their newest norms, and their gradients over time."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gradwatch.core import Kind, LayerList, Site
from gradwatch.read import Run
from gradwatch.view.data import site_queries
from gradwatch.view.data.plain import Answer
from gradwatch.view.data.site_queries import LastMeasurement
from gradwatch.view.data.trend_data import trends


def gradient_kind(sites: Iterable[Site]) -> Kind | None:
    """The kind of gradient to show: as computed, or else as applied; None without any."""
    kinds = {site.kind for site in sites}
    return next((k for k in (Kind.GRADIENT, Kind.APPLIED_GRADIENT) if k in kinds), None)


def is_of_network(site: Site) -> bool:
    """Whether the site counts for its layer: no loss, no batch, no slice of another site."""
    return not (site.kind.is_number or site.kind.is_of_batch or site.is_slice)


def layer_rows(
    run: Run,
    sites: Sequence[Site],
    last: Mapping[Site, LastMeasurement],
    nonfinite: Mapping[Site, int],
    columns: int,
    rank: int,
) -> list[Answer]:
    """One entry for each layer, in network order: its newest norms, its gradient over time.

    `nonfinite` counts NaN and infinite elements over the whole run; `columns` is the most
    values of a gradient over time.
    """
    own = [site for site in sites if is_of_network(site) and site in last]
    members = LayerList(own).members(own)
    kind = gradient_kind(site for own in members.values() for site in own)
    over_time = {} if kind is None else _layer_trends(run, kind, members, columns, rank)

    def row(name: str, own: Sequence[Site]) -> Answer:
        def measured(kind: Kind | None) -> list[LastMeasurement]:
            return [last[site] for site in own if site.kind is kind]

        gradients, weights = measured(kind), measured(Kind.WEIGHT)
        elements = sum(each.count for each in gradients)
        return {
            "layer": name,
            "parameters": sum(each.count for each in weights) or elements,
            "weight_l2": _norm(weights),
            "gradient_l2": _norm(gradients),
            "gradient_trend": over_time.get(name),
            "update_ratio": _update_ratio(own, last),
            "gradient_zero_share": _zero_share(gradients),
            "output_l2": _norm(measured(Kind.OUTPUT)),
            "nonfinite": sum(nonfinite.get(site, 0) for site in own),
        }

    return [row(name, own) for name, own in members.items()]


def all_layer_rows(run: Run, columns: int, rank: int) -> list[Answer]:
    last = site_queries.last_measurements(run, rank)
    # The history of a site takes a pass over all rows; nothing else has the count.
    histories = site_queries.site_histories(run, rank)
    nonfinite = {site: each.nonfinite for site, each in histories.items()}
    return layer_rows(run, run.sites(), last, nonfinite, columns, rank)


def _layer_trends(
    run: Run, kind: Kind, members: Mapping[str, Sequence[Site]], columns: int, rank: int
) -> dict[str, Answer]:
    """The L2 norm of each layer's gradient over time: squares add up."""
    own = [site for sites in members.values() for site in sites if site.kind is kind]
    by_site = trends(run, own, "l2", columns, rank)
    layers = {}
    for name, sites in members.items():
        parts = [by_site[site] for site in sites if site.kind is kind]
        if parts:
            values = np.array([part["values"] for part in parts], np.float64)
            bad = np.array([part["nonfinite"] for part in parts])
            # A missing value is left out; one that is not finite makes the sum so.
            missing = np.isnan(values) & (bad == 0)
            norms = np.sqrt(np.sum(np.where(missing, 0.0, values) ** 2, axis=0))
            layers[name] = {
                **parts[0],
                "values": [
                    None if none else norm
                    for norm, none in zip(norms.tolist(), missing.all(axis=0), strict=True)
                ],
                "nonfinite": bad.sum(axis=0).tolist(),
            }
    return layers


def _norm(measured: Sequence[LastMeasurement]) -> float | None:
    """The L2 norm of all together: NaN if one is, which `hypot` would let infinity hide."""
    norms = [each.l2 for each in measured]
    if not norms:
        return None
    return math.nan if any(map(math.isnan, norms)) else math.hypot(*norms)


def _zero_share(measured: Sequence[LastMeasurement]) -> float | None:
    """NaN if no element is finite; None without any."""
    elements = sum(each.count for each in measured)
    if elements and not any(each.finite for each in measured):
        return math.nan
    return sum(each.zeros for each in measured) / elements if elements else None


def _update_ratio(sites: Sequence[Site], last: Mapping[Site, LastMeasurement]) -> float | None:
    """The norm of a layer's update relative to its weights', if both were measured."""
    pairs = [
        (last[site], last[weight])
        for site in sites
        if site.kind is Kind.UPDATE and (weight := Site(Kind.WEIGHT, site.path)) in last
    ]
    size = _norm([weight for _, weight in pairs])
    change = _norm([update for update, _ in pairs])
    return change / size if change is not None and size else None
