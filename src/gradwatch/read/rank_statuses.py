"""How each of the processes stands that train together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gradwatch.read.catalog import Writer
from gradwatch.read.moments import Moments
from gradwatch.read.status import RankStatus, Status, status_of


def of(writers: Iterable[Writer], moments: Moments, expected: int) -> list[RankStatus]:
    """The status of every rank, in their order.

    Args:
        writers: of all ranks, oldest first.
        moments: what of them is not superseded.
        expected: how many ranks the training has, as far as it is known: one that has no
            writer has recorded nothing.
    """
    writers_of: dict[int, list[Writer]] = {rank: [] for rank in range(expected)}
    for writer in writers:
        writers_of.setdefault(writer.rank, []).append(writer)
    columns = moments.columns
    # All ranks in one pass: there may be a thousand of them.
    ranks, place = np.unique(columns["rank"], return_inverse=True)
    first_step = np.full(ranks.size, np.iinfo(np.int64).max)
    last_step = np.full(ranks.size, np.iinfo(np.int64).min)
    first_time, last_time = np.full(ranks.size, np.inf), np.full(ranks.size, -np.inf)
    np.minimum.at(first_step, place, columns["step"])
    np.maximum.at(last_step, place, columns["step"])
    np.minimum.at(first_time, place, columns["first"])
    np.maximum.at(last_time, place, columns["last"])
    row_of = {int(rank): row for row, rank in enumerate(ranks)}

    def status(rank: int) -> RankStatus:
        stands: Status = status_of(writers_of[rank], [])
        row = row_of.get(rank)
        if row is None:
            return RankStatus(rank, stands)
        return RankStatus(
            rank,
            stands,
            int(last_step[row]),
            float(last_time[row]),
            int(first_step[row]),
            float(first_time[row]),
        )

    return [status(rank) for rank in sorted(writers_of)]
