"""The plot of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwatch.read import Comparison
from gradwatch.view.glance.layer_rows import without_root
from gradwatch.view.notebook.colours import ratio_scale
from gradwatch.view.notebook.naming import quantity
from gradwatch.view.notebook.plots.axes import as_text
from gradwatch.view.notebook.plots.heatmap_plot import draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_comparison(
    comparison: Comparison, run: int = 1, base: int = 0, ax: Axes | None = None
) -> Axes:
    """How many times a run's values are another's: as powers of 2, over time."""
    a, b = comparison.values[base], comparison.values[run]
    with np.errstate(all="ignore"):
        ratios = np.log2(np.abs(comparison.ratio(run, base)))
    names = comparison.names
    label, _ = quantity(comparison.kind, comparison.statistic)
    # A value of 0 in one of them is infinitely many times less: at the scale's end.
    is_zero = np.isinf(ratios) & np.isfinite(a) & np.isfinite(b)
    scale = ratio_scale(ratios)
    ratios = np.where(is_zero, np.sign(ratios) * scale.high, ratios)
    ax = draw(
        ax,
        ratios,
        np.isinf(a) | np.isinf(b),
        without_root([site.path for site in comparison.sites]),
        _edges(comparison),
        scale,
        f"log2 of {names[run]} / {names[base]}",
    )
    ax.set_xlabel("step" if comparison.align == "step" else "share of training")
    ax.set_title(as_text(label), loc="left")
    return ax


def _edges(comparison: Comparison) -> Any:
    """Columns are as wide as the narrowest distance between two of them."""
    begins = comparison.position
    width = float(np.diff(begins).min()) if begins.size > 1 else 1.0
    return np.concatenate([begins, [begins[-1] + width]])
