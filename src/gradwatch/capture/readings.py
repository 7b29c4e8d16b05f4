"""From the arrays of a measured step to its Reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwatch.capture.site_table import SiteTable
from gradwatch.capture.values import probed
from gradwatch.core import Moment, Reading, Site, Summary
from gradwatch.watches import Due

KEPT_SELECTIONS = 64


def reading_of(
    moment: Moment,
    when: float,
    table: SiteTable,
    arrays: Mapping[str, Any],
    numbers: Mapping[Site, Any],
) -> Reading:
    """The reading of what is due of a step's measurements.

    `arrays` are on the host: `rows`, a packed summary for each row of the table; `cells`,
    histograms of those that have one; `updates`, if there: which of the plan's sites exist in the
    step; and values for probes. `numbers` are packed summaries of further sites, such as the loss.
    """
    due = table.plan.due(moment)
    updated = arrays.get("updates")
    key = (id(due), None if updated is None else np.asarray(updated).tobytes(), tuple(numbers))
    if key not in table.selections:
        if len(table.selections) >= KEPT_SELECTIONS:
            table.selections.clear()
        table.selections[key] = _select(table, due, updated, tuple(numbers))
    selected: _Selection = table.selections[key]
    more = [np.asarray(row, np.float64)[None] for row in numbers.values()]
    reading = Reading(
        step=moment.step,
        epoch=moment.epoch,
        time=when,
        sites=selected.sites,
        summary=Summary.unpack(np.concatenate([arrays["rows"][selected.rows], *more])),
        cells={
            position: arrays["cells"][row].astype(float) for position, row in selected.cells.items()
        },
        group=table.group,
        micro_batch=table.micro_batch,
        is_late=moment.is_again,
    )
    return probed(reading, table.plan, due, arrays)


class _Selection(NamedTuple):
    """The parts of a step's arrays that go into its reading."""

    rows: NDArray[np.intp]
    sites: tuple[Site, ...]
    """The same object for all such readings, by which sinks recognise them at once."""
    cells: Mapping[int, int]
    """By the position of a site in the reading, the row of its histogram."""


def _select(table: SiteTable, due: Due, updated: Any, numbers: tuple[Site, ...]) -> _Selection:
    wanted = set(due.summaries)
    kept = [
        row
        for row, (i, _) in enumerate(table.rows)
        # Between two updates there is no applied gradient.
        if i in wanted and (updated is None or updated[i])
    ]
    row_of_cells = {row: at for at, row in enumerate(table.with_cells)}
    cells = {
        position: row_of_cells[row]
        for position, row in enumerate(kept)
        if table.rows[row][0] in due.histograms
    }
    sites = (*(table.rows[row][1] for row in kept), *numbers)
    return _Selection(np.array(kept, np.intp), sites, cells)
