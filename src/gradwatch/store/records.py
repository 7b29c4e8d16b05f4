"""The records that a writer appends to its journal."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, Reading, stacked
from gradwatch.store import columns
from gradwatch.store.columns import PackedColumn
from gradwatch.store.journal import PICTURE, READING

Record = tuple[str, bytes]
"""The letter of its kind, and its payload; written to the journal as one frame."""

REMEMBERED = 16


def facts(kind: str, **known: Any) -> Record:
    """A record that has no columns."""
    return kind, columns.pack(known, {})


class PendingReading(NamedTuple):
    """A reading to be written; `sites` are the writer's numbers of its sites.

    `lost_rows` is how many rows could not be written since the last frame.
    """

    reading: Reading
    sites: NDArray[np.int64]
    attempt: int
    lost_rows: int


class ReadingEncoder:
    """Encodes readings as records: many at once, as one costs nearly as much.

    The column of the sites is the same at each step, and encoded once.
    """

    def __init__(self) -> None:
        self._sites: dict[int, tuple[NDArray[np.int64], PackedColumn]] = {}

    def encode(self, pending: Sequence[PendingReading]) -> list[Record]:
        numbers = _numbers([each.reading for each in pending])
        return [
            (
                READING,
                columns.join(
                    {
                        "step": int(reading.step),
                        "epoch": int(reading.epoch),
                        "time": float(reading.time),
                        "micro_batch": (
                            None if reading.micro_batch is None else int(reading.micro_batch)
                        ),
                        "attempt": attempt,
                        "lost_rows": lost_rows,
                    },
                    [self._site_column(sites), *own, *_cells(reading.cells)],
                ),
            )
            for (reading, sites, attempt, lost_rows), own in zip(pending, numbers, strict=True)
        ]

    def _site_column(self, sites: NDArray[np.int64]) -> PackedColumn:
        known = self._sites.get(id(sites))
        if known is None:
            if len(self._sites) >= REMEMBERED:
                self._sites.clear()
            # With the array itself, as long as it is known by its identity.
            known = self._sites[id(sites)] = (sites, columns.column("site", sites))
        return known[1]


def picture(reading: Reading, site: int, attempt: int, png: bytes) -> Record:
    about = {
        "site": site,
        "step": int(reading.step),
        "epoch": int(reading.epoch),
        "time": float(reading.time),
        "attempt": attempt,
    }
    return PICTURE, columns.pack(about, {"png": np.frombuffer(png, np.uint8)})


def _numbers(readings: Sequence[Reading]) -> list[list[PackedColumn]]:
    """The columns of each reading's summary."""
    found: list[list[PackedColumn]] = [[] for _ in readings]
    alike: dict[int, list[int]] = {}
    for i, reading in enumerate(readings):
        alike.setdefault(len(reading), []).append(i)
    for rows, own in alike.items():
        table = stacked([readings[i] for i in own])
        each = columns.many(FIELDS, table.reshape(len(own) * len(FIELDS), rows))
        for at, i in enumerate(own):
            found[i] = each[at * len(FIELDS) : (at + 1) * len(FIELDS)]
    return found


def _cells(cells: Mapping[int, Any]) -> Sequence[PackedColumn]:
    if not cells:
        return _NO_CELLS
    rows: Sequence[int] = sorted(cells)
    filled = [np.flatnonzero(cells[row]) for row in rows]
    counts = [cells[row][f] for row, f in zip(rows, filled, strict=True)]
    return [
        columns.column("cell_row", np.repeat(np.array(rows), [each.size for each in filled])),
        columns.column("cell", np.concatenate(filled)),
        columns.column("cell_count", np.concatenate(counts).astype(np.int64)),
    ]


_NO_CELLS = [
    columns.column(name, np.zeros(0, np.int64)) for name in ("cell_row", "cell", "cell_count")
]
