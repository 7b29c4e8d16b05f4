"""What was recorded at one step, as the readings it was recorded from."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwatch.histogram import CELLS
from gradwatch.reading import Reading
from gradwatch.sites import Site
from gradwatch.store.reader.snapshot import Snapshot
from gradwatch.store.tables import NO_MICRO_BATCH
from gradwatch.summary import FIELDS, Summary

_FIELDS = ", ".join(f"{name}::DOUBLE AS {name}" for name in FIELDS)


def readings_at(snapshot: Snapshot, step: int, rank: int) -> list[Reading]:
    """A reading for each part of the training and each micro-batch; see `Run.at`."""
    which = "WHERE rank = ? AND step = ?"
    rows = snapshot.database.fetch(
        f'SELECT writer, site, "group", coalesce(micro_batch, {NO_MICRO_BATCH}) AS part, epoch, '
        f"time, {_FIELDS} FROM _summaries {which}",
        [rank, int(step)],
    )
    cells = snapshot.database.fetch(
        f"SELECT writer, site, coalesce(micro_batch, {NO_MICRO_BATCH}) AS part, cell, cell_count "
        f"FROM _histograms {which}",
        [rank, int(step)],
    )
    counts = _counts(snapshot, cells)
    place = {site: i for i, site in enumerate(snapshot.sites)}
    by_reading: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row, (writer, number) in enumerate(zip(rows["writer"], rows["site"], strict=True)):
        site = snapshot.site_of[writer][number]
        if site is not None:
            key = rows["group"][row], int(rows["part"][row])
            by_reading.setdefault(key, []).append((place[site], row))
    found = []
    for (group, part), members in sorted(by_reading.items()):
        members.sort()
        sites = [snapshot.sites[i] for i, _ in members]
        at = [row for _, row in members]
        position = {site: i for i, site in enumerate(sites)}
        groups = {n: [position[s] for s in m if s in position] for n, m in snapshot.groups.items()}
        found.append(
            Reading(
                int(step),
                int(rows["epoch"][at].max()),
                float(rows["time"][at].max()),
                sites,
                Summary(*(rows[name][at] for name in FIELDS)),
                {i: counts[s, part] for i, s in enumerate(sites) if (s, part) in counts},
                group,
                None if part == NO_MICRO_BATCH else part,
                {name: of for name, of in groups.items() if of},
            )
        )
    return found


def _counts(snapshot: Snapshot, cells: dict[str, Any]) -> dict[tuple[Site, int], Any]:
    counts: dict[tuple[Site, int], Any] = {}
    columns = (cells[name] for name in ("writer", "site", "part", "cell", "cell_count"))
    for writer, number, part, cell, count in zip(*columns, strict=True):
        site = snapshot.site_of[writer][number]
        if site is not None:
            counts.setdefault((site, int(part)), np.zeros(CELLS))[cell] += count
    return counts
