"""Losses, learning rates and other numbers over time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradwatch.sites import Site
from gradwatch.store.reader.rows import Rows
from gradwatch.store.reader.series import VALUE
from gradwatch.view.data.plain import Answer, doubles, whole
from gradwatch.view.data.shown import Shown, Window


def number_sites(shown: Shown) -> list[Site]:
    """What is one number: losses first, as people look for them first."""
    sites = [site for site in shown.run.site_order if site.kind.is_number]
    return sorted(sites, key=lambda site: site.kind != "loss")


def numbers(shown: Shown, window: Window, most_cells: int = 150_000) -> Answer:
    """`NumbersData` of `types.ts`; all of them have columns of one width.

    Args:
        shown: the run.
        window: which columns.
        most_cells: of all numbers together; with very many of them, columns are fewer.
    """
    sites = number_sites(shown)
    kinds = list(dict.fromkeys(site.kind for site in sites))
    if not kinds:
        return {"numbers": []}
    columns = max(1, min(window.columns, most_cells // len(sites)))
    window = replace(window, columns=columns)
    steps = np.unique(np.concatenate([shown.steps(kind) for kind in kinds]))
    bucketing = window.bucketing(steps)
    answers = []
    for kind in kinds:
        own = [site for site in sites if site.kind is kind]
        rows = Rows.of([[site] for site in own])
        table = shown.run.row_table(kind, rows, [VALUE], bucketing, window.stretch, shown.rank)
        for i, site in enumerate(own):
            measured = np.flatnonzero(table.steps[i] > 0)
            last = table.cell_last[i][measured]
            chosen = measured[window.changed(bucketing, last.astype(np.int64))]
            answers.append(
                {
                    "kind": str(kind),
                    "path": site.path,
                    "first": whole(table.cell_first[i][chosen]),
                    "last": whole(table.cell_last[i][chosen]),
                    "width": bucketing.span,
                    "complete": window.is_complete(bucketing),
                    "values": doubles(table.values[VALUE][i][chosen]),
                }
            )
    return {"numbers": answers}
