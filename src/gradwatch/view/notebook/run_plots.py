"""The plots of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradwatch.core import Kind, select
from gradwatch.read import Run
from gradwatch.view.data import NOT_FINITE, quantity, shown_series
from gradwatch.view.notebook.axes import as_text, axes_for, pyplot
from gradwatch.view.notebook.heatmap_plot import plot_heatmap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELLS = 100_000
_BANDS = ((0.01, 0.99), (0.05, 0.95), (0.25, 0.75))


class RunPlots:
    """Plots of a run with matplotlib, as `run.plot`: `pip install 'gradwatch[plot]'`.

    Each draws on the axes `ax`, or on a new figure, and returns the axes.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def heatmap(
        self,
        kind: Kind | str = Kind.GRADIENT,
        statistic: str = "l2",
        *,
        pattern: select.Spec | None = None,
        steps: tuple[int, int] | None = None,
        rank: int | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """A statistic of all sites over the whole run, the network's first site on top.

        Magnitudes have a logarithmic colour scale, on which 0 is grey. Cells with a NaN or
        infinite element are crossed out in magenta. Cells without a measurement are empty.

        Args:
            kind, statistic, pattern, steps, rank: as in `Run.heatmap`.
            ax: the axes to draw on.
        """
        pyplot()  # Fails before the run is read if matplotlib is not installed.
        found = self._run.heatmap(
            kind, statistic, max_cells=_CELLS, pattern=pattern, steps=steps, rank=rank
        )
        return plot_heatmap(found, ax, self._run.name)

    def series(
        self,
        kind: Kind | str,
        path: str | Sequence[str],
        *statistics: str,
        rank: int | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Statistics of a site over time, on a logarithmic axis if they are magnitudes.

        Steps with a NaN or infinite element have a gap, and a magenta mark at the bottom.

        Args:
            kind: what was measured.
            path: the site, layer or block, as in `Run.series`; or several.
            statistics: as in `Run.series`; by default `l2`, and `value` for losses and other
                numbers.
            rank: the rank of a parallel training.
            ax: the axes to draw on.
        """
        pyplot()
        paths = [path] if isinstance(path, str) else list(path)
        chosen = Kind(kind)
        names = statistics or (("value",) if chosen.is_number else ("l2",))
        drawn = [
            (each, name, *shown_series(self._run, chosen, [members], name, rank)[0])
            for each, members in ((each, self._run.members(chosen, each)) for each in paths)
            for name in names
        ]
        ax = axes_for(ax)
        several = len(paths) > 1
        for each, name, steps, values in drawn:
            label = quantity(chosen, name).label.partition(" (")[0]
            label = label.partition(", ")[2] or label
            if several:
                label = f"{each}, {label}" if len(names) > 1 else each
            ax.plot(steps, values, label=as_text(label), marker="." if len(steps) < 50 else "")
        self._mark(ax, chosen, paths, rank)
        scales = {quantity(chosen, name).scale for name in names}
        if scales == {"log"} and any((values > 0).any() for *_, values in drawn):
            ax.set_yscale("log")
        label = quantity(chosen, names[0]).label if len(names) == 1 else str(chosen)
        ax.set(xlabel="step", ylabel=as_text(label.replace("_", " ")))
        ax.set_title(as_text(self._run.name if several else f"{self._run.name}: {paths[0]}"))
        if len(drawn) > 1 or ax.get_legend_handles_labels()[1][-1:] == ["NaN or Inf"]:
            ax.legend(frameon=False)
        return ax

    def histograms(
        self, kind: Kind | str, path: str, *, rank: int | None = None, ax: Axes | None = None
    ) -> Axes:
        """The distribution of a site over time: bands that hold 98, 90 and 50 % of its
        elements, and the median.

        Args:
            kind, path, rank: as in `Run.histograms`.
            ax: the axes to draw on.
        """
        pyplot()
        steps, histograms = self._run.histograms(kind, path, rank=rank)
        ax = axes_for(ax)
        for i, (low, high) in enumerate(_BANDS):
            lower, upper = ([h.quantile(q) for h in histograms] for q in (low, high))
            label = f"{high - low:.0%} of the elements"
            ax.fill_between(steps, lower, upper, color="#0072b2", alpha=0.18 + 0.1 * i, label=label)
        ax.plot(steps, [h.quantile(0.5) for h in histograms], color="#003a5c", label="median")
        ax.set(xlabel="step", ylabel=as_text(f"{Kind(kind)}, value".replace("_", " ")))
        ax.set_title(as_text(f"{self._run.name}: {path}"))
        ax.legend(frameon=False)
        return ax

    def _mark(self, ax: Axes, kind: Kind, paths: Sequence[str], rank: int | None) -> None:
        label = "NaN or Inf"
        for path in paths:
            parts = [
                self._run.series(kind, path, name, rank=rank)
                for name in ("nan", "posinf", "neginf")
            ]
            steps = parts[0][0][sum(values for _, values in parts) > 0]
            if steps.size:
                at_bottom = ax.get_xaxis_transform()
                low = np.full(steps.size, 0.02)
                ax.plot(steps, low, "x", color=NOT_FINITE, transform=at_bottom, label=label)
                label = "_"  # only once in the legend
