"""What was recorded at steps, as the readings it was recorded from."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import CELLS, FIELDS, Reading, Site, Summary
from gradwatch.read.chosen_rows import ChosenRows
from gradwatch.read.database import Columns
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.steps import Stretch
from gradwatch.store import NO_MICRO_BATCH
from gradwatch.util.display import notebook

_NUMBERS = ", ".join(f"{name}::DOUBLE AS {name}" for name in FIELDS)
_PART = f"coalesce(micro_batch, {NO_MICRO_BATCH}) AS part"
_ROWS = 200_000
"""So many rows are read at once: a query for each step would take most of the time."""


class ReadingList(list[Reading]):
    """The readings of one step, which show themselves, and where to look if there are none."""

    def __init__(self, readings: Iterable[Reading], note: str = "") -> None:
        super().__init__(readings)
        self._note = note

    def __repr__(self) -> str:
        return super().__repr__() if self else f"[]  # {self._note}"

    def _repr_html_(self) -> str:
        return notebook().readings_html(self, self._note)


def readings_at(snapshot: Snapshot, step: int, rank: int) -> ReadingList:
    """See `Run.at`."""
    found = ReadingList(_between(snapshot, (int(step), int(step)), rank))
    return found or ReadingList([], _nothing_at(int(step), snapshot, rank))


def _nothing_at(step: int, snapshot: Snapshot, rank: int) -> str:
    steps = snapshot.current_moments.of(ranks=[rank]).steps
    place = int(np.searchsorted(steps, step))
    near = " and ".join(f"{s:,}" for s in steps[max(place - 1, 0) : place + 1].tolist())
    return f"Step {step:,} was not measured; the nearest: {near or 'none at all'}."


def readings(snapshot: Snapshot, rank: int) -> Iterator[Reading]:
    """See `Run.readings`."""
    moments = snapshot.current_moments.of(ranks=[rank])
    steps = moments.steps
    rows_a_step = moments.rows // max(steps.size, 1)
    several = max(1, _ROWS // max(rows_a_step, 1))
    for start in range(0, steps.size, several):
        batch = steps[start : start + several]
        yield from _between(snapshot, (int(batch[0]), int(batch[-1])), rank)


def _between(snapshot: Snapshot, stretch: Stretch, rank: int) -> Iterator[Reading]:
    place_of = {site: place for place, site in enumerate(snapshot.sites)}
    chosen = ChosenRows(snapshot, place_of, rank, stretch, micro_batch="each")
    about = ('"group"', "micro_batch", "epoch", "time")
    rows = chosen.fetch(
        f'SELECT row AS place, "group", {_PART}, step, epoch, time, {_NUMBERS} '
        f"FROM {chosen.sql((*about, *FIELDS))}"
    )
    cells = chosen.fetch(
        f"SELECT row AS place, {_PART}, step, cell, cell_count "
        f"FROM {chosen.sql(('micro_batch', 'cell', 'cell_count'), 'histograms')}"
    )
    counts = _counts(cells)
    names, group = _numbered(rows["group"])
    order = np.lexsort((rows["place"], rows["part"], group, rows["step"]))
    keys = np.stack([rows["step"][order], group[order], rows["part"][order]])
    sites: list[Site] = []
    places: NDArray[np.int64] = np.zeros(0, np.int64)
    for start, end in _stretches(keys):
        at = order[start:end]
        if not np.array_equal(rows["place"][at], places):
            places = rows["place"][at]
            sites = [snapshot.sites[place] for place in places]
        step, number, part = (int(key) for key in keys[:, start])
        yield Reading(
            step,
            int(rows["epoch"][at].max()),
            float(rows["time"][at].max()),
            sites,
            Summary(*(rows[name][at] for name in FIELDS)),
            {
                i: counts[step, part, place]
                for i, place in enumerate(places.tolist() if counts else ())
                if (step, part, place) in counts
            },
            names[number],
            None if part == NO_MICRO_BATCH else part,
            _groups(snapshot, sites),
        )


def _numbered(names: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """The different names, sorted, and for each of all its number."""
    several = sorted(set(names.tolist()))
    number_of = {name: i for i, name in enumerate(several)}
    if len(several) <= 1:
        return several, np.zeros(names.size, np.int64)
    return several, np.array([number_of[name] for name in names.tolist()], np.int64)


def _stretches(keys: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """From where to where columns of keys are the same."""
    changes = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
    bounds = [0, *changes.tolist(), keys.shape[1]]
    if keys.shape[1]:
        yield from pairwise(bounds)


def _counts(cells: Columns) -> dict[tuple[int, int, int], NDArray[np.float64]]:
    """By step, micro-batch and place, the cells of histograms."""
    keys = np.stack([cells["step"], cells["part"], cells["place"]])
    order = np.lexsort(keys[::-1])
    counts: dict[tuple[int, int, int], NDArray[np.float64]] = {}
    for start, end in _stretches(keys[:, order]):
        at = order[start:end]
        step, part, place = (int(key) for key in keys[:, at[0]])
        counted = counts[step, part, place] = np.zeros(CELLS)
        np.add.at(counted, cells["cell"][at], cells["cell_count"][at])
    return counts


def _groups(snapshot: Snapshot, sites: Sequence[Site]) -> dict[str, list[int]]:
    if not snapshot.groups:
        return {}
    position = {site: i for i, site in enumerate(sites)}
    found = {n: [position[s] for s in m if s in position] for n, m in snapshot.groups.items()}
    return {name: of for name, of in found.items() if of}
