"""Runs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site, select
from gradwatch.read.layer_alignment import MatchedBy
from gradwatch.read.members import NotRecordedError, whole_model
from gradwatch.read.row_ends import last_shown
from gradwatch.read.row_groups import RowGroups
from gradwatch.read.run import Run
from gradwatch.read.site_matching import common_counterparts, counterparts
from gradwatch.read.steps import Bucketing, Steps, Values, by_width
from gradwatch.util import counted
from gradwatch.util.display import notebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Align = Literal["step", "fraction"]
_MATCHED = {
    MatchedBy.PATH: "path",
    MatchedBy.NAME: "path without the model's name and counters",
    MatchedBy.SHAPE: "position and shape",
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """A statistic of the sites that runs have in common, in columns that fit together.

    Attributes:
        names: the runs'.
        kind, statistic: of what.
        align: whether a column is the same steps, or the same share of training.
        sites: those of the first run that all others have too, in its network order.
        counterparts: by run, its own sites in the order of `sites`.
        matched_by: for each site what says that its counterparts are the same: `"path"`,
            `"name"` (the path without the model's name and counters), or `"shape"` (the
            position in the network and the shape).
        only: by run, the sites that not all have.
        position: where each column begins: its first step, or the share of training
            that has passed, 0 to 1.
        values: runs by sites by columns, as `shown` of a `Heatmap`; NaN where not measured.
        measured: runs by sites by columns, whether there is a value; it may be NaN.
        model: runs by columns: all sites of the run merged, with or without a
            counterpart; NaN for kinds that are single numbers.
        model_measured: runs by columns, whether the model has a value.
        last: runs by sites, the value at the last step that each was measured at; NaN if never.
        model_last: by run, the same of the model.
        width: how many steps a column has, or what share of training; several are averaged.
        numbers: comparisons of the losses and metrics of those runs that have recorded any,
            unless this is one of them itself.
    """

    names: tuple[str, ...]
    kind: Kind
    statistic: str
    align: Align
    sites: tuple[Site, ...]
    counterparts: tuple[tuple[Site, ...], ...]
    matched_by: tuple[MatchedBy, ...]
    only: dict[str, list[Site]]
    position: Values
    values: Values
    measured: NDArray[np.bool_]
    model: Values
    model_measured: NDArray[np.bool_]
    last: Values
    model_last: Values
    width: float
    numbers: tuple[Comparison, ...] = ()

    @property
    def matching(self) -> str:
        """In words, by what sites were matched."""
        if not self.sites:
            return f"No {self.kind} of {self.names[0]} has a counterpart in all other runs."
        counts = Counter(self.matched_by)
        parts = [
            f"{f'{counts[by]:,} ' * (len(counts) > 1)}by {_MATCHED[by]}"
            for by in MatchedBy
            if by in counts
        ]
        return f"{counted(len(self.sites), 'site')} matched {', '.join(parts)}."

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
        # Of two that are measured, NaN and infinity are as unlike a number as can be.
        both = self.measured[run] & self.measured[base]
        unlike = np.where(both & (np.isfinite(a) != np.isfinite(b)), 1.0, unlike)
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

    def __repr__(self) -> str:
        base, *others = self.names
        columns = counted(self.position.size, "column")
        what = f"{self.kind} {self.statistic} of {', '.join(others)} compared with {base}"
        return f"Comparison({what}: {self.matching[:-1]}; {columns} by {self.align})"


def comparison_of(
    runs: Sequence[Run],
    kind: Kind | str = Kind.GRADIENT,
    statistic: str | None = None,
    pattern: select.Spec | None = None,
    align: Align = "step",
    max_cells: int = 200_000,
) -> Comparison:
    """See `gradwatch.compare`."""
    if len(runs) < 2:
        raise ValueError(f"compare() takes two runs or more. Received: {len(runs)}")
    if align not in ("step", "fraction"):
        raise ValueError(f"Runs align by 'step' or by 'fraction'. Received: align={align!r}")
    found = [run.sites(kind, pattern) for run in runs]
    if not all(run.sites(kind) for run in runs) or not any(found):
        raise NotRecordedError(
            f"{' and '.join(run.name for run in runs)} have no {kind} in common. "
            f"They have {', '.join(str(len(own)) for own in found)} sites of that kind."
        )
    chosen = Kind(kind)
    first, *others = runs
    matches = common_counterparts(found[0], [counterparts(first, run, chosen) for run in others])
    rows = [tuple(matches), *zip(*(theirs for theirs, _ in matches.values()), strict=True)]
    rows += [()] * (len(runs) - len(rows))
    most = max(1, max_cells // max(1, len(matches)))
    statistic = statistic or chosen.default_statistic
    bucketings = _bucketings([run.steps(kind) for run in runs], most, align)
    groups = [
        RowGroups.of([*([s] for s in own), whole_model(chosen, run.site_order)])
        for run, own in zip(runs, rows, strict=True)
    ]
    tables = [
        run.row_table(chosen, own, [statistic], b)
        for run, own, b in zip(runs, groups, bucketings, strict=True)
    ]
    last = np.array(
        [
            last_shown(run, chosen, own, statistic, table)
            for run, own, table in zip(runs, groups, tables, strict=True)
        ]
    )
    numbers = np.unique(np.concatenate([each.numbers for each in tables]))
    values = np.full((len(runs), len(matches) + 1, numbers.size), np.nan)
    measured = np.zeros(values.shape, bool)
    for i, each in enumerate(tables):
        columns = np.searchsorted(numbers, each.numbers)
        values[i][:, columns], measured[i][:, columns] = each.shown[statistic], each.steps > 0
    scale = 1.0 / most if align == "fraction" else float(bucketings[0].span)
    names = _names(runs)
    return Comparison(
        names,
        chosen,
        statistic,
        align,
        rows[0],
        tuple(rows),
        tuple(by for _, by in matches.values()),
        {
            name: [site for site in own if site not in set(matched)]
            for name, own, matched in zip(names, found, rows, strict=True)
        },
        numbers * scale,
        values[:, :-1],
        measured[:, :-1],
        values[:, -1],
        measured[:, -1],
        last[:, :-1],
        last[:, -1],
        scale,
        () if chosen.is_number else _numbers(runs, align, max_cells),
    )


def _numbers(runs: Sequence[Run], align: Align, max_cells: int) -> tuple[Comparison, ...]:
    """Comparisons of losses and metrics, each of the runs that have recorded any.

    Metrics of steps are left out if they are reported of epochs, too.
    """
    found = [_losses_or_metrics(runs, Kind.LOSS, align, max_cells)]
    found.append(_losses_or_metrics(runs, Kind.EPOCH_METRIC, align, max_cells))
    known = {site.path for each in found if each is not None for site in each.sites}
    found.append(_losses_or_metrics(runs, Kind.METRIC, align, max_cells, known))
    return tuple(each for each in found if each is not None and each.sites)


def _losses_or_metrics(
    runs: Sequence[Run],
    kind: Kind,
    align: Align,
    max_cells: int,
    known: Collection[str] = (),
) -> Comparison | None:
    """A comparison of a kind, but for paths that are known; None if too few runs have it."""
    others = select.where(lambda info: info.path not in known)
    own = [run for run in runs if run.sites(kind, others)]
    return comparison_of(own, kind, None, others, align, max_cells) if len(own) > 1 else None


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
