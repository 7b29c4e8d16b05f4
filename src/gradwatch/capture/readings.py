"""From the arrays of a measured step to its Reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from gradwatch.capture.plan import Due, Plan
from gradwatch.capture.values import probed
from gradwatch.reading import Reading
from gradwatch.schedule import Moment
from gradwatch.sites import Kind, Site
from gradwatch.summary import Summary

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
            which of the applied gradients exist; and values that probes want.
        layout: what the rows of the arrays are, where they are not just the plan's sites.
        losses: packed summaries of the step's losses, by their path.
        group: see `Reading`.
        micro_batch: see `Reading`.
    """
    layout = tuple(enumerate(plan.sites)) if layout is None else layout
    updated = arrays.get("updates")
    wanted = set(due.summaries)
    kept = [
        row
        for row, (i, site) in enumerate(layout)
        # Between two updates there is no applied gradient.
        if i in wanted and (updated is None or updated[i] or site.kind is not Kind.APPLIED_GRADIENT)
    ]
    with_cells = [row for row, (i, _) in enumerate(layout) if i in set(plan.with_histogram)]
    row_of_cells = {row: at for at, row in enumerate(with_cells)}
    losses = losses or {}
    rows = [np.asarray(row, np.float64)[None] for row in losses.values()]
    reading = Reading(
        step=moment.step,
        epoch=moment.epoch,
        time=when,
        sites=[layout[row][1] for row in kept] + [Site(Kind.LOSS, path) for path in losses],
        summary=Summary.unpack(np.concatenate([arrays["rows"][kept], *rows])),
        cells={
            position: arrays["cells"][row_of_cells[row]].astype(float)
            for position, row in enumerate(kept)
            if layout[row][0] in due.histograms
        },
        group=group,
        micro_batch=micro_batch,
    )
    return probed(reading, plan, due, arrays)
