"""A comparison, and a heatmap, as HTML."""

from __future__ import annotations

import numpy as np

from gradwatch.read import Comparison, Heatmap
from gradwatch.view.glance.layer_rows import without_root
from gradwatch.view.glance.words import compact, counted, percent
from gradwatch.view.notebook import markup
from gradwatch.view.notebook import svg as picture
from gradwatch.view.notebook.colours import ratio_scale, scale_for
from gradwatch.view.notebook.folding import strongest
from gradwatch.view.notebook.naming import quantity

ROWS, COLUMNS, DIFFERENT, PICTURES = 40, 120, 5, 3


def comparison_html(comparison: Comparison) -> str:
    """How unlike the runs are, where most, and their ratio over time."""
    base = comparison.names[0]
    what = f"{comparison.kind} {comparison.statistic}"
    parts = [
        markup.line(
            f"<b>{markup.text(', '.join(comparison.names[1:]), 120)}</b>",
            markup.text(f"compared with {base}: {what} of "),
            markup.text(counted(len(comparison.sites), "site")),
        )
    ]
    for name, own in comparison.only.items():
        if own:
            words = f"only in {name}: {counted(len(own), 'site')}"
            parts.append(markup.line(markup.text(words, 160), style=markup.MUTED))
    for run in range(1, min(len(comparison.names), 1 + PICTURES)):
        parts += [_differences(comparison, run), markup.line(_ratios(comparison, run))]
    if len(comparison.names) > 1 + PICTURES:
        more = len(comparison.names) - 1 - PICTURES
        parts.append(markup.line(markup.text(f"and {counted(more, 'more run')}")))
    return markup.whole(*parts)


def heatmap_html(found: Heatmap) -> str:
    """The heatmap, in as many rows and columns as one can look at."""
    values, bad = found.values[:ROWS], found.nonfinite[:ROWS] > 0
    shrunk, marked, each = strongest(values, bad, COLUMNS)
    title = markup.line(f"<b>{markup.text(repr(found))}</b>")
    if not shrunk.size:
        return markup.whole(title)
    names = without_root([site.path for site in found.sites])[:ROWS]
    ends = f"step {int(found.first[0]):,}", f"step {int(found.last[-1]):,}"
    label, scale = quantity(found.kind, found.statistic)
    drawn = picture.heatmap(shrunk, marked, names, ends, scale_for(shrunk, scale), label)
    return markup.whole(title, markup.line(drawn), *_left_out(len(found.sites), each))


def _differences(comparison: Comparison, run: int) -> str:
    a, b = comparison.names[0], comparison.names[run]
    rows = []
    for site, unlike in comparison.most_different(DIFFERENT, run):
        i = comparison.sites.index(site)
        both = ~np.isnan(comparison.values[0, i]) & ~np.isnan(comparison.values[run, i])
        last = np.flatnonzero(both)[-1]
        values = [float(comparison.values[r, i, last]) for r in (0, run)]
        rows.append([markup.text(site.path, 60), *(compact(v) for v in values), percent(unlike)])
    header = ["most different", *(f"last of {markup.text(n, 24)}" for n in (a, b)), "unlike"]
    return markup.table(header, rows, frozenset({0})) if rows else ""


def _ratios(comparison: Comparison, run: int) -> str:
    with np.errstate(all="ignore"):
        ratios = np.log2(np.abs(comparison.ratio(run)))
    bad = np.isinf(comparison.values[run]) | np.isinf(comparison.values[0])
    shrunk, marked, each = strongest(ratios[:ROWS], bad[:ROWS], COLUMNS)
    if not shrunk.size:
        return ""
    names = without_root([site.path for site in comparison.sites])[:ROWS]
    ends = tuple(_position(comparison, c) for c in (0, -1))
    scale = ratio_scale(shrunk)
    unit = f"log2 of {comparison.names[run]} / {comparison.names[0]}"
    drawn = picture.heatmap(shrunk, marked, names, (ends[0], ends[1]), scale, unit)
    return drawn + "".join(_left_out(len(comparison.sites), each))


def _position(comparison: Comparison, column: int) -> str:
    position = float(comparison.position[column])
    return f"step {position:,.0f}" if comparison.align == "step" else percent(position)


def _left_out(sites: int, each: int) -> list[str]:
    said = []
    if each > 1:
        said.append(f"A cell shows the largest of {each} columns.")
    if sites > ROWS:
        said.append(f"{counted(sites - ROWS, 'more site')} are not shown.")
    return [markup.line(markup.text(" ".join(said)), style=markup.MUTED)] if said else []
