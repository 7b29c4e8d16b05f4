"""A heatmap with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradwatch.view.notebook.colours import Scale
from gradwatch.view.notebook.plots.axes import NOT_FINITE, Values, as_text, axes_for, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

_MOST_LABELS = 60
_MOST_CROSSES = 2_000


def draw(
    ax: Axes | None,
    values: Values,
    marked: NDArray[np.bool_],
    names: Sequence[str],
    edges: Values,
    scale: Scale,
    label: str,
) -> Axes:
    """Draw rows by columns: the first row on top, with labels, colour bar and marks.

    Args:
        ax: where; None for a figure of its own.
        values: NaN where there is none, which stays empty.
        marked: the cells in which something was not finite.
        names: the rows'.
        edges: where columns begin, and the last one ends.
        scale: how values are coloured; 0 on a logarithmic one is grey.
        label: what they are.
    """
    rows = len(names)
    ax = axes_for(ax, 9.0, min(2.2 + 0.22 * rows, 14.0))
    from matplotlib.colors import ListedColormap

    lines = np.arange(rows + 1) - 0.5
    bad = marked | np.isinf(values)
    is_zero = scale.is_log & (values == 0) & ~bad
    shown = np.ma.masked_where(np.isnan(values) | is_zero | bad, values)
    colours = "PuOr_r" if scale.has_two_sides else "viridis"
    mesh = ax.pcolormesh(edges, lines, shown, cmap=colours, norm=_norm(scale), rasterized=True)
    for chosen, colour, name in ((is_zero, "#9a9a9a", "0"), (bad, NOT_FINITE, "NaN or Inf")):
        if chosen.any():
            cells = np.ma.masked_where(~chosen, np.ones(values.shape))
            ax.pcolormesh(edges, lines, cells, cmap=ListedColormap([colour]), rasterized=True)
            ax.plot([], [], "s", color=colour, label=name)
    if 0 < bad.sum() <= _MOST_CROSSES:
        # A cross too: not by colour alone.
        row, column = np.nonzero(bad)
        middle = (edges[:-1] + edges[1:]) / 2
        # In low rows the cross is all that is seen.
        colour, size = ("black", 3) if rows <= _MOST_LABELS else (NOT_FINITE, 6)
        ax.plot(middle[column], row, "x", color=colour, markersize=size, markeredgewidth=0.9)
    if is_zero.any() or bad.any():
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)
    every = max(1, -(-rows // _MOST_LABELS))
    ticks = list(range(0, rows, every))
    ax.set_yticks(ticks, [as_text(names[i]) for i in ticks], fontsize="small")
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_xlim(float(edges[0]), float(edges[-1]))
    pyplot().colorbar(mesh, ax=ax, label=as_text(label))
    return ax


def edges_of(first: NDArray[np.int64], last: NDArray[np.int64]) -> Values:
    """Where columns begin and end that show these first and last steps.

    >>> import numpy as np
    >>> from gradwatch.view.notebook.plots.heatmap_plot import edges_of
    >>> edges_of(np.array([1, 5]), np.array([3, 9])).tolist()
    [0.5, 4.0, 9.5]
    """
    between = (last[:-1] + first[1:]) / 2
    return np.concatenate([[first[0] - 0.5], between, [last[-1] + 0.5]])


def _norm(scale: Scale) -> Normalize:
    from matplotlib.colors import LogNorm, Normalize

    if scale.is_log:
        return LogNorm(scale.at(0.0), scale.at(1.0))
    return Normalize(scale.low, scale.high)
