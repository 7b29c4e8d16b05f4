"""Histograms and pictures over the steps of a run."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import CELLS, Histogram, Kind, Site
from gradwatch.read.chosen_rows import ChosenRows, RankChoice
from gradwatch.read.members import NotRecordedError, kind_of, members
from gradwatch.read.series import summaries
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.steps import EVER, Steps, Stretch, Values


def histograms(
    snapshot: Snapshot,
    kind_name: Kind | str,
    path: str,
    rank: RankChoice,
    stretch: Stretch = EVER,
) -> tuple[Steps, list[Histogram]]:
    """See `Run.histograms`."""
    kind = kind_of(kind_name, snapshot.sites)
    sites = members(kind, path, snapshot.sites, snapshot.groups)
    chosen = ChosenRows(snapshot, dict.fromkeys(sites, 0), rank, stretch)
    rows = chosen.fetch(
        "SELECT step, cell, sum(cell_count)::DOUBLE AS n "
        f"FROM {chosen.sql(('cell', 'cell_count'), 'histograms')} GROUP BY step, cell"
    )
    steps, positions = np.unique(rows["step"].astype(np.int64), return_inverse=True)
    if not steps.size:
        return steps, []
    cells = np.zeros((steps.size, CELLS))
    cells[positions, rows["cell"].astype(int)] = rows["n"]
    measured, summary = summaries(snapshot, sites, rank)
    complete, place = _complete(steps, cells.sum(axis=1), measured, summary.count)
    found = zip(cells[complete], place.tolist(), strict=True)
    return steps[complete], [Histogram(counts, summary[at]) for counts, at in found]


def histogram_steps(snapshot: Snapshot, sites: Sequence[Site], rank: RankChoice) -> Steps:
    """The steps at which `histograms` has one of these sites of one kind."""
    chosen = ChosenRows(snapshot, dict.fromkeys(sites, 0), rank)
    rows = chosen.fetch(
        "SELECT step, sum(cell_count)::DOUBLE AS n "
        f"FROM {chosen.sql(('cell_count',), 'histograms')} GROUP BY step ORDER BY step"
    )
    steps = rows["step"].astype(np.int64)
    if not steps.size:
        return steps
    measured, summary = summaries(snapshot, sites, rank)
    complete, _ = _complete(steps, rows["n"], measured, summary.count)
    return np.asarray(steps[complete])


def _complete(
    steps: Steps, elements: Values, measured: Steps, count: Values
) -> tuple[NDArray[np.bool_], Steps]:
    """Which histograms hold every element of the sites, and where each is among the summaries.

    A site without a histogram at a step is missing from the merged one: that is not shown. Nor is
    one whose summaries are in a damaged segment.
    """
    place = np.searchsorted(measured, steps)
    complete = np.isin(steps, measured)
    complete[complete] = elements[complete] == count[place[complete]]
    return complete, place[complete]


def histogram(
    snapshot: Snapshot, kind: Kind | str, path: str, step: int, rank: RankChoice
) -> Histogram:
    """See `Run.histogram`."""
    _, found = histograms(snapshot, kind, path, rank, (int(step), int(step)))
    if found:
        return found[0]
    taken, _ = histograms(snapshot, kind, path, rank)
    near = np.sort(taken[np.argsort(np.abs(taken - step), kind="stable")[:4]]).tolist()
    hint = f"Nearest: {', '.join(map(str, near))}." if near else "None was taken at all: "
    hint += "" if near else "ask for them with histogram=True."
    raise NotRecordedError(f"No histogram of {kind} {path!r} was taken at step {step}. {hint}")


def pictured(snapshot: Snapshot, rank: RankChoice) -> list[str]:
    """The paths of the variables that were drawn, sorted."""
    rows = snapshot.current_rows("pictures", [rank] if isinstance(rank, int) else snapshot.ranks)
    found = snapshot.database.fetch(f"SELECT DISTINCT path FROM {rows} ORDER BY path")
    return [str(path) for path in found["path"]]


def pictures(snapshot: Snapshot, path: str, rank: RankChoice) -> tuple[Steps, list[bytes]]:
    """See `Run.pictures`."""
    rows = snapshot.current_rows("pictures", [rank] if isinstance(rank, int) else snapshot.ranks)
    drawn = pictured(snapshot, rank)
    ending = [each for each in drawn if each.endswith(f"/{path}")]
    if path not in drawn and len(ending) == 1:
        path = ending[0]
    # Pictures do not merge: of several ranks that have drawn it, the first counts.
    found = snapshot.database.fetch(
        f"SELECT step, png FROM {rows} WHERE path = ? "
        "QUALIFY rank = min(rank) OVER () ORDER BY step",
        [path],
    )
    if not found["step"].size:
        others = ending or drawn
        known = f"Drawn: {', '.join(others[:8])}." if others else "Nothing was drawn."
        raise NotRecordedError(f"There is no picture of {path!r} in this run. {known}")
    return found["step"].astype(np.int64), [bytes(png) for png in found["png"]]
