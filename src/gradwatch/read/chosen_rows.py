"""Which rows answer a question: of which sites, ranks, attempts and micro-batches.

Every query of summaries and histograms selects its rows here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from gradwatch.core import Kind, Site
from gradwatch.read import views
from gradwatch.read.database import Columns
from gradwatch.read.members import NotRecordedError
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.steps import EVER, Steps, Stretch
from gradwatch.store import literal

ALL: Literal["all"] = "all"
RankChoice = int | Literal["all"] | None
"""One rank; all ranks, merged; or None: for each site the first rank that has recorded it."""
MicroBatch = int | Literal["each"] | None
"""One micro-batch; each row by itself; or None: the whole step, or else its micro-batches."""


def check_rank(choice: RankChoice, ranks: Sequence[int]) -> RankChoice:
    """The choice; raises if there is no such rank."""
    if choice is None or choice == ALL:
        return choice
    if not isinstance(choice, int):
        raise ValueError(f"rank must be a number, 'all' or None. Received: {choice!r}")
    if choice not in ranks:
        known = ", ".join(map(str, ranks[:20])) + ", ..." * (len(ranks) > 20)
        raise NotRecordedError(f"There is no rank {choice} in this run. Recorded: {known}.")
    return int(choice)


def is_pooled(kind: Kind, choice: RankChoice) -> bool:
    """Whether the rows of all ranks count together.

    They do for what each rank has of its own share of the batch. Of variables, ranks have
    copies, which would count several times.
    """
    return choice == ALL and (kind.is_of_layer or kind.is_of_batch or kind.is_number)


def ranks_of(snapshot: Snapshot, sites: Sequence[Site], choice: RankChoice) -> frozenset[int]:
    """The ranks whose rows of some sites of one kind are chosen."""
    if isinstance(choice, int):
        return frozenset([choice])
    if sites and is_pooled(sites[0].kind, choice):
        return frozenset(snapshot.ranks)
    return frozenset(snapshot.home[site] for site in sites if site in snapshot.home)


def measured_steps(snapshot: Snapshot, kind: Kind, choice: RankChoice) -> Steps:
    """The steps, ascending, at which the chosen ranks have measured a kind."""
    ranks = ranks_of(snapshot, [site for site in snapshot.sites if site.kind is kind], choice)
    return snapshot.current_moments.of(ranks, str(kind)).steps


def merge_sql(fields: Sequence[str], count: str = "") -> str:
    """How fields of summaries are merged, in SQL; what adds up is divided by a count, if given."""
    over = f" / {count}" if count else ""
    return ", ".join(
        f"{f}({f})::DOUBLE AS {f}" if f in ("min", "max") else f"(sum({f}){over})::DOUBLE AS {f}"
        for f in fields
    )


class ChosenRows:
    """The rows of some sites that answer a question, in SQL; they are of one kind if merged.

    - Rank: as chosen. With `None` each site is read from the first rank that has it.
    - Attempt: a row that a later attempt has replaced is left out.
    - Micro-batch: as chosen. With `None`, where a site was recorded for the step as a whole,
      its micro-batches of that step are left out.

    `row_of` has for each site the number of the row that it is merged into. `by_rank` reads every
    rank, and `row` is then the rank. `numbering` changes whenever a site has another number.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        row_of: Mapping[Site, int],
        rank: RankChoice = None,
        stretch: Stretch = EVER,
        *,
        micro_batch: MicroBatch = None,
        by_rank: bool = False,
    ) -> None:
        self._snapshot, self._micro_batch, self._by_rank = snapshot, micro_batch, by_rank
        sites = list(row_of)
        self.ranks = frozenset(snapshot.ranks) if by_rank else ranks_of(snapshot, sites, rank)
        several = len(self.ranks) > 1 and not by_rank
        pooled = several and bool(sites) and is_pooled(sites[0].kind, rank)
        self._is_mean = pooled and sites[0].kind.is_number
        self._where = f"s.step BETWEEN {stretch[0]} AND {stretch[1]}"
        kinds = {site.kind for site in sites}
        if len(kinds) == 1:
            self._where += f" AND s.kind = {literal(str(sites[0].kind))}"
        if isinstance(micro_batch, int):
            self._where += f" AND s.micro_batch = {micro_batch}"
        if not set(snapshot.ranks) <= self.ranks:
            self._where += f" AND s.rank IN ({', '.join(map(str, sorted(self.ranks))) or 'NULL'})"
        self._choose_sites(row_of, only_home=several and not pooled)

    def _choose_sites(self, row_of: Mapping[Site, int], only_home: bool) -> None:
        found = list(self._numbers(row_of, only_home))
        self.numbering = tuple((writer, len(sites)) for writer, sites, _ in found)
        # Comparing the writers' names takes time, and is needed only if their numbers differ.
        by_writer = len({id(pairs) for _, _, pairs in found}) > 1
        pairs = [p for _, _, own in (found if by_writer else found[:1]) for p in own]
        numbers = np.array([number for number, _ in pairs], np.int32)
        if pairs:
            # Segments are sorted by this number: row groups outside of it are skipped.
            self._where += f" AND s.site BETWEEN {numbers.min()} AND {numbers.max()}"
        self._tables: dict[str, Columns] = {}
        self._row, self._join = "0", ""
        kinds = {site.kind for site in row_of}
        if len(kinds) == 1 and found and not by_writer and not any(row_of.values()):
            of_kind = sum(s is not None and s.kind in kinds for s in found[0][1])
            if numbers.size in (1, of_kind):
                return  # The conditions choose one site, or all sites of the kind.
        rows = np.array([row for _, row in pairs], np.int32)
        self._tables["_chosen"] = {"site": numbers, "row": rows}
        self._row, self._join = "c.row", "JOIN _chosen c ON s.site = c.site"
        if by_writer:
            names = [writer for writer, _, own in found for _ in own]
            self._tables["_chosen"]["writer"] = np.array(names, object)
            self._join += " AND s.writer = c.writer"

    def _numbers(
        self, row_of: Mapping[Site, int], only_home: bool
    ) -> Iterator[tuple[str, Sequence[Site | None], list[tuple[int, int]]]]:
        """Each writer, its sites, and the numbers and rows of those that are chosen."""
        snapshot = self._snapshot
        known: dict[object, list[tuple[int, int]]] = {}
        for rank in sorted(self.ranks):
            for writer, sites in snapshot.sites_of([rank]).items():
                # A thousand ranks that have the same sites share one list.
                key = id(sites), rank if only_home else None
                if key not in known:
                    known[key] = [
                        (number, row)
                        for site, row in row_of.items()
                        if not only_home or snapshot.home.get(site) == rank
                        for number in snapshot.numbers.get(site, ())
                        if number < len(sites) and sites[number] == site
                    ]
                yield writer, sites, known[key]

    def sql(
        self,
        columns: Sequence[str],
        table: str = "summaries",
        *,
        source: str | None = None,
        where: str = "true",
    ) -> str:
        """The rows as a subquery with `row`, `rank`, `step` and these columns.

        `source` replaces all rows by those to choose from.
        """
        snapshot = self._snapshot
        rows = source or f"({snapshot.all_rows(table, self.ranks)})"
        row = "s.rank" if self._by_rank else self._row
        query = (
            f"SELECT {row} AS row, s.rank, s.step, {', '.join(f's.{c}' for c in columns)} "
            f"FROM ({views.with_superseded(rows, bool(snapshot.bounds))}) s "
            f"{self._join} WHERE {self._where} AND NOT superseded AND ({where})"
        )
        if snapshot.has_micro_batches and self._micro_batch is None:
            query += (
                " QUALIFY (s.micro_batch IS NOT NULL) = bool_and(s.micro_batch IS NOT NULL)"
                " OVER (PARTITION BY s.writer, s.site, s.step)"
            )
        return f"({query})"

    def merged(self, fields: Sequence[str]) -> str:
        """How the rows of one step are merged, in SQL: numbers of several ranks are averaged."""
        return merge_sql(fields, "count(DISTINCT rank)" if self._is_mean else "")

    def fetch(self, query: str, tables: Mapping[str, Columns] | None = None) -> Columns:
        """The result of a query that contains `sql`."""
        return self._snapshot.database.fetch(query, tables={**self._tables, **(tables or {})})
