"""When each kind was recorded: its steps, attempts, epochs and times.

A sealed file does not change, so DuckDB reads these of each file once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind
from gradwatch.read import views
from gradwatch.read.attempts import Bounds
from gradwatch.read.database import Columns, Database
from gradwatch.store import quoted

_NAMES = ("writer", "rank", "attempt", "kind", "group", "epoch", "step")
_TIMES = (
    "min(time) AS first, max(time) AS last, "
    "count(*)::BIGINT AS rows, count(micro_batch)::BIGINT AS parts"
)
_WHAT = f"{', '.join(map(quoted, _NAMES))}, {_TIMES}"
# A sealed file is of one writer: to compare its name row by row takes several times as long.
_WHAT_OF_FILE = (
    "any_value(writer) AS writer, any_value(rank) AS rank, "
    f"{', '.join(map(quoted, _NAMES[2:]))}, {_TIMES}"
)
_TEXTS = ("writer", "kind", "group")
_FILES = 256
"""So many files are read at once."""
_COLUMNS = (*_NAMES, "first", "last", "rows", "parts")


@dataclass(frozen=True)
class RecordedEpoch:
    """An epoch, counted from 1, and its first and its last step as far as they are recorded.

    `is_exact` is False if the steps before the first one were not recorded: the epoch may have
    begun at one of them.
    """

    number: int
    first_step: int
    last_step: int
    is_exact: bool = True


class MomentCache:
    def __init__(self) -> None:
        self._known: dict[Path, Columns] = {}
        self._texts: dict[str, str] = {}

    def of(self, database: Database, segments: Sequence[Path]) -> Moments:
        """The moments of sealed files and of journals."""
        fresh = [path for path in segments if path not in self._known]
        for start in range(0, len(fresh), _FILES):
            self._learn(database, fresh[start : start + _FILES])
        tail = self._fetch(database, f"SELECT {_WHAT} FROM _tail_summaries GROUP BY ALL")
        parts = [*(self._known[path] for path in segments), tail]
        columns = {name: np.concatenate([p[name] for p in parts]) for name in _COLUMNS}
        columns["file"] = np.repeat(np.arange(len(parts)), [p["step"].size for p in parts])
        return Moments(columns)

    def _learn(self, database: Database, paths: Sequence[Path]) -> None:
        """Read the moments of several files at once: one by one, a thousand take long."""
        files = [path.absolute() for path in paths]
        source = views.parquet(files, with_filename=True)
        rows = self._fetch(database, f"SELECT filename, {_WHAT_OF_FILE} FROM {source} GROUP BY ALL")
        number_of = {str(file): i for i, file in enumerate(files)}
        number = np.array([number_of[name] for name in rows.pop("filename")], np.int64)
        order = np.argsort(number, kind="stable")
        ends = np.searchsorted(number[order], np.arange(len(paths) + 1))
        for i, path in enumerate(paths):
            own = order[ends[i] : ends[i + 1]]
            self._known[path] = {name: values[own] for name, values in rows.items()}

    def _fetch(self, database: Database, query: str) -> Columns:
        """The rows of a query, in which equal names are one object: there are very many."""
        rows = database.fetch(query)
        for name in _TEXTS:
            texts = (self._texts.setdefault(text, text) for text in rows[name].tolist())
            rows[name] = np.fromiter(texts, object, rows[name].size)
        return rows


@dataclass(frozen=True)
class Moments:
    """One row for each writer, attempt, kind, group and step that has any.

    The columns are `writer`, `rank`, `attempt`, `kind`, `group`, `epoch`, `step`, `first`, `last`,
    `rows`, `parts` and `file`. `first` and `last` are times, `rows` counts rows, and `parts` those
    of them that are of micro-batches. `file` is where they are; the last file is all that is not
    sealed.
    """

    columns: Columns
    _current: list[tuple[Bounds, Moments]] = field(default_factory=list, repr=False)

    def current(self, bounds: Bounds) -> Moments:
        """Without those that a later attempt has superseded."""
        if not bounds:
            return self
        for known, current in self._current:
            if known is bounds:
                return current
        c = self.columns
        keys = zip(c["writer"], c["attempt"].tolist(), c["group"], strict=True)
        until = np.array([bounds.get(key, np.inf) for key in keys], np.float64)
        current = self.where(c["step"] < until)
        self._current.append((bounds, current))
        return current

    def where(self, chosen: NDArray[Any]) -> Moments:
        return Moments({name: values[chosen] for name, values in self.columns.items()})

    def of(self, ranks: Collection[int] | None = None, kind: str | None = None) -> Moments:
        chosen = np.ones(self.columns["step"].size, bool)
        if ranks is not None:
            chosen &= np.isin(self.columns["rank"], list(ranks))
        if kind is not None:
            chosen &= self.columns["kind"] == kind
        return self.where(chosen)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Ascending, each once."""
        return np.unique(self.columns["step"]).astype(np.int64)

    @property
    def shared_steps(self) -> NDArray[np.int64]:
        """The steps of which several files have rows, ascending."""
        order = np.lexsort((self.columns["file"], self.columns["step"]))
        steps, files = self.columns["step"][order], self.columns["file"][order]
        shared = (steps[1:] == steps[:-1]) & (files[1:] != files[:-1])
        return np.unique(steps[1:][shared]).astype(np.int64)

    @property
    def epochs(self) -> list[RecordedEpoch]:
        """In the order of steps. Each `fit` of a run counts its epochs anew."""
        steps, last = np.unique(self.columns["step"][::-1], return_index=True)
        epochs = self.columns["epoch"][::-1][last]
        ends = set(self.of(kind=Kind.EPOCH_METRIC).steps.tolist())
        bounds = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), steps.size]
        found = []
        for begin, end in pairwise(bounds if steps.size else []):
            first, before = int(steps[begin]), int(steps[begin - 1]) if begin else 0
            if before in ends:
                first = before + 1
            is_exact = first <= before + 1
            found.append(RecordedEpoch(int(epochs[begin]), first, int(steps[end - 1]), is_exact))
        return found

    @property
    def rows(self) -> int:
        return int(self.columns["rows"].sum())

    @property
    def has_micro_batches(self) -> bool:
        return bool(self.columns["parts"].any())

    def attempts(self) -> set[tuple[str, int]]:
        """Writer and number of the attempts that recorded anything."""
        pairs = zip(self.columns["writer"], self.columns["attempt"].tolist(), strict=True)
        return set(pairs)
