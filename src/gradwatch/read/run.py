"""A run that was recorded, and all that can be read from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gradwatch.core import VALUE, Histogram, Kind, Reading, Site, WorstSample, select
from gradwatch.read import distributions
from gradwatch.read.chosen_rows import RankChoice, measured_steps
from gradwatch.read.heatmap import Heatmap
from gradwatch.read.members import NotRecordedError, kind_of
from gradwatch.read.query_result import QueryResult
from gradwatch.read.rank_tables import RankSeries, RankTable, rank_table
from gradwatch.read.recorded_readings import readings, readings_at
from gradwatch.read.row_groups import RowGroups
from gradwatch.read.row_tables import RowTable, RowTables
from gradwatch.read.run_displays import RunDisplays
from gradwatch.read.run_state import RunState
from gradwatch.read.samples import worst_by_step
from gradwatch.read.series import series
from gradwatch.read.steps import EVER, Bucketing, Steps, Stretch, Values, by_width, within


class Run(RunDisplays, RunState):
    """A recorded run, made by `gradwatch.open`.

    It shows the run as of its opening or the last `refresh`, also while the run is still
    being written. Every file is compared with its checksum before a number of it is shown.
    Damaged files are in `damage`, and the rest is served. Where training was resumed at an
    earlier step, the latest attempt counts. All methods may be called from several threads.

    Several processes may have recorded the run. `rank=` chooses among them:

    - `None`: for each site the first rank that has recorded it.
    - a number: that rank.
    - `"all"`: all ranks. Outputs, and what else each rank has of its share of the batch, are
      merged. Losses and other numbers are averaged. Of variables, of which ranks have
      copies, the first rank counts.

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
    [Site(kind=Kind('gradient'), path='dense/kernel')]
    >>> run.series("gradient", "dense/kernel", "l2")
    (array([1, 2, 3]), array([ 0.,  5., 10.]))
    >>> run.sql("select path, max(l2) from summaries where kind = 'gradient' group by path")
    path          max(l2)
    dense/kernel  10
    (1 row)
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._row_tables = RowTables()

    def series(
        self,
        kind: Kind | str,
        path: str,
        statistic: str = "l2",
        *,
        rank: RankChoice = None,
        micro_batch: int | None = None,
    ) -> tuple[Steps, Values]:
        """A statistic over the steps at which it was measured.

        Args:
            kind: what was measured: `"gradient"`, `"weight"`, ...
            path: a site, or the end of its path if no other path ends so. Or a layer, a
                block, a named group, or `"model"`: its sites are merged at each step.
            statistic: one of `gradwatch.core.STATISTICS`; of updates also
                `"update_ratio"`, the L2 norm relative to the weight's; of losses and
                spectral norms `"value"`.
            rank: a number, `"all"`, or None for the first; see `Run`.
            micro_batch: its index. Without one: the step as a whole or, where that
                was not recorded, its micro-batches merged.

        Returns:
            The steps, ascending, and the values.

        Raises:
            NotRecordedError: there is no such site; the nearest are named.
            ValueError: there is no such statistic.
        """
        return series(self._snapshot, kind, path, statistic, self._choice(rank), micro_batch)

    def across_ranks(
        self,
        kind: Kind | str,
        path: str,
        statistic: str = "l2",
        *,
        steps: tuple[int, int] | None = None,
    ) -> RankSeries:
        """A statistic on every rank that has recorded it.

        Args:
            kind, path, statistic: as in `series`; sites are merged on each rank by itself.
            steps: only from the first to the last of these two steps.

        Returns:
            The steps, the ranks, and the values of ranks by steps; it raises as `series` does.

        Example:

        >>> import tempfile
        >>> import gradwatch, numpy as np
        >>> directory = tempfile.mkdtemp()
        >>> for rank in (0, 1):
        ...     sink = gradwatch.Store(rank=rank)
        ...     with gradwatch.Monitor(directory, every=1, sinks=[sink]) as monitor:
        ...         monitor.record(loss=0.5 + rank)
        >>> losses = gradwatch.open(directory).across_ranks("loss", "loss", "value")
        >>> losses.ranks, losses.steps, losses.values
        ((0, 1), array([1]), array([[0.5],
               [1.5]]))
        """
        table = self.rank_table(kind, path, statistic, Bucketing(1), _stretch(steps))
        return RankSeries(table.first, table.ranks, table.values)

    def rank_table(
        self,
        kind: Kind | str,
        path: str,
        statistic: str,
        bucketing: Bucketing,
        stretch: Stretch = EVER,
    ) -> RankTable:
        """As `across_ranks`, with columns of several steps each."""
        return rank_table(self._snapshot, kind, path, statistic, bucketing, stretch)

    def losses(self, *, rank: RankChoice = None) -> dict[str, tuple[Steps, Values]]:
        """By path, the steps and values of each loss; NaN or infinite where they were."""
        return self._numbers(Kind.LOSS, rank)

    def metrics(self, *, rank: RankChoice = None) -> dict[str, tuple[Steps, Values]]:
        """By name, the steps and values of the numbers that training reported after steps."""
        return self._numbers(Kind.METRIC, rank)

    def epoch_metrics(self, *, rank: RankChoice = None) -> dict[str, tuple[Steps, Values]]:
        """The same at the ends of epochs: `val_loss`, ...; the step is the epoch's last."""
        return self._numbers(Kind.EPOCH_METRIC, rank)

    def samples(self, *, rank: RankChoice = None) -> dict[int, list[WorstSample]]:
        """By step, the samples of the batch with the highest losses, the worst first."""
        return worst_by_step(self._numbers(Kind.SAMPLE_LOSS, rank))

    def _numbers(self, kind: Kind, rank: RankChoice) -> dict[str, tuple[Steps, Values]]:
        paths = [site.path for site in self.sites(kind)]
        return {path: self.series(kind, path, VALUE.name, rank=rank) for path in paths}

    def histogram(
        self, kind: Kind | str, path: str, step: int, *, rank: RankChoice = None
    ) -> Histogram:
        """The histogram that was taken at a step; `path` as in `series`.

        Raises:
            NotRecordedError: none was taken then; the nearest steps are named.
        """
        return distributions.histogram(self._snapshot, kind, path, step, self._choice(rank))

    def histograms(
        self, kind: Kind | str, path: str, *, rank: RankChoice = None
    ) -> tuple[Steps, list[Histogram]]:
        """The steps at which histograms were taken, and these; `path` as in `series`."""
        return distributions.histograms(self._snapshot, kind, path, self._choice(rank))

    def histogram_steps(self, kind: Kind | str, path: str, *, rank: RankChoice = None) -> Steps:
        """The steps at which `histograms` has one, without reading them."""
        sites = self.members(kind, path)
        return distributions.histogram_steps(self._snapshot, sites, self._choice(rank))

    def pictured(self, *, rank: RankChoice = None) -> list[str]:
        """The paths of the variables that were drawn."""
        return distributions.pictured(self._snapshot, self._choice(rank))

    def pictures(self, path: str, *, rank: RankChoice = None) -> tuple[Steps, list[bytes]]:
        """The steps at which a variable was drawn, and PNG files; `path` as in `series`.

        Raises:
            NotRecordedError: it was never drawn; those that were are named.
        """
        return distributions.pictures(self._snapshot, path, self._choice(rank))

    def at(self, step: int, *, rank: int | None = None) -> list[Reading]:
        """The readings of a step, one for each group and each micro-batch, without pictures."""
        return readings_at(self._snapshot, step, self._one_rank(rank))

    def readings(self, *, rank: int | None = None) -> Iterator[Reading]:
        """The readings of all steps in their order: faster than `at` for each step."""
        return readings(self._snapshot, self._one_rank(rank))

    def heatmap(
        self,
        kind: Kind | str,
        statistic: str = "l2",
        *,
        max_cells: int = 200_000,
        pattern: select.Spec | None = None,
        steps: tuple[int, int] | None = None,
        rank: RankChoice = None,
    ) -> Heatmap:
        """A statistic of all sites of a kind over the whole run, merged over steps.

        Args:
            kind: what was measured.
            statistic: as in `series`.
            max_cells: the largest number of values: neighbouring steps are merged.
            pattern: only the sites that it selects.
            steps: only from the first to the last of these two steps.
            rank: a number, `"all"`, or None for the first; see `Run`.

        Raises:
            NotRecordedError: nothing of that kind is recorded, or nothing is selected.
            ValueError: there is no such statistic.
        """
        chosen = kind_of(kind, self._snapshot.sites)
        sites = self.sites(chosen, pattern)
        if not sites:
            raise NotRecordedError(
                f"{pattern!r} selects no {chosen} of this run. "
                f"List them with run.sites({str(chosen)!r})."
            )
        if max_cells < 1:
            raise ValueError(f"max_cells must be >= 1. Received: {max_cells}")
        stretch = _stretch(steps)
        measured = within(measured_steps(self._snapshot, chosen, self._choice(rank)), stretch)
        bucketing = by_width(measured, max(1, max_cells // len(sites)))
        return self.merged(sites, statistic, bucketing, stretch, rank)

    def merged(
        self,
        sites: Sequence[Site],
        statistic: str,
        bucketing: Bucketing,
        stretch: Stretch = EVER,
        rank: RankChoice = None,
    ) -> Heatmap:
        """A heatmap of sites of one kind with these columns."""
        rows = RowGroups.of([[site] for site in sites])
        table = self.row_table(sites[0].kind, rows, [statistic], bucketing, stretch, rank)
        return Heatmap.from_table(statistic, tuple(sites), table)

    def row_table(
        self,
        kind: Kind | str,
        rows: RowGroups,
        statistics: Sequence[str],
        bucketing: Bucketing,
        stretch: Stretch = EVER,
        rank: RankChoice = None,
    ) -> RowTable:
        """Statistics of sites merged into rows, with these columns.

        Args:
            kind: of all the sites.
            rows: which sites are merged into each row.
            statistics: as in `series`.
            bucketing: which column a step falls into.
            stretch: only from the first to the last of these two steps.
            rank: a number, `"all"`, or None for the first; see `Run`.
        """
        snapshot, chosen = self._snapshot, kind_of(kind, self._snapshot.sites)
        return self._row_tables.make(
            snapshot, chosen, rows, statistics, bucketing, stretch, self._choice(rank)
        )

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> QueryResult:
        """Run a query in DuckDB's SQL, which can read nothing but this run.

        The tables are `summaries`, `all_summaries`, `histograms`, `pictures`, `losses`, `metrics`,
        `sites` and `attempts`; see docs/reading.md.

        Args:
            query: one SELECT statement.
            parameters: for each `?` in it a value.

        Raises:
            QueryError: it is not that, or it is wrong.
        """
        return QueryResult(self._snapshot.database, query, parameters)

    def to_pandas(self) -> Any:
        """All summaries as a `pandas.DataFrame`."""
        return self.sql(_SUMMARIES).to_pandas()

    def to_arrow(self) -> Any:
        """All summaries as a `pyarrow.Table`."""
        return self.sql(_SUMMARIES).to_arrow()

    def to_polars(self) -> Any:
        """All summaries as a `polars.DataFrame`."""
        return self.sql(_SUMMARIES).to_polars()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        last = self.last_step
        parts = [
            str(self.status),
            f"{len(self._snapshot.sites):,} sites",
            "no step" if last is None else f"{self.measured_steps.size:,} steps to {last:,}",
        ]
        if self.damage:
            parts.append(f"{len(self.damage)} damaged")
        return f"Run({str(self.path)!r}: {', '.join(parts)})"

    def _one_rank(self, rank: int | None) -> int:
        if isinstance(self._choice(rank), str):
            raise ValueError(f"rank must be a number or None for readings. Received: {rank!r}")
        return min(self.ranks, default=0) if rank is None else rank


def _stretch(steps: tuple[int, int] | None) -> Stretch:
    return EVER if steps is None else (int(steps[0]), int(steps[1]))


_SUMMARIES = "SELECT * FROM summaries ORDER BY rank, kind, path, step, micro_batch"
