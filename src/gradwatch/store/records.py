"""What a writer appends to its journal: each kind of frame, from what it tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.reading import Reading
from gradwatch.store import columns
from gradwatch.summary import FIELDS

Record = tuple[str, bytes]
"""The kind of a frame, and its payload."""


def facts(kind: str, **known: Any) -> Record:
    """A frame that has no columns."""
    return kind, columns.pack(known, {})


def reading(taken: Reading, sites: NDArray[np.int64], attempt: int, lost_rows: int) -> Record:
    """A reading's frame.

    Args:
        taken: what was measured.
        sites: the writer's numbers of its sites.
        attempt: the attempt that it belongs to.
        lost_rows: how many rows could not be written since the last frame.
    """
    about = {
        "step": int(taken.step),
        "epoch": int(taken.epoch),
        "time": float(taken.time),
        "micro_batch": None if taken.micro_batch is None else int(taken.micro_batch),
        "attempt": attempt,
        "lost_rows": lost_rows,
    }
    numbers = {name: np.asarray(getattr(taken.summary, name)) for name in FIELDS}
    return "R", columns.pack(about, {"site": sites, **numbers, **_cells(taken.cells)})


def picture(taken: Reading, site: int, attempt: int, png: bytes) -> Record:
    """A picture's frame."""
    about = {
        "site": site,
        "step": int(taken.step),
        "epoch": int(taken.epoch),
        "time": float(taken.time),
        "attempt": attempt,
    }
    return "P", columns.pack(about, {"png": np.frombuffer(png, np.uint8)})


def _cells(cells: Mapping[int, Any]) -> dict[str, NDArray[Any]]:
    rows: Sequence[int] = sorted(cells)
    filled = [np.flatnonzero(cells[row]) for row in rows]
    nothing = np.zeros(0, np.int64)
    return {
        "cell_row": np.repeat(np.array(rows, np.int64), [each.size for each in filled]),
        "cell": np.concatenate([nothing, *filled]),
        "cell_count": np.concatenate(
            [nothing, *(cells[row][f] for row, f in zip(rows, filled, strict=True))]
        ).astype(np.int64),
    }
