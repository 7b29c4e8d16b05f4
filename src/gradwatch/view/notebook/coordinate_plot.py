"""Outputs of layers against the width of a model, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwatch.inspection import CoordinateCheck
from gradwatch.util import without_root
from gradwatch.view.notebook.axes import as_text, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_coordinates(found: CoordinateCheck, step: int, ax: Axes | None = None) -> Axes:
    """See `CoordinateCheck.plot`: layers that grow are drawn on top, thicker."""
    ax = axes_for(ax)
    names = without_root([layer.path for layer in found.layers])
    for name, layer in zip(names, found.layers, strict=True):
        is_bad = layer.scaling == "grows"
        ax.plot(
            found.widths,
            layer.sizes[step - 1].mean(axis=1),
            marker="o",
            linewidth=2.5 if is_bad else 1,
            alpha=1 if is_bad else 0.5,
            zorder=3 if is_bad else 2,
            label=as_text(f"{name}: {layer.scaling}"),
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(found.widths, [str(width) for width in found.widths])
    ax.set_xlabel("width")
    ax.set_ylabel("mean |output|")
    ax.set_title(f"step {step} of {found.steps}")
    ax.legend(fontsize="small")
    return ax
