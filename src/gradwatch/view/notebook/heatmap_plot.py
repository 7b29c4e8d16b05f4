"""A heatmap with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradwatch.read import Comparison, Heatmap
from gradwatch.view.data import (
    NOT_FINITE,
    CellGrid,
    comparison_grid,
    heatmap_grid,
    quantity,
)
from gradwatch.view.notebook.axes import as_text, axes_for, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_LABELS = 60
_MAX_CROSSES = 2_000


def plot_heatmap(heatmap: Heatmap, ax: Axes | None = None, title: str = "") -> Axes:
    """Draw a heatmap with its sites' names, steps and colour bar."""
    return plot_grid(heatmap_grid(heatmap), ax, "step", title)


def plot_comparison(
    comparison: Comparison, run: int = 1, base: int = 0, ax: Axes | None = None
) -> Axes:
    """Draw how many times a run's values are another's, as powers of 2, over time."""
    x_label = "step" if comparison.align == "step" else "share of training"
    label = quantity(comparison.kind, comparison.statistic).label
    return plot_grid(comparison_grid(comparison, run, base), ax, x_label, label)


def plot_grid(grid: CellGrid, ax: Axes | None, x_label: str, title: str) -> Axes:
    """Draw a grid of cells: the first row on top, zeros grey, nonfinite cells crossed out.

    Without `ax`, it is drawn on a new figure.
    """
    rows, edges, scale = len(grid.labels), grid.edges, grid.scale
    ax = axes_for(ax, 9.0, min(2.2 + 0.22 * rows, 14.0))
    from matplotlib.colors import ListedColormap, LogNorm, Normalize

    lines = np.arange(rows + 1) - 0.5
    bad, zeros = grid.nonfinite, grid.zeros
    shown = np.ma.masked_where(np.isnan(grid.values) | zeros | bad, grid.values)
    colours = "PuOr_r" if scale.is_diverging else "viridis" if scale.is_log else "OrRd"
    norm = LogNorm(scale.at(0), scale.at(1)) if scale.is_log else Normalize(scale.low, scale.high)
    mesh = ax.pcolormesh(edges, lines, shown, cmap=colours, norm=norm, rasterized=True)
    for chosen, colour, name in ((zeros, "#9a9a9a", "0"), (bad, NOT_FINITE, "NaN or Inf")):
        if chosen.any():
            cells = np.ma.masked_where(~chosen, np.ones(chosen.shape))
            ax.pcolormesh(edges, lines, cells, cmap=ListedColormap([colour]), rasterized=True)
            ax.plot([], [], "s", color=colour, label=name)
    if 0 < bad.sum() <= _MAX_CROSSES:
        # Crosses too, for readers who cannot tell the colour. In low rows they are all
        # that is visible.
        row, column = np.nonzero(bad)
        middle = (edges[:-1] + edges[1:]) / 2
        colour, size = ("black", 3) if rows <= _MAX_LABELS else (NOT_FINITE, 6)
        ax.plot(middle[column], row, "x", color=colour, markersize=size, markeredgewidth=0.9)
    if zeros.any() or bad.any():
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)
    every = max(1, -(-rows // _MAX_LABELS))
    ticks = list(range(0, rows, every))
    ax.set_yticks(ticks, [as_text(grid.labels[i]) for i in ticks], fontsize="small")
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_xlim(float(edges[0]), float(edges[-1]))
    pyplot().colorbar(mesh, ax=ax, label=as_text(grid.quantity))
    ax.set_xlabel(x_label)
    if title:
        ax.set_title(as_text(title), loc="left")
    return ax
