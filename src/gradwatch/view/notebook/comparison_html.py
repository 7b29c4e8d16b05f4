"""A comparison, and a heatmap, as HTML."""

import numpy as np

from gradwatch.read import Comparison, Heatmap
from gradwatch.util import compact, counted, percent
from gradwatch.view.data import CellGrid, comparison_grid, heatmap_grid
from gradwatch.view.notebook import markup, svg

MAX_ROWS, MAX_COLUMNS, MAX_DIFFERENCES, MAX_HEATMAPS = 40, 120, 5, 3


def comparison_html(comparison: Comparison) -> str:
    """The largest differences between runs, and their ratio over time."""
    base, *others = comparison.names
    what = f"{comparison.kind} {comparison.statistic}"
    count = counted(len(comparison.sites), "site")
    parts = [
        markup.line(
            f"<b>{markup.text(', '.join(others), 120)}</b>",
            markup.text(f"compared with {base}: {what} of {count}"),
        )
    ]
    for name, own in comparison.only.items():
        if own:
            note = f"only in {name}: {counted(len(own), 'site')}"
            parts.append(markup.line(markup.text(note, 160), style=markup.MUTED))
    for run in range(1, 1 + min(len(others), MAX_HEATMAPS)):
        parts += [_differences(comparison, run), _drawn(comparison_grid(comparison, run))]
    more = len(others) - MAX_HEATMAPS
    if more > 0:
        parts.append(markup.line(markup.text(f"and {counted(more, 'more run')}")))
    return markup.whole(*parts)


def heatmap_html(heatmap: Heatmap) -> str:
    """The heatmap, in at most `MAX_ROWS` rows and `MAX_COLUMNS` columns."""
    title = markup.line(f"<b>{markup.text(repr(heatmap))}</b>")
    return markup.whole(title, _drawn(heatmap_grid(heatmap)))


def _differences(comparison: Comparison, run: int) -> str:
    rows = []
    for site, difference in comparison.most_different(MAX_DIFFERENCES, run):
        i = comparison.sites.index(site)
        pair = comparison.values[[0, run], i]
        last = np.flatnonzero(~np.isnan(pair).any(axis=0))[-1]
        values = map(compact, pair[:, last].tolist())
        rows.append([markup.text(site.path, 60), *values, percent(difference)])
    names = (f"last of {markup.text(comparison.names[r], 24)}" for r in (0, run))
    header = ["most different", *names, "difference"]
    return markup.table(header, rows, frozenset({0})) if rows else ""


def _drawn(grid: CellGrid) -> str:
    if not grid.values.size:
        return ""
    notes = []
    if (joined := grid.joined(MAX_COLUMNS)) > 1:
        notes.append(f"A cell shows the largest of {joined} columns.")
    if (hidden := len(grid.labels) - MAX_ROWS) > 0:
        notes.append(f"{counted(hidden, 'more site')} are not shown.")
    drawn = markup.line(svg.heatmap(grid.fitted(MAX_ROWS, MAX_COLUMNS)))
    return drawn + "".join(markup.line(markup.text(n), style=markup.MUTED) for n in notes)
