"""The console's table: a line for each layer, or for several that are folded into one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import STATISTICS, Kind, Site, Summary, finite, shown, zero_share
from gradwatch.util import TextColumn, printable, without_root
from gradwatch.util.fold_names import NameFold, fold_names
from gradwatch.util.folded_cells import cell_of, outliers

Array = NDArray[np.float64]
Value = Callable[["Line"], float | None]


@dataclass(frozen=True)
class Line:
    """A layer, or the model: its summaries by kind."""

    name: str
    kinds: Mapping[Kind, Summary]
    ratio: float | None

    @classmethod
    def of(cls, name: str, sites: Sequence[Site], newest: Mapping[Site, Array]) -> Line:
        kinds: dict[Kind, list[Array]] = {}
        for site in sites:
            kinds.setdefault(site.kind, []).append(newest[site])
        pairs = [
            (newest[site], newest.get(Site(Kind.WEIGHT, site.path)))
            for site in sites
            if site.kind is Kind.UPDATE
        ]
        both = [(update, weight) for update, weight in pairs if weight is not None]
        ratio = None
        if both:
            change, size = (shown(_L2, _merge(rows)) for rows in zip(*both, strict=True))
            ratio = float(change / size) if size != 0 else None
        return cls(name, {kind: _merge(rows) for kind, rows in kinds.items()}, ratio)

    @property
    def parameters(self) -> int:
        own = [s for kind, s in self.kinds.items() if kind.is_of_variable]
        return int(max((float(summary.count) for summary in own), default=0.0))

    @property
    def nonfinite(self) -> int:
        """NaN and Inf elements, over everything that is watched."""
        return int(sum(float(s.count - finite(s)) for s in self.kinds.values()))

    def statistic(self, name: str, kind: Kind) -> float | None:
        """A statistic as it is shown; None where the kind was not measured."""
        summary = self.kinds.get(kind)
        return None if summary is None else float(shown(STATISTICS[name], summary))

    def zeros(self, kind: Kind) -> float | None:
        summary = self.kinds.get(kind)
        return None if summary is None else float(zero_share(summary))


_L2 = STATISTICS["l2"]


def layer_lines(members: Mapping[str, Sequence[Site]], newest: Mapping[Site, Array]) -> list[Line]:
    """A line for each layer, and one for the model."""
    names = map(printable, without_root(list(members)))
    groups = [*zip(names, members.values(), strict=True), ("model", list(newest))]
    return [Line.of(name, sites, newest) for name, sites in groups]


def table_columns(lines: Sequence[Line], most: int) -> list[TextColumn]:
    """The table, by columns; those of kinds that were never measured are left out."""
    *layers, model = lines
    kind = Kind.GRADIENT if Kind.GRADIENT in model.kinds else Kind.APPLIED_GRADIENT
    folds = fold_names([line.name for line in layers], most)
    rows = [*([layers[i] for i in fold.members] for fold in folds), [model]]

    def column(header: str, weight: int, value: Value, is_share: bool = False) -> TextColumn:
        cells = [cell_of([value(line) for line in row], is_share=is_share) for row in rows]
        return TextColumn(header, cells, weight=weight)

    def numbers(header: str, weight: int, name: str, kind: Kind) -> TextColumn:
        return column(header, weight, lambda line: line.statistic(name, kind))

    sizes = [thousands(sum(line.parameters for line in row)) for row in rows]
    columns = [
        TextColumn("layer", [*(fold.label for fold in folds), model.name], left=True, weight=0),
        TextColumn("params", sizes, weight=3),
    ]
    if Kind.WEIGHT in model.kinds:
        columns.append(numbers("weight L2", 5, "l2", Kind.WEIGHT))
    if kind in model.kinds:
        short = "grad" if kind is Kind.GRADIENT else "applied"
        columns += [
            numbers(f"{short} L2", 9, "l2", kind),
            *_outliers(layers, folds, kind),
            numbers(f"{short} RMS", 1, "rms", kind),
            numbers(f"{short} max", 4, "linf", kind),
        ]
    if Kind.UPDATE in model.kinds:
        columns.append(column("update/w", 6, lambda line: line.ratio))
    if kind in model.kinds:
        columns.append(column("zeros", 2, lambda line: line.zeros(kind), is_share=True))
    if Kind.OUTPUT in model.kinds:
        columns.append(column("out zeros", 5, lambda line: line.zeros(Kind.OUTPUT), is_share=True))
    if Kind.DEAD_UNIT in model.kinds:
        dead = Kind.DEAD_UNIT
        columns.append(column("dead units", 5, lambda line: line.statistic("mean", dead), True))
    if model.nonfinite:
        counts = [str(sum(line.nonfinite for line in row)) for row in rows]
        alarms = frozenset(i for i, cell in enumerate(counts) if cell != "0")
        columns.append(TextColumn("NaN/Inf", counts, weight=8, alarms=alarms))
    return columns


def _outliers(
    layers: Sequence[Line], folds: Sequence[NameFold], kind: Kind
) -> Iterator[TextColumn]:
    """Which layer of each row of several is least like the others by its gradient."""
    if len(folds) == len(layers):
        return
    members = outliers([line.statistic("l2", kind) for line in layers], folds)
    cells = [
        fold.part(layers[i].name) if len(fold.members) > 1 else ""
        for fold, i in zip(folds, members, strict=True)
    ]
    yield TextColumn("outlier", [*cells, ""], left=True, weight=7)


def _merge(rows: Sequence[Array]) -> Summary:
    return Summary.unpack(np.stack(rows)).merge_all()


def thousands(number: int) -> str:
    """A count in three or four digits: 512, 25.1k, 7.48M."""
    if number < 1000:
        return str(number)
    # The exponent after rounding, so that 999,999 is 1.00M and not 1000k.
    power = min(int(f"{number:.2e}".partition("e")[2]) // 3, 4)
    value = number / 1000**power
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}{'kMBT'[power - 1]}"
