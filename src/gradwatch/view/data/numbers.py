"""Losses, learning rates and other numbers over time."""

from dataclasses import replace

import numpy as np

from gradwatch.core import VALUE, Site
from gradwatch.read import RowGroups
from gradwatch.view.data.plain import Answer, doubles, whole
from gradwatch.view.data.rank_spread import spread_in
from gradwatch.view.data.run_view import RunView, Window
from gradwatch.view.data.trend_data import BOOKKEEPING

MAX_SPREADS = 8
"""The spread over ranks takes a query for each number; nobody looks at more of them."""


def number_sites(view: RunView) -> list[Site]:
    """The sites that are one number of a step, losses first; `curves` has what is reported."""
    sites = [
        site
        for site in view.run.site_order
        if site.kind.is_charted
        and not site.kind.is_reported
        and site.path.rpartition("/")[2] not in BOOKKEEPING
    ]
    return sorted(sites, key=lambda site: site.kind != "loss")


def rank_number_sites(view: RunView) -> list[Site]:
    """The numbers that several ranks have recorded, each its own, losses first."""
    sites = number_sites(view)
    counts: dict[Site, int] = {}
    for kind in dict.fromkeys(site.kind for site in sites):
        counts |= {site: len(ranks) for site, ranks in view.run.recorded_by(kind).items()}
    return [site for site in sites if counts.get(site, 0) > 1]


def numbers(view: RunView, window: Window, max_cells: int = 150_000) -> Answer:
    """`NumbersData` of `types.ts`; all numbers have columns of one width.

    `max_cells` is of all numbers together: very many numbers have fewer columns.
    """
    sites = number_sites(view)
    kinds = list(dict.fromkeys(site.kind for site in sites))
    if not kinds:
        return {"numbers": []}
    columns = max(1, min(window.columns, max_cells // len(sites)))
    window = replace(window, columns=columns)
    steps = {kind: view.steps(kind) for kind in kinds}
    bucketing = window.bucketing(np.unique(np.concatenate(list(steps.values()))))
    answers = []
    of_ranks = rank_number_sites(view)[:MAX_SPREADS]
    for kind in kinds:
        own = [site for site in sites if site.kind is kind]
        rows = RowGroups.of([[site] for site in own])
        stretch = window.around(steps[kind]).stretch
        table = view.run.row_table(kind, rows, [VALUE.name], bucketing, stretch, view.rank)
        for i, site in enumerate(own):
            measured = np.flatnonzero(table.steps[i] > 0)
            last = table.cell_last[i][measured].astype(np.int64)
            chosen = measured[window.changed(bucketing, last)]
            spread = None
            if site in of_ranks:
                found = spread_in(view.run, site, bucketing, stretch, table.numbers)
                spread = {name: doubles(values[chosen]) for name, values in found.items()}
            answers.append(
                {
                    "kind": str(kind),
                    "path": site.path,
                    "first": whole(table.cell_first[i][chosen]),
                    "last": whole(table.cell_last[i][chosen]),
                    "width": bucketing.span,
                    "complete": window.is_complete(bucketing),
                    "values": doubles(table.values[VALUE.name][i][chosen]),
                    "ranks": spread,
                }
            )
    return {"numbers": answers}
