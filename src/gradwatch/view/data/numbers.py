"""Losses, learning rates and other numbers over time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradwatch.core import VALUE, Site
from gradwatch.read import RowGroups
from gradwatch.view.data.plain import Answer, doubles, whole
from gradwatch.view.data.rank_spread import bands
from gradwatch.view.data.run_view import RunView, Window
from gradwatch.view.data.trend_data import BOOKKEEPING

BANDS = 8
"""Of so many numbers it is told how far ranks are apart."""


def number_sites(view: RunView) -> list[Site]:
    """What is one number: losses first, as people look for them first."""
    sites = [
        site
        for site in view.run.site_order
        if site.kind.is_number and site.path.rpartition("/")[2] not in BOOKKEEPING
    ]
    return sorted(sites, key=lambda site: site.kind != "loss")


def own_numbers(view: RunView) -> list[Site]:
    """The numbers that several ranks have, each its own: losses first."""
    sites = number_sites(view)
    counts: dict[Site, int] = {}
    for kind in dict.fromkeys(site.kind for site in sites):
        counts |= {site: len(ranks) for site, ranks in view.run.recorded_by(kind).items()}
    return [site for site in sites if counts.get(site, 0) > 1]


def numbers(view: RunView, window: Window, most_cells: int = 150_000) -> Answer:
    """`NumbersData` of `types.ts`; all of them have columns of one width.

    Args:
        view: the run.
        window: which columns.
        most_cells: of all numbers together; with very many of them, columns are fewer.
    """
    sites = number_sites(view)
    kinds = list(dict.fromkeys(site.kind for site in sites))
    if not kinds:
        return {"numbers": []}
    columns = max(1, min(window.columns, most_cells // len(sites)))
    window = replace(window, columns=columns)
    steps = np.unique(np.concatenate([view.steps(kind) for kind in kinds]))
    bucketing = window.bucketing(steps)
    answers = []
    # Of more of them nobody looks at the ranks, and each takes a query of its own.
    of_ranks = own_numbers(view)[:BANDS]
    for kind in kinds:
        own = [site for site in sites if site.kind is kind]
        rows = RowGroups.of([[site] for site in own])
        table = view.run.row_table(kind, rows, [VALUE.name], bucketing, window.stretch, view.rank)
        banded = [site for site in own if site in of_ranks]
        band = bands(view.run, banded, bucketing, window.stretch, table.numbers)
        for i, site in enumerate(own):
            measured = np.flatnonzero(table.steps[i] > 0)
            last = table.cell_last[i][measured]
            chosen = measured[window.changed(bucketing, last.astype(np.int64))]
            spread = band.get(site)
            answers.append(
                {
                    "kind": str(kind),
                    "path": site.path,
                    "first": whole(table.cell_first[i][chosen]),
                    "last": whole(table.cell_last[i][chosen]),
                    "width": bucketing.span,
                    "complete": window.is_complete(bucketing),
                    "values": doubles(table.values[VALUE.name][i][chosen]),
                    "ranks": spread
                    and dict(
                        zip(
                            ("low", "median", "high"),
                            (doubles(each[chosen]) for each in spread),
                            strict=True,
                        )
                    ),
                }
            )
    return {"numbers": answers}
