"""Histograms and pictures of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.histogram import CELLS, Histogram
from gradwatch.sites import Kind, Site
from gradwatch.store.reader.members import NotRecordedError, kind_of, members
from gradwatch.store.reader.series import condition, summaries
from gradwatch.store.reader.snapshot import Snapshot

Steps = NDArray[np.int64]


def histograms(
    snapshot: Snapshot,
    kind_name: Kind | str,
    path: str,
    rank: int,
    step: int | None = None,
) -> tuple[Steps, list[Histogram]]:
    """The steps at which histograms of something were taken, and these; see `Run.histograms`."""
    kind = kind_of(kind_name, snapshot.sites)
    chosen = members(kind, path, snapshot.sites, snapshot.groups)
    where, parameters = condition(snapshot, chosen, rank)
    if step is not None:
        where, parameters = f"{where} AND step = ?", [*parameters, int(step)]
    preferred = "micro_batch IS NOT NULL AS part" if snapshot.has_parts else "false AS part"
    rows = snapshot.database.fetch(
        f"SELECT step, cell, {preferred}, sum(cell_count)::DOUBLE AS n, "
        f"count(DISTINCT path) AS sites FROM _histograms WHERE {where} "
        "GROUP BY ALL ORDER BY step, part, cell",
        parameters,
    )
    steps, positions = np.unique(rows["step"].astype(np.int64), return_inverse=True)
    if not steps.size:
        return steps, []
    # The step as a whole, and where there is none, its micro-batches merged.
    whole = np.zeros(steps.size, bool)
    np.logical_or.at(whole, positions, ~rows["part"].astype(bool))
    kept = ~(rows["part"].astype(bool) & whole[positions])
    cells = np.zeros((steps.size, CELLS))
    np.add.at(cells, (positions[kept], rows["cell"][kept].astype(int)), rows["n"][kept])
    measured, summary = summaries(snapshot, chosen, rank)
    place = np.searchsorted(measured, steps)
    known = np.isin(steps, measured)
    pairs = [(i, int(place[i])) for i in np.flatnonzero(known)]
    # Members whose histogram was not taken at that step are not in it: nor is it shown.
    agreeing = [(i, at) for i, at in pairs if cells[i].sum() == summary.count[at]]
    return (
        steps[[i for i, _ in agreeing]],
        [Histogram(cells[i], summary[at]) for i, at in agreeing],
    )


def histogram_steps(snapshot: Snapshot, sites: Sequence[Site], rank: int) -> Steps:
    """The steps at which `histograms` has one of these sites of one kind."""
    where, parameters = condition(snapshot, sites, rank)
    part = "micro_batch IS NOT NULL" if snapshot.has_parts else "false"
    rows = snapshot.database.fetch(
        f"SELECT step, {part} AS part, sum(cell_count)::DOUBLE AS n FROM _histograms "
        f"WHERE {where} GROUP BY ALL ORDER BY step, part",
        parameters,
    )
    # Sorted so that a whole step comes before its parts, which it stands for.
    steps, places = np.unique(rows["step"].astype(np.int64), return_index=True)
    if not steps.size:
        return steps
    measured, summary = summaries(snapshot, sites, rank)
    known = np.isin(steps, measured)
    steps, counts = steps[known], rows["n"][places[known]]
    agreeing: Steps = steps[counts == summary.count[np.searchsorted(measured, steps)]]
    return agreeing


def pictured(snapshot: Snapshot, rank: int) -> list[str]:
    """The paths of the variables that were drawn, in the order of their names."""
    query = "SELECT DISTINCT path FROM _pictures WHERE rank = ? ORDER BY path"
    return [str(path) for path in snapshot.database.fetch(query, [rank])["path"]]


def histogram(snapshot: Snapshot, kind: Kind | str, path: str, step: int, rank: int) -> Histogram:
    """The histogram at a step; see `Run.histogram`.

    Raises:
        NotRecordedError: none was taken then.
    """
    _, found = histograms(snapshot, kind, path, rank, step)
    if found:
        return found[0]
    taken, _ = histograms(snapshot, kind, path, rank)
    raise NotRecordedError(
        f"No histogram of {kind} {path!r} was taken at step {step}. {_nearest(taken, step)}"
    )


def pictures(snapshot: Snapshot, path: str, rank: int) -> tuple[Steps, list[bytes]]:
    """The steps at which something was drawn, and the PNG files' bytes; see `Run.pictures`.

    Raises:
        NotRecordedError: it was never drawn.
    """
    rows = snapshot.database.fetch(
        "SELECT step, png FROM _pictures WHERE rank = ? AND path = ? ORDER BY step", [rank, path]
    )
    if not rows["step"].size:
        drawn = snapshot.database.fetch("SELECT DISTINCT path FROM _pictures ORDER BY path")["path"]
        known = f"Drawn: {', '.join(drawn[:8])}." if drawn.size else "Nothing was drawn."
        raise NotRecordedError(f"There is no picture of {path!r} in this run. {known}")
    return rows["step"].astype(np.int64), [bytes(png) for png in rows["png"]]


def _nearest(steps: Steps, step: int) -> str:
    if not steps.size:
        return "None was taken at all: ask for them with histogram=True."
    near: Sequence[int] = steps[np.argsort(np.abs(steps - step), kind="stable")[:4]].tolist()
    return f"Nearest: {', '.join(map(str, sorted(near)))}."
