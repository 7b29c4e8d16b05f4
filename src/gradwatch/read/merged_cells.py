"""Summaries merged over sites and steps into cells: rows by columns of steps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradwatch.core import FIELDS, IDENTITY, Kind, Summary
from gradwatch.read import views
from gradwatch.read.attempts import BoundsKey
from gradwatch.read.chosen_rows import ChosenRows, RankChoice, merge_sql
from gradwatch.read.database import Columns
from gradwatch.read.row_groups import RowGroups
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.steps import Bucketing, Steps, Stretch, Values, within

_MOST_SHARED = 256
_LOWEST, _HIGHEST = ("min", "first"), ("max", "last")


@dataclass(frozen=True, eq=False)
class Cells:
    """What was merged, in arrays of rows by columns.

    In `total`, fields that were not read are as of an empty tensor. `first` and `last` are infinite
    where no step was measured.
    """

    total: Summary
    steps: Values
    first: Values
    last: Values

    @classmethod
    def arrange(cls, found: Columns, rows: int, buckets: Steps) -> Cells:
        """Arrange the result of queries, which may have several rows for a cell."""
        # A journal may have been read on since the buckets were chosen.
        known = np.isin(found["bucket"], buckets)
        column = np.searchsorted(buckets, found["bucket"][known])
        cell = found["row"][known] * buckets.size + column

        def array(name: str) -> Values:
            if name not in found:
                return np.full((rows, buckets.size), IDENTITY[FIELDS.index(name)])
            values = found[name][known]
            if name in _LOWEST or name in _HIGHEST:
                flat = np.full(rows * buckets.size, np.inf if name in _LOWEST else -np.inf)
                (np.minimum if name in _LOWEST else np.maximum).at(flat, cell, values)
            else:
                flat = np.bincount(cell, values, rows * buckets.size)
            return flat.reshape(rows, buckets.size)

        total = Summary(*map(array, FIELDS))
        return cls(total, array("steps"), array("first"), array("last"))


def merge_cells(
    chosen: ChosenRows,
    rows: str,
    fields: Sequence[str],
    bucketing: Bucketing,
    classes: Sequence[Sequence[int]] | None = None,
) -> Columns:
    """Merge rows into cells: for each `row` and `bucket`, the `steps`, `first`, `last` and fields.

    A step counts once for a row, whichever of its sites, on whichever ranks, were measured. With
    `classes`, `row` in the SQL is the number of a class, and these are the rows of each.
    """
    merged = merge_sql(fields)
    by_step = f"SELECT row, step, {chosen.merged(fields)} FROM {rows} GROUP BY row, step"
    tables: dict[str, Columns] = {}
    if classes is not None and any(tuple(own) != (i,) for i, own in enumerate(classes)):
        tables["_row_of_class"] = {
            "class": np.array([i for i, own in enumerate(classes) for _ in own], np.int32),
            "row": np.array([row for own in classes for row in own], np.int32),
        }
        by_step = (
            f"SELECT r.row, step, {merged} FROM ({by_step}) b "
            "JOIN _row_of_class r ON b.row = r.class GROUP BY r.row, step"
        )
    return chosen.fetch(
        f"SELECT row, {bucketing.sql()} AS bucket, count(*)::DOUBLE AS steps, "
        f"min(step)::DOUBLE AS first, max(step)::DOUBLE AS last, {merged} "
        f"FROM ({by_step}) GROUP BY ALL",
        tables,
    )


@dataclass(frozen=True)
class CellQuestion:
    """What is to be merged: equal questions have equal answers for the same files."""

    rank: RankChoice
    kind: Kind
    rows: RowGroups
    fields: tuple[str, ...]
    bucketing: Bucketing
    stretch: Stretch
    bounds: BoundsKey


class CachedCells:
    """The answer to a question; keeps the part that comes from sealed files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: object = None
        self._covered: frozenset[Path] = frozenset()
        self._kept: Columns = {}

    def read(self, snapshot: Snapshot, question: CellQuestion, buckets: Steps) -> Cells:
        classes, class_of = question.rows.classes()
        chosen = ChosenRows(snapshot, class_of, question.rank, question.stretch)

        def merge(source: str | None = None, where: str = "true") -> Columns:
            rows = chosen.sql(question.fields, source=source, where=where)
            return merge_cells(chosen, rows, question.fields, question.bucketing, classes)

        shared = within(
            snapshot.shared_steps(chosen.ranks, str(question.kind)), question.stretch
        ).tolist()
        if snapshot.has_micro_batches or len(shared) > _MOST_SHARED:
            # The micro-batches, sites or ranks of a step may be in several files.
            found = merge()
        else:
            steps = ", ".join(map(str, shared)) or "NULL"
            own = f"step NOT IN ({steps})" if shared else "true"
            with self._lock:
                files = snapshot.segments_of(chosen.ranks)
                known = shared, chosen.numbering
                if known != self._known or not self._covered <= set(files):
                    self._known, self._covered, self._kept = known, frozenset(), {}
                fresh = [path.absolute() for path in files if path not in self._covered]
                if fresh:
                    more = merge(views.parquet(fresh), own)
                    self._kept, self._covered = _join([self._kept, more]), frozenset(files)
                kept = self._kept
            parts = [kept, merge("_tail_summaries", own)]
            if shared:
                parts.append(merge(None, f"step IN ({steps})"))
            found = _join(parts)
        return Cells.arrange(found, len(question.rows), buckets)


def _join(parts: Sequence[Columns]) -> Columns:
    filled = [part for part in parts if part]
    if len(filled) == 1:
        return filled[0]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]}
