"""A comparison, and a heatmap, as HTML."""

import numpy as np
from numpy.typing import NDArray

from gradwatch.read import Comparison, Heatmap
from gradwatch.util import compact, counted, percent
from gradwatch.view.data import CellGrid, comparison_grid, heatmap_grid
from gradwatch.view.notebook import markup, svg

MAX_ROWS, MAX_COLUMNS, MAX_DIFFERENCES, MAX_HEATMAPS = 40, 120, 5, 3


def comparison_html(comparison: Comparison) -> str:
    """The largest differences between runs, and their ratio over time."""
    base, *others = comparison.names
    parts = [
        markup.line(
            f"<b>{markup.text(', '.join(others), 120)}</b>",
            markup.text(f"compared with {base}: {comparison.kind} {comparison.statistic}"),
        ),
        *(_numbers(each) for each in comparison.numbers),
        markup.line(markup.text(comparison.matching), style=markup.MUTED),
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


def _numbers(found: Comparison) -> str:
    """The course and the last value of each loss in each run."""
    rows = []
    for i, site in enumerate(found.sites[:MAX_DIFFERENCES]):
        own = (found.values[r, i][found.measured[r, i]] for r in range(len(found.names)))
        cells = [
            _line(_fitted(values), float(found.last[r, i])) if values.size else "-"
            for r, values in enumerate(own)
        ]
        rows.append([markup.text(site.path, 60), *cells])
    names = [markup.text(name, 24) for name in found.names]
    return markup.table([str(found.kind), *names], rows, frozenset({0})) if rows else ""


def _line(values: NDArray[np.float64], last: float) -> str:
    return f"{svg.line(values, (~np.isfinite(values)).tolist())} {compact(last)}"


def _fitted(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The last of every few values, so that there are at most `MAX_COLUMNS`."""
    every = max(1, -(-values.size // MAX_COLUMNS))
    return values[::-1][::every][::-1]


def heatmap_html(heatmap: Heatmap) -> str:
    """The heatmap, in at most `MAX_ROWS` rows and `MAX_COLUMNS` columns."""
    title = markup.line(f"<b>{markup.text(repr(heatmap))}</b>")
    return markup.whole(title, _drawn(heatmap_grid(heatmap)))


def _differences(comparison: Comparison, run: int) -> str:
    rows = []
    if not comparison.kind.is_number:
        cells = map(compact, comparison.model_last[[0, run]].tolist())
        rows.append(["model", *cells, ""])
    for site, difference in comparison.most_different(MAX_DIFFERENCES, run):
        i = comparison.sites.index(site)
        cells = map(compact, comparison.last[[0, run], i].tolist())
        rows.append([markup.text(site.path, 60), *cells, percent(difference)])
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
