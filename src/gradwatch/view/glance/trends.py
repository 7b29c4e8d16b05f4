"""Statistics and numbers over time, in as many columns as there is room for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.core import Site, select
from gradwatch.read import Run
from gradwatch.view.glance import queries
from gradwatch.view.glance.sparkline import bars_for, sparkline

BOOKKEEPING = frozenset({"replica_of", "replica_hardware"})
"""Numbers that ranks record for whoever compares them; they are for no chart."""


def numbers_of(run: Run, sites: Sequence[Site], columns: int, rank: int) -> list[dict[str, Any]]:
    """One entry for each loss, and each other thing that is one number."""
    known = queries.numbers(run, rank)
    entries = []
    for kind in dict.fromkeys(site.kind for site in sites if site.kind.is_number):
        own = [site for site in sites if site.kind is kind and site in known]
        trend = trends_of(run, own, "value", columns, rank)
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


def trends_of(
    run: Run, sites: Sequence[Site], statistic: str, columns: int, rank: int
) -> dict[Site, dict[str, Any]]:
    """A statistic of some sites of one kind over time, in at most so many columns."""
    if not sites:
        return {}
    wanted = set(sites)
    chosen = select.where(lambda info: info.site in wanted)
    # Slices are sites too; a selector leaves them out unless it says that it is about them.
    pattern = select.Selector(chosen.name, chosen.matches, of_slices=True)
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


def bars(trend: Mapping[str, Any] | None, log: bool = True, encoding: str | None = "utf-8") -> str:
    """A trend as a line of small bars, in characters that the encoding has."""
    if trend is None:
        return ""
    values = [math.nan if v is None else v for v in trend["values"]]
    marked = [n > 0 for n in trend["nonfinite"]]
    return sparkline(values, marked, log=log, bars=bars_for(encoding))
