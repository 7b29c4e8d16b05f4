"""Sites merged into rows: blocks, layers and the whole model over columns of steps."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site
from gradwatch.read import views
from gradwatch.read.database import Columns
from gradwatch.read.grid import FIRST, LAST, Bucketing, Values, dense, joined, merges
from gradwatch.read.rank_choice import RankChoice, is_merged
from gradwatch.read.snapshot import Snapshot

_MOST_SHARED = 256


@dataclass(frozen=True)
class Rows:
    """For each row the sites that are merged into it, all of one kind; a site may be in several.

    Two with the same key have the same rows: the sites themselves are not compared.

    Example:

    >>> from gradwatch import Kind, Site
    >>> from gradwatch.read.merged_rows import Rows
    >>> a, b = (Site(Kind.GRADIENT, f"net/{name}/kernel") for name in "ab")
    >>> classes, class_of = Rows.of([[a, b], [b]]).classes()
    >>> classes, class_of[a], class_of[b]
    ([(0,), (0, 1)], 0, 1)
    """

    key: Hashable
    sites: tuple[tuple[Site, ...], ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, sites: Sequence[Sequence[Site]]) -> Rows:
        """Rows that are their own key."""
        given = tuple(map(tuple, sites))
        return cls(given, given)

    def __len__(self) -> int:
        return len(self.sites)

    def classes(self) -> tuple[list[tuple[int, ...]], dict[Site, int]]:
        """The sets of rows that sites are in, and which of these each site has.

        Sites of one class always go together, so that they are merged once and not
        once for every row that they are in.
        """
        rows_of: dict[Site, list[int]] = {}
        for row, sites in enumerate(self.sites):
            for site in sites:
                rows_of.setdefault(site, []).append(row)
        numbers: dict[tuple[int, ...], int] = {}
        class_of = {s: numbers.setdefault(tuple(r), len(numbers)) for s, r in rows_of.items()}
        return list(numbers), class_of


@dataclass(frozen=True)
class RowQuestion:
    """What is to be merged: equal questions have equal answers for the same files.

    Attributes:
        rank: whose rows are meant.
        kind: of all sites.
        rows: the sites to merge.
        fields: of a summary.
        bucketing: which column a step falls into.
        stretch: the first and the last step.
        bounds: stands for what is superseded.
    """

    rank: RankChoice
    kind: Kind
    rows: Rows
    fields: tuple[str, ...]
    bucketing: Bucketing
    stretch: tuple[int, int]
    bounds: tuple[Any, ...]


class RowGrid:
    """The answer to a question, of which what sealed files say is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: object = None
        self._covered: frozenset[Path] = frozenset()
        self._kept: Columns = {}

    def read(
        self, snapshot: Snapshot, question: RowQuestion, buckets: NDArray[np.int64]
    ) -> dict[str, Values]:
        """Each field, how many `steps` were measured, and which were the first and the last:
        arrays of rows by buckets.

        A step counts once for a row, whichever of its sites, and on whichever ranks, were
        measured at it.
        """
        asking = _Asking(snapshot, question)
        shared = None if snapshot.has_parts else asking.shared_steps()
        if shared is None or len(shared) > _MOST_SHARED:
            # A step's micro-batches, or its sites, may be in two files.
            found = asking.all_at_once()
        else:
            with self._lock:
                # Of a thousand ranks, the files of those that are asked for.
                own = snapshot.segments_of(asking.ranks)
                segments = frozenset(own)
                known = shared, asking.numbering()
                if known != self._known or not self._covered <= segments:
                    self._known, self._covered, self._kept = known, frozenset(), {}
                fresh = [path for path in own if path not in self._covered]
                if fresh:
                    source = views.parquet([path.absolute() for path in fresh])
                    more = asking.ask(source, without=shared)
                    self._kept, self._covered = joined([self._kept, more]), segments
                kept = self._kept
            parts = [kept, asking.ask("_tail_summaries", without=shared)]
            if shared:
                parts.append(asking.ask("_rows_of_summaries", only=shared))
            found = joined(parts)
        return dense(found, len(question.rows), (*question.fields, FIRST, LAST), buckets)


class _Asking:
    """A question in SQL; the classes of sites and their rows are tables beside the rows.

    Attributes:
        ranks: those whose rows are meant, of one site or another.
    """

    def __init__(self, snapshot: Snapshot, question: RowQuestion) -> None:
        self._snapshot, self._question = snapshot, question
        self._classes, class_of = question.rows.classes()
        self.ranks = snapshot.ranks_meant(class_of, question.rank)
        is_mixed = len(self.ranks) > 1
        # Numbers of several ranks are averaged; what else there is, is merged.
        is_pooled = is_mixed and is_merged(question.kind, question.rank)
        self._is_mean = is_pooled and question.kind.is_number
        self._sites_of = {rank: snapshot.sites_of([rank]) for rank in sorted(self.ranks)}
        by_writer = sum(map(len, self._sites_of.values())) > 1
        writers, numbers, classes = [], [], []
        for rank, sites_of in self._sites_of.items():
            for writer, sites in sites_of.items():
                for number, site in enumerate(sites):
                    if site is None or site not in class_of:
                        continue
                    if is_mixed and not is_pooled and snapshot.home.get(site) != rank:
                        continue
                    writers.append(writer)
                    numbers.append(number)
                    classes.append(class_of[site])
        self._same = "s.site = c.site" + (" AND s.writer = c.writer" if by_writer else "")
        self._tables: dict[str, Columns] = {
            "_classes": {
                "writer": np.array(writers, object),
                "site": np.array(numbers, np.int32),
                "class": np.array(classes, np.int32),
            },
            "_rows": {
                "class": np.array([i for i, rs in enumerate(self._classes) for _ in rs], np.int32),
                "row": np.array([row for rows in self._classes for row in rows], np.int32),
            },
        }
        first, last = question.stretch
        self._where = f"kind = {views.literal(str(question.kind))} "
        self._where += f"AND step BETWEEN {first} AND {last}"
        if not set(snapshot.ranks) <= self.ranks:
            self._where += f" AND rank IN ({', '.join(map(str, sorted(self.ranks))) or 'NULL'})"
        if numbers:
            # Segments are sorted by this number: what is outside is passed over.
            self._where += f" AND s.site BETWEEN {min(numbers)} AND {max(numbers)}"

    def numbering(self) -> object:
        """Stands for which site has which number."""
        return tuple(
            (name, len(sites)) for each in self._sites_of.values() for name, sites in each.items()
        )

    def shared_steps(self) -> tuple[int, ...]:
        """The steps of which several files have rows: of several ranks, or parts of a training
        that are recorded apart."""
        steps = self._snapshot.shared_steps(self.ranks, str(self._question.kind))
        first, last = self._question.stretch
        return tuple(steps[(steps >= first) & (steps <= last)].tolist())

    def ask(self, source: str, *, without: Sequence[int] = (), only: Sequence[int] = ()) -> Columns:
        """What some files say, in which no step is that another file has too."""
        where = self._where
        if only:
            where += f" AND step IN ({', '.join(map(str, only))})"
        elif without:
            where += f" AND step NOT IN ({', '.join(map(str, without))})"
        judged = views.judge(source, bool(self._snapshot.bounds))
        fields = ", ".join(f"s.{name}" for name in self._question.fields)
        return self._merged(
            f"SELECT c.class, s.rank, s.step, {fields} FROM ({judged}) s "
            f"JOIN _classes c ON {self._same} WHERE {where} AND NOT superseded"
        )

    def all_at_once(self) -> Columns:
        """What all files together say; of each site and step the whole step, or else its parts."""
        merged = merges(self._question.fields)
        return self._merged(
            f"SELECT class, rank, step, {', '.join(self._question.fields)} FROM (SELECT "
            f"rank, s.writer, s.site, c.class, step, micro_batch IS NOT NULL AS part, {merged} "
            f"FROM {self._snapshot.rows_of('summaries', self.ranks)} s "
            f"JOIN _classes c ON {self._same} WHERE {self._where} "
            "GROUP BY rank, s.writer, s.site, c.class, step, part QUALIFY row_number() "
            "OVER (PARTITION BY s.writer, s.site, step ORDER BY part) = 1)"
        )

    def _merged(self, own: str) -> Columns:
        merged, bucket = merges(self._question.fields), self._question.bucketing.sql()
        number = "count(DISTINCT rank)" if self._is_mean else ""
        of_class = merges(self._question.fields, number)
        query = (
            f"WITH by_class AS (SELECT class, step, {of_class} FROM ({own}) GROUP BY class, step)"
        )
        if all(len(rows) == 1 for rows in self._classes) and len(self._classes) == len(
            self._question.rows
        ):
            query += ", by_row AS (SELECT r.row, b.* FROM by_class b JOIN _rows r USING (class))"
        else:
            query += (
                f", by_row AS (SELECT r.row, step, {merged} FROM by_class "
                "JOIN _rows r USING (class) GROUP BY r.row, step)"
            )
        query += (
            f" SELECT row, {bucket} AS bucket, count(*)::DOUBLE AS steps, "
            f"min(step)::DOUBLE AS {FIRST}, max(step)::DOUBLE AS {LAST}, {merged} "
            "FROM by_row GROUP BY ALL"
        )
        return self._snapshot.database.fetch(query, tables=self._tables)
