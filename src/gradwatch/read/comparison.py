"""Runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gradwatch.core import Kind, Site, select
from gradwatch.read.members import NotRecordedError
from gradwatch.read.run import Run
from gradwatch.read.steps import Bucketing, Steps, Values, by_width
from gradwatch.util.display import notebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Align = Literal["step", "fraction"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """A statistic of the sites that runs have in common, in columns that fit together.

    Attributes:
        names: the runs'.
        kind, statistic: of what.
        align: whether a column is the same steps, or the same share of training.
        sites: those that all runs have, in the network order of the first.
        only: by run, the sites that not all have.
        position: where each column begins: its first step, or the share of training
            that has passed, 0 to 1.
        values: runs by sites by columns, as in a `Heatmap`; NaN where not measured.
    """

    names: tuple[str, ...]
    kind: Kind
    statistic: str
    align: Align
    sites: tuple[Site, ...]
    only: dict[str, list[Site]]
    position: Values
    values: Values

    def difference(self, run: int = 1, base: int = 0) -> Values:
        """A run's values less another's: sites by columns."""
        return np.asarray(self.values[run] - self.values[base])

    def ratio(self, run: int = 1, base: int = 0) -> Values:
        """A run's values relative to another's; NaN where that is 0."""
        with np.errstate(all="ignore"):
            below = self.values[base]
            return np.where(below != 0, self.values[run] / below, np.nan)

    def most_different(self, n: int = 10, run: int = 1, base: int = 0) -> list[tuple[Site, float]]:
        """The sites that differ most, with how much at most: 0 for alike, up to 1 for as
        unlike as can be (|a - b| / (|a| + |b|))."""
        a, b = np.abs(self.values[run]), np.abs(self.values[base])
        with np.errstate(all="ignore"):
            unlike = np.abs(self.difference(run, base)) / np.where(a + b > 0, a + b, 1.0)
        worst = np.max(np.where(np.isnan(unlike), -1.0, unlike), axis=1, initial=-1.0)
        order = np.argsort(-worst, kind="stable")[:n]
        return [(self.sites[i], float(worst[i])) for i in order if worst[i] >= 0]

    def plot(self, run: int = 1, base: int = 0, *, ax: Axes | None = None) -> Axes:
        """Draw a run's values relative to another's with matplotlib, which is an extra.

        Coloured by the power of 2 of the ratio: alike is pale, more is orange, less is purple.

        Args:
            run, base: which runs, by their place in `names`.
            ax: the axes to draw on.

        Returns:
            The axes.
        """
        axes: Axes = notebook().plot_comparison(self, run, base, ax)
        return axes

    def _repr_html_(self) -> str:
        return notebook().comparison_html(self)


def compare(
    *runs: Run,
    kind: Kind | str = Kind.GRADIENT,
    statistic: str = "l2",
    pattern: select.Spec | None = None,
    align: Align = "step",
    max_cells: int = 200_000,
) -> Comparison:
    """Put a statistic of two or more runs side by side.

    Args:
        runs: the first is what the others are compared with.
        kind, statistic, pattern: as in `Run.heatmap`.
        align: `"step"`, or `"fraction"` to compare runs of different lengths by the
            share of training that has passed.
        max_cells: how many values of each run there may be.

    Raises:
        ValueError: there are fewer than two runs.
        NotRecordedError: they have nothing in common.
    """
    if len(runs) < 2:
        raise ValueError(f"compare() takes two runs or more. Received: {len(runs)}")
    if align not in ("step", "fraction"):
        raise ValueError(f"Runs align by 'step' or by 'fraction'. Received: align={align!r}")
    found = [run.sites(kind, pattern) for run in runs]
    common = set(found[0]).intersection(*found[1:])
    sites = tuple(site for site in found[0] if site in common)
    if not sites:
        raise NotRecordedError(
            f"{' and '.join(run.name for run in runs)} have no {kind} in common. "
            f"They have {', '.join(str(len(own)) for own in found)} sites of that kind."
        )
    most = max(1, max_cells // len(sites))
    steps = [run.steps(kind) for run in runs]
    bucketings = _bucketings(steps, most, align)
    maps = [run.merged(sites, statistic, b) for run, b in zip(runs, bucketings, strict=True)]
    numbers = np.unique(np.concatenate([each.numbers for each in maps]))
    values = np.full((len(runs), len(sites), numbers.size), np.nan)
    for i, each in enumerate(maps):
        values[i][:, np.searchsorted(numbers, each.numbers)] = each.values
    scale = 1.0 / most if align == "fraction" else float(bucketings[0].span)
    names = _names(runs)
    return Comparison(
        names,
        Kind(kind),
        statistic,
        align,
        sites,
        {n: [s for s in own if s not in common] for n, own in zip(names, found, strict=True)},
        numbers * scale,
        values,
    )


def _bucketings(steps: Sequence[Steps], most: int, align: Align) -> list[Bucketing]:
    if align == "step":
        return [by_width(np.unique(np.concatenate(steps)), most)] * len(steps)
    return [Bucketing(int(s[-1] - s[0] + 1), int(s[0]), most) for s in steps]


def _names(runs: Sequence[Run]) -> tuple[str, ...]:
    """The runs' names; their paths where two have the same one."""
    names = [run.name for run in runs]
    return tuple(
        name if names.count(name) == 1 else str(run.path)
        for name, run in zip(names, runs, strict=True)
    )
