"""A run, as it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradwatch import select
from gradwatch.histogram import Histogram
from gradwatch.reading import Reading
from gradwatch.sites import Kind, Site, SiteInfo
from gradwatch.store.journal import Damage
from gradwatch.store.reader import distributions, facts, series
from gradwatch.store.reader.catalog import Writer
from gradwatch.store.reader.content import Content
from gradwatch.store.reader.epochs import Epoch, epochs_of
from gradwatch.store.reader.grid import Bucketing
from gradwatch.store.reader.heatmap import Heatmap, Heatmaps, by_width
from gradwatch.store.reader.members import NotRecordedError, kind_of, members
from gradwatch.store.reader.moments import Moments
from gradwatch.store.reader.readings import readings, readings_at
from gradwatch.store.reader.result import Result
from gradwatch.store.reader.row_tables import RowTable, RowTables
from gradwatch.store.reader.rows import Rows
from gradwatch.store.reader.status import RankStatus, Status, status_of

if TYPE_CHECKING:
    from gradwatch.view.notebook.plots.run import RunPlots

Steps = NDArray[np.int64]
Values = NDArray[np.float64]

EVER = (-(1 << 62), 1 << 62)
"""All steps."""


class Run:
    """All that a run has recorded, by `gradwatch.open`.

    It shows the run as of its opening or the last `refresh`, also while it is still
    being written. Every file is compared with its checksum before a number of it is
    shown; what is damaged is in `damage`, and the rest is served. Where training was
    resumed at an earlier step, the latest attempt counts. All methods may be called
    from several threads.

    Where there are several ranks, `rank=None` is rank 0, or the lowest there is.

    Args:
        path: the run's directory.

    Attributes:
        path: the run's directory.

    Example:

    >>> import tempfile
    >>> import gradwatch, numpy as np
    >>> directory = tempfile.mkdtemp()
    >>> monitor = gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()])
    >>> for step in range(3):
    ...     monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0]) * step})
    >>> monitor.close()
    >>> run = gradwatch.open(directory)
    >>> run.sites("gradient", "dense")
    [Site(kind=<Kind.GRADIENT: 'gradient'>, path='dense/kernel')]
    >>> run.series("gradient", "dense/kernel", "l2")
    (array([1, 2, 3]), array([ 0.,  5., 10.]))
    >>> run.sql("select path, max(l2) from summaries where kind = 'gradient' group by path")
    path          max(l2)
    dense/kernel  10
    (1 row)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._content = Content(self.path.absolute())
        self._heatmaps = Heatmaps()
        self._row_tables = RowTables()
        self._infos: tuple[Mapping[str, Any], tuple[Site, ...], list[SiteInfo]] | None = None
        self._facts, self._facts_damage = facts.read(self.path)

    def refresh(self) -> bool:
        """Read what has been written since; returns whether anything has changed."""
        told = facts.read(self.path)
        same = told == (self._facts, self._facts_damage)
        if not same:
            # Else the same object as before: what was derived from it need not be again.
            self._facts, self._facts_damage = told
        changed = self._content.refresh()
        return changed or not same

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.path.absolute().name

    @property
    def facts(self) -> Mapping[str, Any]:
        """What `run.json` says: versions, schedule, what was watched, cost."""
        return self._facts

    @property
    def meaning(self) -> dict[str, str]:
        """In words, what a measurement of each kind is."""
        return facts.meaning(self._facts)

    @property
    def damage(self) -> list[Damage]:
        """What was written and cannot be read any more; empty if all is well."""
        own = [] if self._facts_damage is None else [self._facts_damage]
        return [*own, *self._content.catalog.damage]

    @property
    def lost_rows(self) -> int:
        """How many rows could not be written at the time, for want of space, say."""
        return sum(writer.lost_rows for writer in self._content.catalog.writers.values())

    @property
    def status(self) -> Status:
        """`live`, `finished`, `crashed`, `damaged` or `empty`; see `Status`."""
        return status_of(self._content.catalog.writers.values(), self.damage)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The processes that have recorded it."""
        return self._content.snapshot.ranks

    @property
    def rank_statuses(self) -> list[RankStatus]:
        """How each process of a parallel training stands, and where it has stopped if it has.

        Also those that the training had, by `run.json`, and that have recorded nothing.
        """
        writers = self._content.catalog.writers.values()
        told = (self._facts.get("fits") or [{}])[-1].get("ranks")
        expected = range(told if isinstance(told, int) else 0)
        return [
            self._rank_status(rank, [w for w in writers if w.rank == rank])
            for rank in sorted({*self.ranks, *expected})
        ]

    def _rank_status(self, rank: int, writers: Sequence[Writer]) -> RankStatus:
        moments = self._moments(rank).columns
        if not moments["step"].size:
            return RankStatus(rank, status_of(writers, []))
        last = int(moments["step"].max())
        return RankStatus(rank, status_of(writers, []), last, float(moments["last"].max()))

    @property
    def started(self) -> float | None:
        """When recording began, in seconds since 1970."""
        times = [w.facts.get("started") for w in self._content.catalog.writers.values()]
        known = [float(t) for t in times if isinstance(t, int | float)]
        return min(known, default=None)

    @property
    def duration(self) -> float:
        """Seconds from the first to the last record."""
        moments = self._content.snapshot.moments.columns
        if not moments["last"].size:
            return 0.0
        return float(moments["last"].max() - moments["first"].min())

    @property
    def rows(self) -> int:
        """How many summaries there are, those of superseded attempts included."""
        return self._content.snapshot.moments.rows

    @property
    def last_step(self) -> int | None:
        """The last step of which anything is recorded."""
        steps = self.steps()
        return int(steps[-1]) if steps.size else None

    def steps(self, kind: Kind | str | None = None, rank: int | None = None) -> Steps:
        """The steps of which anything, or something of that kind, is recorded; ascending."""
        return self._moments(rank).of(kind=None if kind is None else str(kind)).steps

    @property
    def epochs(self) -> list[Epoch]:
        """The epochs, with the first and the last step that are recorded of each."""
        return epochs_of(self._moments(None))

    @property
    def infos(self) -> list[SiteInfo]:
        """The sites in network order with shape, dtype, ... as far as they are known."""
        told, sites = self._facts, self._content.snapshot.sites
        known = self._infos
        if known is None or known[0] is not told or known[1] is not sites:
            more = facts.site_infos(told)
            infos = [more.get(site) or facts.bare_info(site) for site in sites]
            known = self._infos = (told, sites, infos)
        return list(known[2])

    def sites(
        self, kind: Kind | str | None = None, pattern: select.Spec | None = None
    ) -> list[Site]:
        """What is recorded, in network order.

        Args:
            kind: only that kind.
            pattern: only what it selects, as in `gradwatch.select`: `"conv*/kernel"`,
                `"!bias"`, a regular expression, a function of a `SiteInfo`. Without
                one, slices such as `kernel[forget]` are included.
        """
        if pattern is None:
            sites = self._content.snapshot.sites
            return [site for site in sites if kind is None or site.kind == kind]
        selector = select.as_selector(pattern)
        infos = (info for info in self.infos if kind is None or info.kind == kind)
        return [info.site for info in infos if selector.selects(info)]

    @property
    def site_order(self) -> tuple[Site, ...]:
        """All sites in network order; the same object for as long as there are no others."""
        return self._content.snapshot.sites

    def members(self, kind: Kind | str, path: str) -> list[Site]:
        """The sites that a path stands for, as in `series`: one, or those that are merged.

        Raises:
            NotRecordedError: there is none; the nearest are named.
        """
        snapshot = self._content.snapshot
        return members(kind_of(kind, snapshot.sites), path, snapshot.sites, snapshot.groups)

    def series(
        self,
        kind: Kind | str,
        path: str,
        statistic: str = "l2",
        *,
        rank: int | None = None,
        micro_batch: int | None = None,
    ) -> tuple[Steps, Values]:
        """A statistic over the steps at which it was measured.

        Args:
            kind: what was measured: `"gradient"`, `"weight"`, ...
            path: of which site, or the end of its path if no other ends so; or a layer, a
                block, a group that you have named, or `"model"`: what was measured of its
                sites at a step is merged.
            statistic: one of `gradwatch.summary.STATISTICS`; of updates also
                `"update_ratio"`, the L2 norm relative to the weight's; of losses and
                spectral norms `"value"`.
            rank: the process of a parallel training.
            micro_batch: its index. Without one: the step as a whole and, where that
                was not recorded, its micro-batches merged.

        Returns:
            The steps, ascending, and the values.

        Raises:
            NotRecordedError: there is no such site; the nearest are named.
            ValueError: there is no such statistic.
        """
        chosen = self._rank(rank)
        return series.series(self._content.snapshot, kind, path, statistic, chosen, micro_batch)

    def losses(self, *, rank: int | None = None) -> dict[str, tuple[Steps, Values]]:
        """By path, the steps and values of each loss; NaN or infinite where they were."""
        paths = [site.path for site in self.sites(Kind.LOSS)]
        return {path: self.series(Kind.LOSS, path, series.VALUE, rank=rank) for path in paths}

    def histogram(
        self, kind: Kind | str, path: str, step: int, *, rank: int | None = None
    ) -> Histogram:
        """The histogram that was taken at a step; `path` as in `series`.

        Raises:
            NotRecordedError: none was taken then; the nearest steps are named.
        """
        return distributions.histogram(self._content.snapshot, kind, path, step, self._rank(rank))

    def histograms(
        self, kind: Kind | str, path: str, *, rank: int | None = None
    ) -> tuple[Steps, list[Histogram]]:
        """The steps at which histograms were taken, and these; `path` as in `series`."""
        return distributions.histograms(self._content.snapshot, kind, path, self._rank(rank))

    def histogram_steps(self, kind: Kind | str, path: str, *, rank: int | None = None) -> Steps:
        """The steps at which `histograms` has one, without reading them."""
        sites = self.members(kind, path)
        return distributions.histogram_steps(self._content.snapshot, sites, self._rank(rank))

    def pictured(self, *, rank: int | None = None) -> list[str]:
        """The paths of the variables that were drawn."""
        return distributions.pictured(self._content.snapshot, self._rank(rank))

    def pictures(self, path: str, *, rank: int | None = None) -> tuple[Steps, list[bytes]]:
        """The steps at which a variable was drawn, and the pictures as PNG files.

        Raises:
            NotRecordedError: it was never drawn.
        """
        return distributions.pictures(self._content.snapshot, path, self._rank(rank))

    def at(self, step: int, *, rank: int | None = None) -> list[Reading]:
        """What was recorded at a step, a reading for each part of the training and each
        micro-batch; empty if nothing was. Pictures are left out."""
        return readings_at(self._content.snapshot, step, self._rank(rank))

    def readings(self, *, rank: int | None = None) -> Iterator[Reading]:
        """What `at` has of each step, in their order: faster than asking step by step."""
        return readings(self._content.snapshot, self._rank(rank))

    def heatmap(
        self,
        kind: Kind | str,
        statistic: str = "l2",
        *,
        max_cells: int = 200_000,
        pattern: select.Spec | None = None,
        steps: tuple[int, int] | None = None,
        rank: int | None = None,
    ) -> Heatmap:
        """A statistic of all sites of a kind over the whole run, merged over steps.

        Args:
            kind: what was measured.
            statistic: as in `series`.
            max_cells: how many values there may be: neighbouring steps are merged
                until there are no more.
            pattern: only the sites that it selects.
            steps: only from the first to the last of these two steps.
            rank: the process of a parallel training.

        Raises:
            NotRecordedError: nothing of that kind is recorded, or nothing is selected.
            ValueError: there is no such statistic.
        """
        chosen = kind_of(kind, self._content.snapshot.sites)
        sites = self.sites(chosen, pattern)
        if not sites:
            raise NotRecordedError(
                f"{pattern!r} selects no {chosen} of this run. "
                f"List them with run.sites({str(chosen)!r})."
            )
        if max_cells < 1:
            raise ValueError(f"A heatmap has at least one cell. Received: max_cells={max_cells}")
        rank = self._rank(rank)
        stretch = EVER if steps is None else (int(steps[0]), int(steps[1]))
        measured = within(self.steps(chosen, rank), stretch)
        bucketing = by_width(measured, max(1, max_cells // len(sites)))
        return self.merged(sites, statistic, bucketing, stretch, rank)

    def merged(
        self,
        sites: Sequence[Site],
        statistic: str,
        bucketing: Bucketing,
        stretch: tuple[int, int] = EVER,
        rank: int | None = None,
    ) -> Heatmap:
        """A heatmap of sites of one kind with columns of your own choice."""
        rank = self._rank(rank)
        measured = within(self.steps(sites[0].kind, rank), stretch)
        snapshot = self._content.snapshot
        return self._heatmaps.make(snapshot, sites, statistic, measured, stretch, bucketing, rank)

    def row_table(
        self,
        kind: Kind | str,
        rows: Rows,
        statistics: Sequence[str],
        bucketing: Bucketing,
        stretch: tuple[int, int] = EVER,
        rank: int | None = None,
    ) -> RowTable:
        """Statistics of sites merged into rows, with columns of your own choice.

        Args:
            kind: of all the sites.
            rows: which sites are merged into each row.
            statistics: as in `series`.
            bucketing: which column a step falls into.
            stretch: only from the first to the last of these two steps.
            rank: the process of a parallel training.
        """
        rank = self._rank(rank)
        chosen = kind_of(kind, self._content.snapshot.sites)
        measured = within(self.steps(chosen, rank), stretch)
        snapshot = self._content.snapshot
        return self._row_tables.make(
            snapshot, chosen, rows, statistics, measured, stretch, bucketing, rank
        )

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> Result:
        """Ask in SQL (DuckDB's). One SELECT statement; nothing but this run can be read.

        The tables are `summaries`, `all_summaries`, `histograms`, `pictures`, `losses`,
        `sites` and `attempts`; see docs/reading.md.

        Args:
            query: one SELECT statement.
            parameters: for each `?` in it a value.

        Raises:
            QueryError: it is not that, or it is wrong.
        """
        return Result(self._content.snapshot.database, query, parameters)

    def to_pandas(self) -> Any:
        """All summaries as a `pandas.DataFrame`."""
        return self.sql(_SUMMARIES).to_pandas()

    def to_arrow(self) -> Any:
        """All summaries as a `pyarrow.Table`."""
        return self.sql(_SUMMARIES).to_arrow()

    def to_polars(self) -> Any:
        """All summaries as a `polars.DataFrame`."""
        return self.sql(_SUMMARIES).to_polars()

    @property
    def plot(self) -> RunPlots:
        """Plots with matplotlib, which is an extra: `run.plot.heatmap()`, `run.plot.series()`,
        `run.plot.histograms()`; see docs/notebooks.md."""
        from gradwatch.view.notebook.plots.run import RunPlots

        return RunPlots(self)

    def _repr_html_(self) -> str:
        from gradwatch.view.notebook.run import run_html

        return run_html(self)

    def close(self) -> None:
        """Let go of what is held in memory; the files are not open in between."""
        self._content.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        last = self.last_step
        parts = [
            str(self.status),
            f"{len(self._content.snapshot.sites):,} sites",
            "no step" if last is None else f"{self.steps().size:,} steps to {last:,}",
        ]
        if self.damage:
            parts.append(f"{len(self.damage)} damaged")
        return f"Run({str(self.path)!r}: {', '.join(parts)})"

    def _moments(self, rank: int | None) -> Moments:
        snapshot = self._content.snapshot
        return snapshot.moments.current(snapshot.bounds).of(rank=rank)

    def _rank(self, rank: int | None) -> int:
        ranks = self.ranks
        if rank is None:
            return ranks[0] if ranks else 0
        if rank not in ranks:
            raise NotRecordedError(
                f"There is no rank {rank} in this run. Recorded: {', '.join(map(str, ranks))}."
            )
        return rank


def within(steps: Steps, stretch: tuple[int, int]) -> Steps:
    """The steps from the first to the last of the stretch."""
    return steps[(steps >= stretch[0]) & (steps <= stretch[1])]


_SUMMARIES = "SELECT * FROM summaries ORDER BY rank, kind, path, step, micro_batch"
