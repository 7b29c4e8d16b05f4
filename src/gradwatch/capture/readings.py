"""From the arrays of a measured step to its Reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradwatch.capture.plan import Due, Plan
from gradwatch.reading import Reading
from gradwatch.schedule import Moment
from gradwatch.sites import Kind, Site
from gradwatch.summary import Summary


def reading_of(
    moment: Moment,
    when: float,
    plan: Plan,
    due: Due,
    arrays: Mapping[str, Any],
    *,
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
            which of the applied gradients exist.
        losses: packed summaries of the step's losses, by their path.
        group: see `Reading`.
        micro_batch: see `Reading`.
    """
    updated = arrays.get("updates")
    kept = [
        i
        for i in due.summaries
        # Between two updates there is no applied gradient.
        if updated is None or updated[i] or plan.sites[i].kind is not Kind.APPLIED_GRADIENT
    ]
    row_of_cells = {i: row for row, i in enumerate(plan.with_histogram)}
    losses = losses or {}
    rows = [np.asarray(row, np.float64)[None] for row in losses.values()]
    return Reading(
        step=moment.step,
        epoch=moment.epoch,
        time=when,
        sites=[plan.sites[i] for i in kept] + [Site(Kind.LOSS, path) for path in losses],
        summary=Summary.unpack(np.concatenate([arrays["rows"][kept], *rows])),
        cells={
            position: arrays["cells"][row_of_cells[i]].astype(float)
            for position, i in enumerate(kept)
            if i in due.histograms
        },
        group=group,
        micro_batch=micro_batch,
    )
