"""Small pictures as SVG: a heatmap, a line, a bar."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.util import compact, counted, display_width
from gradwatch.view.data import LEVELS, NOT_FINITE, CellGrid
from gradwatch.view.notebook.markup import text

Values = NDArray[np.float64]

WIDTH = 520
"""The width of all cells of a heatmap."""
_LETTER = 6.2
_MAX_LABEL = 34
_FONT = 'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="10" fill="currentColor"'
_ZERO = "#808080"
_CRISP = 'shape-rendering="crispEdges"'  # else the background shines through between cells


def heatmap(grid: CellGrid) -> str:
    """A heatmap with its labels, the captions of its columns, and its legend."""
    rows = len(grid.values)
    height = 14 if rows <= 40 else max(3, 560 // rows)
    has_labels = height >= 10
    longest = max((min(display_width(x), _MAX_LABEL) for x in grid.labels), default=0)
    left = 8 + _LETTER * longest * has_labels
    cell = left + _places(grid.edges) * WIDTH, height
    parts = [
        f'<path fill="{colour}" d="{path}" {_CRISP}/>'
        for colour, chosen in _by_colour(grid).items()
        if (path := _cells(chosen, *cell))
    ]
    if grid.nonfinite.any():
        parts.append(_crosses(grid.nonfinite, *cell))
    for i, label in enumerate(grid.labels):
        if has_labels:
            middle = i * height + height / 2
            parts.append(_text(left - 6, middle + 3.5, text(label, _MAX_LABEL), "end"))
        parts.append(
            f'<rect x="{left:.1f}" y="{i * height}" width="{WIDTH}" height="{height}" fill="none" '
            f'pointer-events="all"><title>{text(label)}: {_tooltip(grid, i)}</title></rect>'
        )
    bottom = rows * height + 13
    parts.append(_text(left, bottom, text(grid.ends[0])))
    parts.append(_text(left + WIDTH, bottom, text(grid.ends[1]), "end"))
    parts += _legend(grid, left, bottom + 8)
    return _svg(left + WIDTH + 8, bottom + 34, "".join(parts), f"Heatmap: {grid.quantity}")


def line(
    values: Values, marked: Sequence[float] | None = None, width: int = 160, height: int = 28
) -> str:
    """A series as a line, with gaps where nothing was measured, and dots where it is marked.

    Without `marked`, infinite values are.
    """
    finite = np.isfinite(values)
    low, top = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 1.0)
    span = top - low if top > low else 1.0
    step = (width - 4) / max(values.size - 1, 1)
    path, pen = [], "M"
    for i, value in enumerate(values.tolist()):
        if not finite[i]:
            pen = "M"
            continue
        path.append(
            f"{pen}{2 + i * step:.1f} {height - 3 - (value - low) / span * (height - 6):.1f}"
        )
        pen = "L"
    marks = "".join(
        f'<circle cx="{2 + i * step:.1f}" cy="4" r="2.5" fill="{NOT_FINITE}"/>'
        for i, value in enumerate(values.tolist())
        if (np.isinf(value) if marked is None else marked[i])
    )
    drawn = f'<path d="{"".join(path)}" fill="none" stroke="#2a7fc0" stroke-width="1.5"/>{marks}'
    return _svg(width, height, drawn, f"from {compact(float(low))} to {compact(float(top))}")


def bar(share: float, label: str, width: int = 90, height: int = 10) -> str:
    """A bar that fills a share of its width."""
    length = max(0.0, min(share, 1.0)) * width
    drawn = f'<rect width="{length:.1f}" height="{height}" fill="#2a7fc0"/>'
    return _svg(width, height, drawn, label)


def _by_colour(grid: CellGrid) -> dict[str, NDArray[np.bool_]]:
    positions = np.where(grid.nonfinite, np.nan, grid.scale.positions(grid.values))
    levels = np.round(positions * (LEVELS - 1))
    colours = enumerate(grid.scale.colours())
    found = {_ZERO: grid.zeros, **{colour: levels == level for level, colour in colours}}
    return {**found, NOT_FINITE: grid.nonfinite}


def _places(edges: Values) -> Values:
    """Where columns begin and the last one ends, from 0 to 1."""
    return (edges - edges[:1]) / (edges[-1:] - edges[:1])


def _cells(chosen: NDArray[np.bool_], x: Values, height: int) -> str:
    """The cells as one path, with neighbours in a row joined; `x` are the edges of columns."""
    path = []
    for row in np.flatnonzero(chosen.any(axis=1)):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen[row], [0]]).astype(int)))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            width = x[end] - x[start]
            path.append(f"M{x[start]:.1f} {row * height}h{width:.1f}v{height}h{-width:.1f}z")
    return "".join(path)


def _crosses(chosen: NDArray[np.bool_], x: Values, height: int) -> str:
    """Crosses, for readers who cannot tell the colour."""
    lines = []
    for row, column in np.argwhere(chosen).tolist():
        left, right, y = x[column], x[column + 1], row * height
        width = right - left
        lines.append(f"M{left:.1f} {y}l{width:.1f} {height}M{right:.1f} {y}l{-width:.1f} {height}")
    return f'<path d="{"".join(lines)}" stroke="#000" stroke-width="0.7" fill="none"/>'


def _legend(grid: CellGrid, left: float, top: int) -> list[str]:
    size, scale = 160, grid.scale
    parts = [
        f'<rect x="{left + i * size / LEVELS:.1f}" y="{top}" width="{size / LEVELS + 0.2:.1f}" '
        f'height="8" fill="{colour}"/>'
        for i, colour in enumerate(scale.colours())
    ]
    for position, anchor in {0.0: "start", 0.5: "middle", 1.0: "end"}.items():
        number = compact(scale.at(position))
        parts.append(_text(left + position * size, top + 18, number, anchor))
    x = left + size + 10
    parts.append(_text(x, top + 8, text(grid.quantity) + ", logarithmic" * scale.is_log))
    if grid.nonfinite.any():
        parts.append(
            f'<rect x="{x:.1f}" y="{top + 11}" width="10" height="8" fill="{NOT_FINITE}"/>'
        )
        parts.append(_text(x + 15, top + 19, "NaN or Inf"))
    return parts


def _tooltip(grid: CellGrid, row: int) -> str:
    values, bad = grid.values[row], grid.nonfinite[row]
    measured = np.flatnonzero(bad | ~np.isnan(values))
    if not measured.size:
        return "not measured"
    parts = [f"last {compact(float(values[measured[-1]]))}"]
    finite = values[np.isfinite(values)]
    if finite.size:
        parts.append(f"from {compact(float(finite.min()))} to {compact(float(finite.max()))}")
    if bad.any():
        parts.append(f"NaN or Inf in {counted(int(bad.sum()), 'column')}")
    return ", ".join(parts)


def _text(x: float, y: float, markup: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {_FONT}>{markup}</text>'


def _svg(width: float, height: float, inside: str, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{text(label)}" '
        f'style="max-width:100%;vertical-align:middle">{inside}</svg>'
    )
