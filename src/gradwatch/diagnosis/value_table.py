"""The latest measurements of all sites of one kind, as one array."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, Kind, Site, Summary, statistic

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
T = TypeVar("T")

_SUM_SQUARES = FIELDS.index("sum_squares")
NONFINITE = slice(FIELDS.index("nan"), FIELDS.index("neginf") + 1)
"""The fields that count NaN and infinite elements."""
_MAX_BYTES = 32 << 20


@dataclass
class _Series:
    values: list[float]
    measured: int
    """The value of `ValueTable.measured` when the series was last extended."""


class ValueTable:
    """The measurements of one kind in the latest steps: a row per measured step, a column per site.

    A site that was not measured in a step is NaN there. Slices of variables are left out: they are
    part of other sites. `depth` steps are kept; fewer if they are large. `measured` counts the
    steps since the beginning, and `latest_step` is the newest. `is_finite` is False if the newest
    step may have NaN or infinite elements.
    """

    def __init__(self, kind: Kind, depth: int) -> None:
        self.kind = kind
        self.sites: tuple[Site, ...] = ()
        self.measured = 0
        self.latest_step = -1
        self.is_finite = True
        self._depth = depth
        self._position: dict[Site, int] = {}
        self._rows: Array = np.empty((2 * depth, 0, len(FIELDS)))
        self._steps = np.zeros(2 * depth, np.int64)
        self._end = 0
        self._last_sites: Sequence[Site] = ()
        self._columns: NDArray[np.intp] | None = None
        self._step_cache: dict[object, object] = {}
        self._sites_cache: dict[object, object] = {}
        self._series: dict[object, _Series] = {}

    def add(
        self, step: int, sites: Sequence[Site], rows: Array, *, is_finite: bool = False
    ) -> None:
        """Add a step's measurements; a second call for the same step completes its row."""
        if sites is not self._last_sites:
            self._use_columns(sites)
        is_new = not self._end or self.latest_step != step
        if is_new:
            if self._end == self._steps.size:
                kept = self._end // 2
                self._rows[:kept] = self._rows[self._end - kept :]
                self._steps[:kept] = self._steps[self._end - kept :]
                self._end = kept
            self._steps[self._end] = self.latest_step = step
            self._end += 1
            self.measured += 1
        else:
            self._series = {}
        self.is_finite = is_finite and (is_new or self.is_finite)
        if self._columns is None:
            self._rows[self._end - 1] = rows
        else:
            if is_new:
                self._rows[self._end - 1] = np.nan
            self._rows[self._end - 1, self._columns] = rows
        self._step_cache = {}

    def __len__(self) -> int:
        return self._end

    @property
    def steps(self) -> NDArray[np.int64]:
        """The kept measured steps, oldest first."""
        return self._steps[: self._end]

    @property
    def has_forgotten(self) -> bool:
        """Whether the first measured steps are no longer kept."""
        return self.measured > self._end

    def since(self, count: int) -> int:
        """The first of the last `count` measured steps."""
        return int(self._steps[max(self._end - count, 0)])

    def rows(self, count: int) -> Array:
        """The last `count` measurements: steps x sites x fields of a summary."""
        return self._rows[max(self._end - count, 0) : self._end]

    def statistic(self, name: str, count: int) -> Array:
        """A statistic of all sites in the last measured steps: steps x sites."""
        return self.cached_per_step(
            ("statistic", name, count), lambda: _statistic(name, self.rows(count))
        )

    def column(self, name: str, site: int, count: int) -> Array:
        """A statistic of one site, given by its index, in the last measured steps."""
        return self.cached_per_step(
            ("column", name, site, count), lambda: _statistic(name, self.rows(count)[:, site])
        )

    def newest_and_before(self, name: str, newest: int) -> tuple[Array, Array]:
        """A statistic in the newest measured steps, and its largest before them, of each site.

        There must be more measured steps than `newest`. The steps before are at most `depth`.
        """
        values = self.statistic(name, min(len(self), newest + self._depth))
        return values[-newest:], np.fmax.reduce(values[:-newest], axis=0)

    def latest(self, name: str) -> Array:
        """A statistic of all sites in the last measured step."""
        row: Array = self.statistic(name, 1)[0]
        return row

    def nonfinite(self, count: int) -> Array:
        """The number of NaN and infinite elements in the last measured steps: steps x sites."""
        return self.cached_per_step(
            ("nonfinite", count), lambda: np.asarray(self.rows(count)[..., NONFINITE].sum(-1))
        )

    def sites_where(self, chosen: Mask) -> list[Site]:
        """The sites for which a mask is True."""
        return [self.sites[i] for i in np.flatnonzero(chosen)]

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """The layers, in network order."""
        return tuple(dict.fromkeys(site.layer for site in self.sites))

    @cached_property
    def layer_index(self) -> NDArray[np.intp]:
        """For each site, the index of its layer in `layers`."""
        index = {layer: i for i, layer in enumerate(self.layers)}
        return np.array([index[site.layer] for site in self.sites], np.intp)

    def l2_by_layer(self, count: int) -> Array:
        """The L2 norm of each layer in the last measured steps: steps x layers, NaN if missing."""

        def compute() -> Array:
            squares = self.rows(count)[:, :, _SUM_SQUARES]
            if not self.sites:
                return np.empty((squares.shape[0], 0))
            order, starts = self._by_layer
            squares = squares[:, order]
            is_measured = ~np.isnan(squares)
            totals = np.add.reduceat(np.where(is_measured, squares, 0.0), starts, axis=1)
            any_measured = np.logical_or.reduceat(is_measured, starts, axis=1)
            return np.asarray(np.where(any_measured, np.sqrt(totals), np.nan))

        return self.cached_per_step(("layers", count), compute)

    @cached_property
    def _by_layer(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The sites sorted by layer, and where each layer begins."""
        order = np.argsort(self.layer_index, kind="stable")
        starts = np.searchsorted(self.layer_index[order], np.arange(len(self.layers)))
        return order, starts

    def series(self, key: object, compute: Callable[[int], Iterable[float]]) -> Array:
        """One number for each kept step, computed once per step.

        `compute` takes a number of last steps and returns their numbers.
        """
        series = self._series.setdefault(key, _Series([], 0))
        missing = min(self.measured - series.measured, self._end)
        if missing:
            series.values.extend(compute(missing))
        series.measured = self.measured
        del series.values[: max(len(series.values) - self._end, 0)]
        return np.array(series.values)

    def cached_per_step(self, key: object, compute: Callable[[], T]) -> T:
        """The result of `compute`, which is called once per measured step."""
        return cached(self._step_cache, key, compute)

    def cached_per_sites(self, key: object, compute: Callable[[], T]) -> T:
        """The result of `compute`, which is called again only when sites are added."""
        return cached(self._sites_cache, key, compute)

    def _use_columns(self, sites: Sequence[Site]) -> None:
        """Find the columns of these sites; new sites get new ones."""
        new = [site for site in sites if site not in self._position]
        if new:
            for site in new:
                self._position[site] = len(self._position)
            self.sites = tuple(self._position)
            self._widen(len(self.sites))
            self._sites_cache = {}
            self._series = {}
            for name in ("layers", "layer_index", "_by_layer"):
                self.__dict__.pop(name, None)
        self._last_sites = sites
        columns = np.array([self._position[site] for site in sites], np.intp)
        is_all = np.array_equal(columns, np.arange(len(self.sites)))
        self._columns = None if is_all else columns

    def _widen(self, width: int) -> None:
        bytes_per_step = 2 * width * len(FIELDS) * 8
        depth = min(self._depth, max(_MAX_BYTES // bytes_per_step, 16))
        kept = min(self._end, 2 * depth)
        wider = np.full((2 * depth, width, len(FIELDS)), np.nan)
        wider[:kept, : self._rows.shape[1]] = self._rows[self._end - kept : self._end]
        steps = np.zeros(2 * depth, np.int64)
        steps[:kept] = self._steps[self._end - kept : self._end]
        self._rows, self._steps, self._end = wider, steps, kept


def cached(cache: dict[object, object], key: object, compute: Callable[[], T]) -> T:
    if key not in cache:
        cache[key] = compute()
    return cache[key]  # type: ignore[return-value]


def _statistic(name: str, rows: Array) -> Array:
    if name in FIELDS:
        values = rows[..., FIELDS.index(name)]
        # Without finite elements there is no smallest and no largest one.
        return np.where(np.isinf(values), np.nan, values) if name in ("min", "max") else values
    if name == "l2":
        return np.sqrt(rows[..., _SUM_SQUARES])
    return statistic(name, Summary.unpack(rows))
