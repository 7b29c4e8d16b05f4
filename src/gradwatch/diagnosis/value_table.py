"""The last measurements of all sites of one kind, as one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, Kind, Site, Summary, statistic

Array = NDArray[np.float64]
T = TypeVar("T")

_SUM_SQUARES = FIELDS.index("sum_squares")
_NONFINITE = [FIELDS.index(name) for name in ("nan", "posinf", "neginf")]
_MOST_BYTES = 32 << 20


@dataclass
class _Series:
    values: list[float]
    measured: int
    """How many measured steps had been seen."""


class ValueTable:
    """What was measured of a kind in the last steps, one row a measured step.

    A site that was not measured in a step has NaN in its place. Slices of variables
    are left out: they are part of what is there already.

    Args:
        kind: what it is of.
        depth: how many measured steps to keep, less if they are large.

    Example:

    >>> import numpy as np
    >>> from gradwatch import Kind, Site, Summary
    >>> from gradwatch.diagnosis.value_table import ValueTable
    >>> table = ValueTable(Kind.GRADIENT, depth=8)
    >>> table.add(1, [Site(Kind.GRADIENT, "a/kernel")], Summary.of([3.0, 4.0]).pack()[None])
    >>> table.statistic("l2", 1)
    array([[5.]])
    """

    def __init__(self, kind: Kind, depth: int) -> None:
        self.kind = kind
        self.sites: tuple[Site, ...] = ()
        self.measured = 0
        """How often it was measured, since the beginning."""
        self._depth = depth
        self._position: dict[Site, int] = {}
        self._rows: Array = np.empty((2 * depth, 0, len(FIELDS)))
        self._steps = np.zeros(2 * depth, np.int64)
        self._end = 0
        self._last_given: Sequence[Site] = ()
        self._columns: NDArray[np.intp] | None = None
        self._known: dict[object, object] = {}
        self._fixed: dict[object, object] = {}
        self._series: dict[object, _Series] = {}

    def add(self, step: int, sites: Sequence[Site], rows: Array) -> None:
        """Take a step's measurements; a second time for the same step, they are added to it."""
        if sites is not self._last_given:
            self._meet(sites)
        if not self._end or self._steps[self._end - 1] != step:
            if self._end == self._steps.size:
                kept = self._end // 2
                self._rows[:kept] = self._rows[self._end - kept :]
                self._steps[:kept] = self._steps[self._end - kept :]
                self._end = kept
            self._rows[self._end] = np.nan
            self._steps[self._end] = step
            self._end += 1
            self.measured += 1
        else:
            self._series = {}
        if self._columns is None:
            self._rows[self._end - 1] = rows
        else:
            self._rows[self._end - 1, self._columns] = rows
        self._known = {}

    def __len__(self) -> int:
        return self._end

    @property
    def steps(self) -> NDArray[np.int64]:
        """The measured steps that are kept, oldest first."""
        return self._steps[: self._end]

    @property
    def first_steps(self) -> int:
        """How many of the measured steps are no longer kept."""
        return self.measured - self._end

    def since(self, count: int) -> int:
        """The step of the measurement that many before the end."""
        return int(self._steps[max(self._end - count, 0)])

    def rows(self, count: int) -> Array:
        """The last measurements, at most so many: steps x sites x fields of a summary."""
        return self._rows[max(self._end - count, 0) : self._end]

    def statistic(self, name: str, count: int) -> Array:
        """A statistic of all sites in the last measured steps: steps x sites."""
        return self.once(("statistic", name, count), lambda: _statistic(name, self.rows(count)))

    def column(self, name: str, site: int, count: int) -> Array:
        """A statistic of one site, by its place in `sites`, in the last measured steps."""
        return _statistic(name, self.rows(count)[:, site])

    def latest(self, name: str) -> Array:
        """A statistic of all sites in the last measured step."""
        row: Array = self.statistic(name, 1)[0]
        return row

    def nonfinite(self) -> Array:
        """For each site, how many elements were NaN or infinite in the last measured step."""
        return self.once(
            "nonfinite", lambda: np.asarray(self._rows[self._end - 1][:, _NONFINITE].sum(-1))
        )

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """The layers, in network order."""
        return tuple(dict.fromkeys(site.layer for site in self.sites))

    @cached_property
    def layer_of(self) -> NDArray[np.intp]:
        """For each site, the place of its layer in `layers`."""
        place = {layer: i for i, layer in enumerate(self.layers)}
        return np.array([place[site.layer] for site in self.sites], np.intp)

    def l2_by_layer(self, count: int, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The L2 norm of each layer in the last measured steps: steps x layers.

        NaN where nothing of the layer was measured, or nothing of it is chosen.
        """

        def compute() -> Array:
            squares = self.rows(count)[:, :, _SUM_SQUARES]
            if chosen is not None:
                squares = np.where(chosen, squares, np.nan)
            totals = np.zeros((squares.shape[0], len(self.layers)))
            there = np.zeros((squares.shape[0], len(self.layers)), bool)
            order, starts = self._grouped
            if order.size:
                sorted_squares = squares[:, order]
                is_there = ~np.isnan(sorted_squares)
                totals = np.add.reduceat(np.where(is_there, sorted_squares, 0.0), starts, axis=1)
                there = np.logical_or.reduceat(is_there, starts, axis=1)
            return np.asarray(np.where(there, np.sqrt(totals), np.nan))

        return self.once(("layers", count, None if chosen is None else id(chosen)), compute)

    @cached_property
    def _grouped(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        order = np.argsort(self.layer_of, kind="stable")
        starts = np.searchsorted(self.layer_of[order], np.arange(len(self.layers)))
        return order, starts

    def running(self, key: object, of_row: Callable[[Array], float]) -> Array:
        """A number of each of the measured steps that are kept, from that step's rows alone.

        Asked again after the next step, it is worked out for that one only.

        Args:
            key: what it is known by.
            of_row: from the summaries of a step, one a site, to the number.
        """
        series = self._series.setdefault(key, _Series([], 0))
        missing = min(self.measured - series.measured, self._end)
        series.values += [of_row(row) for row in self._rows[self._end - missing : self._end]]
        series.measured = self.measured
        del series.values[: max(len(series.values) - self._end, 0)]
        return np.array(series.values)

    def once(self, key: object, compute: Callable[[], T]) -> T:
        """What `compute` returns, worked out once for each measured step."""
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]  # type: ignore[return-value]

    def fixed(self, key: object, compute: Callable[[], T]) -> T:
        """What `compute` returns, worked out once for these sites."""
        if key not in self._fixed:
            self._fixed[key] = compute()
        return self._fixed[key]  # type: ignore[return-value]

    def _meet(self, sites: Sequence[Site]) -> None:
        new = [site for site in sites if site not in self._position]
        if new:
            for site in new:
                self._position[site] = len(self._position)
            self.sites = tuple(self._position)
            self._widen(len(self.sites))
            self._fixed = {}
            self._series = {}
            for name in ("layers", "layer_of", "_grouped"):
                self.__dict__.pop(name, None)
        self._last_given = sites
        columns = np.array([self._position[site] for site in sites], np.intp)
        in_order = np.array_equal(columns, np.arange(len(self.sites)))
        self._columns = None if in_order else columns

    def _widen(self, width: int) -> None:
        bytes_a_step = 2 * width * len(FIELDS) * 8
        depth = min(self._depth, max(_MOST_BYTES // bytes_a_step, 16))
        kept = min(self._end, 2 * depth)
        wider = np.full((2 * depth, width, len(FIELDS)), np.nan)
        wider[:kept, : self._rows.shape[1]] = self._rows[self._end - kept : self._end]
        steps = np.zeros(2 * depth, np.int64)
        steps[:kept] = self._steps[self._end - kept : self._end]
        self._rows, self._steps, self._end = wider, steps, kept


def _statistic(name: str, rows: Array) -> Array:
    if name in FIELDS:
        values = rows[..., FIELDS.index(name)]
        # Of no finite element there is no smallest, and no largest.
        return np.where(np.isinf(values), np.nan, values) if name in ("min", "max") else values
    if name == "l2":
        return np.sqrt(rows[..., _SUM_SQUARES])
    return statistic(name, Summary.unpack(rows))
