"""The cells of a heatmap: what notebooks draw as SVG and with matplotlib."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradwatch.read import Comparison, Heatmap
from gradwatch.util import percent, without_root
from gradwatch.view.data.colour_scale import ColourScale, ratio_scale, scale_for
from gradwatch.view.data.quantity import quantity

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CellGrid:
    """Rows over columns of steps; a value is NaN where there is nothing to show.

    `edges` are where each column begins, and where the last one ends; `ends` are captions of
    the first and the last column.
    """

    labels: list[str]
    values: Values
    nonfinite: NDArray[np.bool_]
    edges: Values
    ends: tuple[str, str]
    quantity: str
    scale: ColourScale

    @property
    def zeros(self) -> NDArray[np.bool_]:
        """The cells of value 0, which a logarithmic scale has no colour for."""
        return np.asarray(self.scale.is_log & (self.values == 0) & ~self.nonfinite)

    def fitted(self, rows: int, columns: int) -> CellGrid:
        """The first rows, with neighbouring columns joined until they fit.

        A joined column has the value of the largest magnitude; it is nonfinite if any is.
        """
        values, nonfinite = self.values[:rows], self.nonfinite[:rows]
        width = self.joined(columns)
        if width > 1:
            starts = np.arange(0, values.shape[1], width)
            pad = [(0, 0), (0, starts.size * width - values.shape[1])]
            shape = (len(values), -1, width)
            groups = np.pad(values, pad, constant_values=np.nan).reshape(shape)
            bad = np.pad(nonfinite, pad).reshape(shape)
            sizes = np.where(bad, np.inf, np.where(np.isnan(groups), -1.0, np.abs(groups)))
            at = sizes.argmax(axis=2)
            values = np.take_along_axis(groups, at[:, :, None], axis=2)[:, :, 0]
            nonfinite = np.asarray(bad.any(axis=2))
        edges = np.append(self.edges[:-1:width], self.edges[-1:])
        labels = self.labels[:rows]
        return replace(self, labels=labels, values=values, nonfinite=nonfinite, edges=edges)

    def joined(self, columns: int) -> int:
        """How many columns are joined into one to fit."""
        return max(1, math.ceil(len(self.edges[1:]) / columns))


def heatmap_grid(heatmap: Heatmap) -> CellGrid:
    label, scale = quantity(heatmap.kind, heatmap.statistic)
    return step_grid(
        without_root([site.path for site in heatmap.sites]),
        heatmap.shown,
        heatmap.nonfinite,
        (heatmap.first, heatmap.last),
        label,
        scale_for(heatmap.shown, scale),
    )


def step_grid(
    labels: list[str],
    values: Values,
    nonfinite: Values,
    steps: tuple[NDArray[np.int64], NDArray[np.int64]],
    label: str,
    scale: ColourScale,
) -> CellGrid:
    """A grid whose columns are stretches of steps, from the first to the last of each."""
    first, last = steps
    if not first.size:
        return CellGrid(labels, values, nonfinite > 0, np.zeros(0), ("", ""), label, scale)
    # A step is in the middle of its column.
    edges = np.append(first, last[-1:] + 1).astype(np.float64) - 0.5
    ends = f"step {int(first[0]):,}", f"step {int(last[-1]):,}"
    bad = (nonfinite > 0) | np.isinf(values)
    held = _held(bad | ~np.isnan(values), first)
    rows = np.arange(len(values))[:, None]
    shown = np.where(held >= 0, values[rows, held], np.nan)
    return CellGrid(labels, shown, bad[rows, held] & (held >= 0), edges, ends, label, scale)


def _held(known: NDArray[np.bool_], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """The column whose value each cell shows; -1 for none.

    A value is shown until the row's next one. The last value is shown for as long as the longest
    stretch before it; `viewer/src/cells/spans.ts` has the same rule.
    """
    columns = np.arange(first.size)
    held = np.maximum.accumulate(np.where(known, columns, -1), axis=1)
    for row, own in zip(held, known, strict=True):
        measured = first[own]
        longest = int(np.diff(measured).max()) if measured.size > 1 else 0
        row[first >= measured[-1:].sum() + max(longest, 1)] = -1
    return held


def comparison_grid(comparison: Comparison, run: int = 1, base: int = 0) -> CellGrid:
    """How many times a run's values are another's, as powers of 2."""
    names, begins = comparison.names, comparison.position
    both = [run, base]
    bad = comparison.measured[both] & ~np.isfinite(comparison.values[both])
    nonfinite = np.asarray(bad.any(axis=0))
    with np.errstate(all="ignore"):
        ratios = np.log2(np.abs(comparison.ratio(run, base)))
    scale = ratio_scale(ratios)
    # A value of 0 in one of them is at the end of the scale.
    is_zero = np.isinf(ratios) & ~nonfinite
    ratios = np.where(is_zero, np.sign(ratios) * scale.high, ratios)
    # Columns are as wide as the smallest distance between two of them.
    width = float(np.diff(begins).min()) if begins.size > 1 else 1.0
    edges = np.append(begins, begins[-1:] + width)
    ends = [
        f"step {position:,.0f}" if comparison.align == "step" else percent(position)
        for position in [*begins[:1].tolist(), *begins[-1:].tolist()]
    ] or ["", ""]
    labels = without_root([site.path for site in comparison.sites])
    label = f"log2 of {names[run]} / {names[base]}"
    return CellGrid(labels, ratios, nonfinite, edges, (ends[0], ends[-1]), label, scale)
