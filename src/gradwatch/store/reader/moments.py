"""When what was recorded: the steps of each kind, of each attempt, and their times.

That of a sealed file is asked of DuckDB once, as the file does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.store.reader import views
from gradwatch.store.reader.attempts import Bounds
from gradwatch.store.reader.database import Columns, Database

_NAMES = ("writer", "rank", "attempt", "kind", "group", "epoch", "step")
_TIMES = (
    "min(time) AS first, max(time) AS last, "
    "count(*)::BIGINT AS rows, count(micro_batch)::BIGINT AS parts"
)
_WHAT = f"{', '.join(map(views.quoted, _NAMES))}, {_TIMES}"
# A sealed file is of one writer: to compare its name row by row takes several times as long.
_WHAT_OF_FILE = (
    "any_value(writer) AS writer, any_value(rank) AS rank, "
    f"{', '.join(map(views.quoted, _NAMES[2:]))}, {_TIMES}"
)
_COLUMNS = (*_NAMES, "first", "last", "rows", "parts")


class MomentCache:
    """Asks for the moments of files, each file once."""

    def __init__(self) -> None:
        self._known: dict[Path, Columns] = {}

    def of(self, database: Database, segments: Sequence[Path]) -> Moments:
        """The moments of sealed files and of what is not sealed."""
        for path in segments:
            if path not in self._known:
                self._known[path] = database.fetch(
                    f"SELECT {_WHAT_OF_FILE} FROM {views.parquet([path.absolute()])} GROUP BY ALL"
                )
        tail = database.fetch(f"SELECT {_WHAT} FROM _tail_summaries GROUP BY ALL")
        parts = [*(self._known[path] for path in segments), tail]
        columns = {name: np.concatenate([p[name] for p in parts]) for name in _COLUMNS}
        columns["file"] = np.repeat(np.arange(len(parts)), [p["step"].size for p in parts])
        return Moments(columns)


@dataclass(frozen=True)
class Moments:
    """One row for each writer, attempt, kind, group and step that has any.

    Attributes:
        columns: `writer`, `rank`, `attempt`, `kind`, `group`, `epoch`, `step`, the
            `first` and `last` time, how many `rows` there are, and how many of
            them are of micro-batches: `parts`; and in which `file` they are, the last
            one being all that is not sealed.
    """

    columns: Columns

    def current(self, bounds: Bounds) -> Moments:
        """Without those that a later attempt has superseded."""
        if not bounds:
            return self
        c = self.columns
        keys = zip(c["writer"], c["attempt"].tolist(), c["group"], strict=True)
        until = np.array([bounds.get(key, np.inf) for key in keys], np.float64)
        return self.where(c["step"] < until)

    def where(self, chosen: NDArray[Any]) -> Moments:
        """Some of the rows."""
        return Moments({name: values[chosen] for name, values in self.columns.items()})

    def of(self, rank: int | None = None, kind: str | None = None) -> Moments:
        """Those of a rank, or of a kind."""
        chosen = np.ones(self.columns["step"].size, bool)
        if rank is not None:
            chosen &= self.columns["rank"] == rank
        if kind is not None:
            chosen &= self.columns["kind"] == kind
        return self.where(chosen)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps, ascending, each once."""
        return np.unique(self.columns["step"]).astype(np.int64)

    @property
    def shared_steps(self) -> NDArray[np.int64]:
        """The steps of which several files have rows, ascending."""
        order = np.lexsort((self.columns["file"], self.columns["step"]))
        steps, files = self.columns["step"][order], self.columns["file"][order]
        shared = (steps[1:] == steps[:-1]) & (files[1:] != files[:-1])
        return np.unique(steps[1:][shared]).astype(np.int64)

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return int(self.columns["rows"].sum())

    @property
    def has_parts(self) -> bool:
        """Whether any row is of a micro-batch."""
        return bool(self.columns["parts"].any())

    def attempts(self) -> set[tuple[str, int]]:
        """Writer and number of the attempts that recorded anything."""
        pairs = zip(self.columns["writer"], self.columns["attempt"].tolist(), strict=True)
        return set(pairs)
