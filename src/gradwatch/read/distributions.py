"""Histograms and pictures of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import CELLS, Histogram, Kind, Site
from gradwatch.read.members import NotRecordedError, kind_of, members
from gradwatch.read.rank_choice import RankChoice
from gradwatch.read.series import condition, summaries
from gradwatch.read.snapshot import Snapshot

Steps = NDArray[np.int64]


def histograms(
    snapshot: Snapshot,
    kind_name: Kind | str,
    path: str,
    rank: RankChoice,
    step: int | None = None,
) -> tuple[Steps, list[Histogram]]:
    """The steps at which histograms of something were taken, and these; see `Run.histograms`."""
    kind = kind_of(kind_name, snapshot.sites)
    chosen = members(kind, path, snapshot.sites, snapshot.groups)
    where, parameters = condition(snapshot, chosen, rank)
    if step is not None:
        where, parameters = f"{where} AND step = ?", [*parameters, int(step)]
    rows = snapshot.database.fetch(
        "SELECT step, cell, sum(n)::DOUBLE AS n "
        f"FROM ({_cells(snapshot, chosen, rank, where)}) GROUP BY step, cell",
        parameters,
    )
    steps, positions = np.unique(rows["step"].astype(np.int64), return_inverse=True)
    if not steps.size:
        return steps, []
    cells = np.zeros((steps.size, CELLS))
    cells[positions, rows["cell"].astype(int)] = rows["n"]
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


def histogram_steps(snapshot: Snapshot, sites: Sequence[Site], rank: RankChoice) -> Steps:
    """The steps at which `histograms` has one of these sites of one kind."""
    where, parameters = condition(snapshot, sites, rank)
    rows = snapshot.database.fetch(
        "SELECT step, sum(n)::DOUBLE AS n "
        f"FROM ({_cells(snapshot, sites, rank, where)}) GROUP BY step ORDER BY step",
        parameters,
    )
    steps = rows["step"].astype(np.int64)
    if not steps.size:
        return steps
    measured, summary = summaries(snapshot, sites, rank)
    known = np.isin(steps, measured)
    steps, counts = steps[known], rows["n"][known]
    agreeing: Steps = steps[counts == summary.count[np.searchsorted(measured, steps)]]
    return agreeing


def _cells(snapshot: Snapshot, sites: Sequence[Site], rank: RankChoice, where: str) -> str:
    """How many elements are in each cell at a step, in SQL, by rank if there are micro-batches.

    Of a step that a rank has measured as a whole, its micro-batches are left out.
    """
    source = snapshot.rows_of("histograms", snapshot.ranks_meant(sites, rank))
    if not snapshot.has_parts:
        return (
            f"SELECT step, cell, sum(cell_count) AS n FROM {source} WHERE {where} "
            "GROUP BY step, cell"
        )
    return (
        "SELECT rank, step, cell, micro_batch IS NOT NULL AS part, sum(cell_count) AS n "
        f"FROM {source} WHERE {where} GROUP BY rank, step, cell, part "
        "QUALIFY part = min(part) OVER (PARTITION BY rank, step)"
    )


def pictured(snapshot: Snapshot, rank: RankChoice) -> list[str]:
    """The paths of the variables that were drawn, in the order of their names."""
    ranks = [rank] if isinstance(rank, int) else snapshot.ranks
    source, where = snapshot.rows_of("pictures", ranks), ""
    if isinstance(rank, int):
        where = f"WHERE rank = {rank}"
    query = f"SELECT DISTINCT path FROM {source} {where} ORDER BY path"
    return [str(path) for path in snapshot.database.fetch(query)["path"]]


def histogram(
    snapshot: Snapshot, kind: Kind | str, path: str, step: int, rank: RankChoice
) -> Histogram:
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


def pictures(snapshot: Snapshot, path: str, rank: RankChoice) -> tuple[Steps, list[bytes]]:
    """The steps at which something was drawn, and the PNG files' bytes; see `Run.pictures`.

    Raises:
        NotRecordedError: it was never drawn.
    """
    ranks = [rank] if isinstance(rank, int) else snapshot.ranks
    # Of several ranks that have drawn it, one: pictures do not merge.
    chosen = f"rank = {rank}" if isinstance(rank, int) else "true"
    rows = snapshot.database.fetch(
        f"SELECT step, png FROM {snapshot.rows_of('pictures', ranks)} "
        f"WHERE {chosen} AND path = ? QUALIFY rank = min(rank) OVER () ORDER BY step",
        [path],
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
