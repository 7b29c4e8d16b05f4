"""From the arrays of a measured step to its Reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradwatch.capture.values import probed
from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.core.schedule import Moment
from gradwatch.watches import Due, Plan

KEPT_SELECTIONS = 64

Layout: TypeAlias = tuple[tuple[int, Site], ...]
"""For each row of a measurement, a position in the plan's sites, and its own site."""


def reading_of(
    moment: Moment,
    when: float,
    plan: Plan,
    due: Due,
    arrays: Mapping[str, Any],
    *,
    layout: Layout | None = None,
    losses: Mapping[str, Any] | None = None,
    group: str = "",
    micro_batch: int | None = None,
) -> Reading:
    """What was due of a step's measurements.

    Args:
        moment: the step.
        when: the time at which it was run.
        plan: what the rows of the arrays stand for.
        due: what of it is due.
        arrays: on the host, `rows`: a packed summary for each of the plan's sites;
            `cells`: histograms of those that have one; `updates`, if there:
            which of the plan's sites exist in the step; and values that probes want.
        layout: what the rows of the arrays are, where they are not just the plan's sites.
        losses: packed summaries of the step's losses, by their path.
        group: see `Reading`.
        micro_batch: see `Reading`.
    """
    losses = losses or {}
    chosen = _chosen(plan, due, layout, arrays.get("updates"), tuple(losses))
    rows = [np.asarray(row, np.float64)[None] for row in losses.values()]
    reading = Reading(
        step=moment.step,
        epoch=moment.epoch,
        time=when,
        sites=chosen.sites,
        summary=Summary.unpack(np.concatenate([arrays["rows"][chosen.rows], *rows])),
        cells={
            position: arrays["cells"][row].astype(float) for position, row in chosen.cells.items()
        },
        group=group,
        micro_batch=micro_batch,
    )
    return probed(reading, plan, due, arrays)


class _Chosen(NamedTuple):
    """What of a step's arrays goes into its reading."""

    rows: NDArray[np.intp]
    sites: tuple[Site, ...]
    """The same object for all such readings, so that sinks know them again at a glance."""
    cells: Mapping[int, int]
    """By the position of a site in the reading, the row of its histogram."""
    layout: Layout | None
    """Kept, since it is known by its identity."""


def _chosen(
    plan: Plan, due: Due, layout: Layout | None, updated: Any, losses: tuple[str, ...]
) -> _Chosen:
    """What is due of a layout's rows; found once for all steps that are alike."""
    kind_of_step = None if updated is None else np.asarray(updated).tobytes()
    key = (id(due), id(layout), kind_of_step, losses)
    if key not in plan.selections:
        if len(plan.selections) >= KEPT_SELECTIONS:
            plan.selections.clear()
        plan.selections[key] = _choose(plan, due, layout, updated, losses)
    chosen: _Chosen = plan.selections[key]
    return chosen


def _choose(
    plan: Plan, due: Due, layout: Layout | None, updated: Any, losses: tuple[str, ...]
) -> _Chosen:
    rows = tuple(enumerate(plan.sites)) if layout is None else layout
    wanted, counted = set(due.summaries), plan.with_histogram
    kept = [
        row
        for row, (i, _) in enumerate(rows)
        # Between two updates there is no applied gradient.
        if i in wanted and (updated is None or updated[i])
    ]
    with_cells = [row for row, (i, _) in enumerate(rows) if i in counted]
    row_of_cells = {row: at for at, row in enumerate(with_cells)}
    sites = [rows[row][1] for row in kept] + [Site(Kind.LOSS, path) for path in losses]
    cells = {
        position: row_of_cells[row]
        for position, row in enumerate(kept)
        if rows[row][0] in due.histograms
    }
    return _Chosen(np.array(kept, np.intp), tuple(sites), cells, layout)
