"""Small pictures as SVG: a heatmap, a line, a bar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.util import breadth
from gradwatch.view.glance.words import compact
from gradwatch.view.notebook.colours import LEVELS, NOT_FINITE, Scale
from gradwatch.view.notebook.markup import text

Values = NDArray[np.float64]

WIDTH = 520
"""Of the cells of a heatmap."""
_LETTER = 6.2
_LONGEST_LABEL = 34
_FONT = 'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="10" fill="currentColor"'
_ZERO = "#808080"
_CRISP = 'shape-rendering="crispEdges"'  # or the ground shines through between cells


def heatmap(
    values: Values,
    marked: NDArray[np.bool_],
    labels: Sequence[str],
    ends: tuple[str, str],
    scale: Scale,
    unit: str,
) -> str:
    """A heatmap with its labels, the ends of its time axis, and its legend.

    Args:
        values: rows by columns; NaN where there is none, which stays empty.
        marked: the cells to be shown as not finite.
        labels: the rows' names.
        ends: what to say below the first and the last column.
        scale: which colour a value has.
        unit: what the values are.
    """
    rows, columns = values.shape
    high = 14 if rows <= 40 else max(3, 560 // rows)
    shown = [text(label, _LONGEST_LABEL) for label in labels]
    left = 8 + _LETTER * max((min(breadth(x), _LONGEST_LABEL) for x in labels), default=0)
    left = left if high >= 10 else 8.0
    broad = WIDTH / max(columns, 1)
    places = scale.places(values)
    levels = np.where(np.isnan(places), -2, np.round(places * (LEVELS - 1)))
    levels = np.where(places == -1.0, -1, levels)
    levels = np.where(marked | np.isinf(values), LEVELS, levels).astype(int)
    parts = [
        f'<path fill="{colour}" d="{path}" {_CRISP}/>'
        for level, colour in enumerate([*scale.colours(), NOT_FINITE])
        if (path := _cells(levels == level, left, broad, high))
    ]
    if path := _cells(levels == -1, left, broad, high):
        parts.insert(0, f'<path fill="{_ZERO}" d="{path}" {_CRISP}/>')
    if (levels == LEVELS).any():
        # A cross too: not by colour alone.
        parts.append(_crosses(levels == LEVELS, left, broad, high))
    for i, label in enumerate(shown):
        middle = i * high + high / 2
        if high >= 10:
            parts.append(
                f'<text x="{left - 6:.1f}" y="{middle + 3.5:.1f}" text-anchor="end" {_FONT}>'
                f"{label}</text>"
            )
        parts.append(
            f'<rect x="{left:.1f}" y="{i * high}" width="{WIDTH}" height="{high}" fill="none" '
            f'pointer-events="all"><title>{text(labels[i])}: {_told(values[i], marked[i])}</title>'
            "</rect>"
        )
    bottom = rows * high + 13
    parts.append(f'<text x="{left:.1f}" y="{bottom}" {_FONT}>{text(ends[0])}</text>')
    parts.append(
        f'<text x="{left + WIDTH:.1f}" y="{bottom}" text-anchor="end" {_FONT}>'
        f"{text(ends[1])}</text>"
    )
    legend = _legend(scale, unit, left, bottom + 8, bool((levels == LEVELS).any()))
    size = left + WIDTH + 8, bottom + 34
    return _svg(*size, "".join(parts) + legend, f"Heatmap: {unit}")


def line(values: Values, width: int = 160, high: int = 28) -> str:
    """A series as a line from its lowest to its highest value; gaps where there is none."""
    finite = np.isfinite(values)
    low, top = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 1.0)
    span = top - low if top > low else 1.0
    step = (width - 4) / max(values.size - 1, 1)
    path, pen = [], "M"
    for i, value in enumerate(values.tolist()):
        if not finite[i]:
            pen = "M"
            continue
        path.append(f"{pen}{2 + i * step:.1f} {high - 3 - (value - low) / span * (high - 6):.1f}")
        pen = "L"
    marks = "".join(
        f'<circle cx="{2 + i * step:.1f}" cy="4" r="2.5" fill="{NOT_FINITE}"/>'
        for i, value in enumerate(values.tolist())
        if np.isinf(value)
    )
    drawn = f'<path d="{"".join(path)}" fill="none" stroke="#2a7fc0" stroke-width="1.5"/>{marks}'
    return _svg(width, high, drawn, f"from {compact(float(low))} to {compact(float(top))}")


def bar(share: float, told: str, width: int = 90, high: int = 10) -> str:
    """A bar of a share of its width."""
    length = max(0.0, min(share, 1.0)) * width
    drawn = f'<rect width="{length:.1f}" height="{high}" fill="#2a7fc0"/>'
    return _svg(width, high, drawn, told)


def _cells(chosen: NDArray[np.bool_], left: float, broad: float, high: int) -> str:
    """The cells as one path, neighbours in a row joined."""
    path = []
    for row in np.flatnonzero(chosen.any(axis=1)):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen[row], [0]]).astype(int)))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            path.append(
                f"M{left + start * broad:.1f} {row * high}h{(end - start) * broad:.1f}"
                f"v{high}h{-(end - start) * broad:.1f}z"
            )
    return "".join(path)


def _crosses(chosen: NDArray[np.bool_], left: float, broad: float, high: int) -> str:
    lines = []
    for row, column in np.argwhere(chosen).tolist():
        x, y = left + column * broad, row * high
        lines.append(f"M{x:.1f} {y}l{broad:.1f} {high}M{x + broad:.1f} {y}l{-broad:.1f} {high}")
    return f'<path d="{"".join(lines)}" stroke="#000" stroke-width="0.7" fill="none"/>'


def _legend(scale: Scale, unit: str, left: float, top: int, has_marks: bool) -> str:
    size = 160
    parts = [
        f'<rect x="{left + i * size / LEVELS:.1f}" y="{top}" width="{size / LEVELS + 0.2:.1f}" '
        f'height="8" fill="{colour}"/>'
        for i, colour in enumerate(scale.colours())
    ]
    anchors = {0.0: "start", 0.5: "middle", 1.0: "end"}
    for place, anchor in anchors.items():
        parts.append(
            f'<text x="{left + place * size:.1f}" y="{top + 18}" text-anchor="{anchor}" {_FONT}>'
            f"{compact(scale.at(place))}</text>"
        )
    words = text(unit) + (", logarithmic" if scale.is_log else "")
    parts.append(f'<text x="{left + size + 10:.1f}" y="{top + 8}" {_FONT}>{words}</text>')
    if has_marks:
        x = left + size + 10
        parts.append(
            f'<rect x="{x:.1f}" y="{top + 11}" width="10" height="8" fill="{NOT_FINITE}"/>'
        )
        parts.append(f'<text x="{x + 15:.1f}" y="{top + 19}" {_FONT}>NaN or Inf</text>')
    return "".join(parts)


def _told(values: Values, marked: NDArray[np.bool_]) -> str:
    known = values[~np.isnan(values)]
    if not known.size:
        return "not measured"
    low, top, last = map(float, (known.min(), known.max(), known[-1]))
    bad = f", NaN or Inf in {int(marked.sum())} columns" if marked.any() else ""
    return f"last {compact(last)}, from {compact(low)} to {compact(top)}{bad}"


def _svg(width: float, high: float, inside: str, told: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {width:.0f} {high:.0f}" role="img" aria-label="{text(told)}" '
        f'style="max-width:100%;vertical-align:middle">{inside}</svg>'
    )
