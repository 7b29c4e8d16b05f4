"""Merging over steps: rows of the store into cells of sites by columns of steps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.sites import Site
from gradwatch.store.reader import views
from gradwatch.store.reader.database import Columns
from gradwatch.store.reader.snapshot import Snapshot

Values = NDArray[np.float64]

FIRST, LAST = "first", "last"
"""Beside the fields of a summary: the first and the last measured step of a cell."""

_MERGE = {"min": "min", "max": "max", FIRST: "min", LAST: "max"}
_FEW = 64


@dataclass(frozen=True)
class Bucketing:
    """Which column a step falls into: `(step - origin) * columns // span`.

    >>> import numpy as np
    >>> from gradwatch.store.reader.grid import Bucketing
    >>> Bucketing(span=10).of(np.array([1, 9, 10, 25]))
    array([0, 0, 1, 2])
    >>> Bucketing(origin=1, columns=4, span=100).of(np.array([1, 50, 100]))
    array([0, 1, 3])
    """

    span: int
    origin: int = 0
    columns: int = 1

    def of(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The columns' numbers."""
        return (steps - self.origin) * self.columns // self.span

    def sql(self) -> str:
        """The same in SQL."""
        return f"(step - {self.origin}) * {self.columns} // {self.span}"


@dataclass(frozen=True)
class Question:
    """What is to be merged: equal questions have equal answers for the same file.

    Attributes:
        rank: the process of a parallel training.
        sites: all of one kind.
        fields: of a summary.
        bucketing: which column a step falls into.
        stretch: the first and the last step.
        bounds: stands for what is superseded.
    """

    rank: int
    sites: tuple[Site, ...]
    fields: tuple[str, ...]
    bucketing: Bucketing
    stretch: tuple[int, int]
    bounds: tuple[Any, ...]


class Grid:
    """The answer to a question, of which what sealed files say is kept."""

    def __init__(self) -> None:
        self._covered: frozenset[Path] = frozenset()
        self._kept: Columns = {}
        self._lock = threading.Lock()

    def read(
        self, snapshot: Snapshot, question: Question, buckets: NDArray[np.int64]
    ) -> dict[str, Values]:
        """Each field, and how many `steps` were measured, as arrays of sites by buckets."""
        place = {site: i for i, site in enumerate(question.sites)}
        if snapshot.has_parts:
            # A step's micro-batches may be in two files.
            found = _ask_merging_parts(snapshot, question, place)
        else:
            with self._lock:
                fresh = [path for path in snapshot.segments if path not in self._covered]
                if not self._covered <= set(snapshot.segments):
                    self._kept, fresh = {}, list(snapshot.segments)
                if fresh:
                    more = _ask(snapshot, question, place, views.parquet(_absolute(fresh)))
                    self._kept = joined([self._kept, more])
                    self._covered = frozenset(snapshot.segments)
                kept = self._kept
            tail = _ask(snapshot, question, place, "_tail_summaries")
            found = joined([kept, tail])
        return dense(found, len(question.sites), question.fields, buckets)


def _absolute(paths: Sequence[Path]) -> list[Path]:
    return [path.absolute() for path in paths]


def _where(snapshot: Snapshot, question: Question) -> str:
    first, last = question.stretch
    kind = views.literal(str(question.sites[0].kind))
    where = f"rank = {question.rank} AND kind = {kind} AND step BETWEEN {first} AND {last}"
    if len(question.sites) <= _FEW:
        numbers = sorted({n for s in question.sites for n in snapshot.numbers.get(s, [-1])})
        where += f" AND site IN ({', '.join(map(str, numbers))})"
    return where


def merges(fields: Sequence[str]) -> str:
    """How fields of rows are merged, in SQL."""
    return ", ".join(f"{_MERGE.get(f, 'sum')}({f})::DOUBLE AS {f}" for f in fields)


def _ask(snapshot: Snapshot, question: Question, place: dict[Site, int], source: str) -> Columns:
    judged = views.judge(source, bool(snapshot.bounds))
    writer = "writer" if len(snapshot.site_of) > 1 else "NULL AS writer"
    return _placed(
        snapshot,
        place,
        snapshot.database.fetch(
            f"SELECT {writer}, site, {question.bucketing.sql()} AS bucket, "
            f"count(*)::DOUBLE AS steps, {merges(question.fields)} FROM ({judged}) "
            f"WHERE {_where(snapshot, question)} AND NOT superseded GROUP BY ALL"
        ),
    )


def _ask_merging_parts(snapshot: Snapshot, question: Question, place: dict[Site, int]) -> Columns:
    merged = merges(question.fields)
    return _placed(
        snapshot,
        place,
        snapshot.database.fetch(
            "WITH step_sums AS (SELECT writer, site, step, micro_batch IS NOT NULL AS part, "
            f"{merged} FROM _summaries WHERE {_where(snapshot, question)} "
            "GROUP BY writer, site, step, part "
            "QUALIFY row_number() OVER (PARTITION BY writer, site, step ORDER BY part) = 1) "
            f"SELECT writer, site, {question.bucketing.sql()} AS bucket, "
            f"count(*)::DOUBLE AS steps, {merged} FROM step_sums GROUP BY ALL"
        ),
    )


def _placed(snapshot: Snapshot, place: dict[Site, int], rows: Columns) -> Columns:
    """The rows with `row`, the site's place; without those of other sites."""
    writers = rows.pop("writer")
    numbers = rows.pop("site")
    row = np.full(numbers.size, -1, np.int64)
    for writer, sites in snapshot.site_of.items():
        rows_of = np.array([-1 if s is None else place.get(s, -1) for s in sites], np.int64)
        own = writers == writer if len(snapshot.site_of) > 1 else np.ones(numbers.size, bool)
        known = own & (numbers < rows_of.size)
        row[known] = rows_of[numbers[known]]
    chosen = row >= 0
    return {"row": row[chosen], **{name: values[chosen] for name, values in rows.items()}}


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of several answers, one below the other."""
    filled = [part for part in parts if part]
    if len(filled) == 1:
        return filled[0]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]}


def dense(
    found: Columns, rows: int, fields: Sequence[str], buckets: NDArray[np.int64]
) -> dict[str, Values]:
    """What was found for cells, as arrays of rows by buckets: `steps` and each field."""
    shape = rows, buckets.size
    column = np.searchsorted(buckets, found["bucket"])
    # A journal may have been read on since the buckets were chosen.
    known = np.isin(found["bucket"], buckets)
    cell = found["row"][known] * buckets.size + column[known]
    filled = {}
    for name in ("steps", *fields):
        values = found[name][known]
        if name in _MERGE:
            lowest = _MERGE[name] == "min"
            flat = np.full(shape[0] * shape[1], np.inf if lowest else -np.inf)
            (np.minimum if lowest else np.maximum).at(flat, cell, values)
        else:
            flat = np.bincount(cell, values, shape[0] * shape[1])
        filled[name] = flat.reshape(shape)
    return filled
