"""Statistics and numbers over time, in a given number of columns."""

import math
from collections.abc import Mapping, Sequence

from gradwatch.core import Kind, Site, select
from gradwatch.read import Run
from gradwatch.view.data import site_queries
from gradwatch.view.data.best_value import is_lower_better
from gradwatch.view.data.plain import Answer

BOOKKEEPING = frozenset({"replica_of", "replica_hardware"})
"""Numbers that ranks record so that they can be compared; no chart shows them."""


_ORDER = {kind: i for i, kind in enumerate((Kind.LOSS, Kind.METRIC, Kind.EPOCH_METRIC))}


def number_rows(run: Run, sites: Sequence[Site], columns: int, rank: int) -> list[Answer]:
    """One entry for each loss, metric or other number: its range, the best value, the trend.

    Losses come first, then metrics. The best is None where the name does not say what is better;
    where training reports a metric after steps and epochs, it is that of an epoch: after steps, it
    is of the epoch so far, which is best where an epoch has just begun with an easy batch.
    """
    known = site_queries.number_ranges(run, rank)
    entries = []
    kinds = dict.fromkeys(site.kind for site in sites if site.kind.is_charted)
    for kind in sorted(kinds, key=lambda kind: _ORDER.get(kind, len(_ORDER))):
        own = [site for site in sites if site.kind is kind and site in known]
        trend = trends(run, own, "value", columns, rank)
        entries += [
            {
                "kind": str(kind),
                "path": site.path,
                **vars(known[site]),
                **_best(site, _judged(site, known)),
                "trend": trend[site],
            }
            for site in own
        ]
    return entries


def _judged(site: Site, known: Mapping[Site, site_queries.NumberRange]) -> site_queries.NumberRange:
    """The numbers whose best is that of the site."""
    of_epochs = Site(Kind.EPOCH_METRIC, site.path)
    return known[of_epochs if site.kind is Kind.METRIC and of_epochs in known else site]


def _best(site: Site, known: site_queries.NumberRange) -> Answer:
    is_lower = is_lower_better(site.path) if site.kind in _ORDER else None
    if is_lower is None:
        return {"best": None, "best_step": None}
    if is_lower:
        return {"best": known.lowest, "best_step": known.lowest_step}
    return {"best": known.highest, "best_step": known.highest_step}


def trends(
    run: Run, sites: Sequence[Site], statistic: str, columns: int, rank: int
) -> dict[Site, Answer]:
    """A statistic of sites of one kind over time, in at most that many columns."""
    if not sites:
        return {}
    wanted = set(sites)
    chosen = select.where(lambda info: info.site in wanted)
    # Slices are sites too; only a selector with of_slices selects them.
    pattern = select.Selector(chosen.name, chosen.matches, of_slices=True)
    cells = columns * len(sites)
    found = run.heatmap(sites[0].kind, statistic, max_cells=cells, pattern=pattern, rank=rank)
    return {
        site: {
            "first_steps": found.first.tolist(),
            "last_steps": found.last.tolist(),
            # None where nothing was measured; NaN is a value.
            "values": [
                None if math.isnan(value) and not bad else value
                for value, bad in zip(found.shown[i].tolist(), found.nonfinite[i], strict=True)
            ],
            "nonfinite": found.nonfinite[i].astype(int).tolist(),
        }
        for i, site in enumerate(found.sites)
    }
