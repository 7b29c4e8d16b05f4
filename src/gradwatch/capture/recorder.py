"""Measures the tensors of a step and sends its reading to the session."""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from gradwatch.capture.readings import reading_of
from gradwatch.capture.site_table import Row, SiteTable, SiteTables
from gradwatch.capture.tap_tables import TapTables
from gradwatch.capture.user_taps import TapRows
from gradwatch.capture.values import values_of
from gradwatch.core import Moment, Reading, Site, Summary
from gradwatch.measure import Fetched, Framework
from gradwatch.util import Reporter

Submit = Callable[[Callable[[], Reading | Sequence[Reading] | None], int | None], bool]
"""Takes a function that waits for a step's arrays and makes its reading, or several, and the number
of its sites if known; False if it will not be called."""

Numbers = Callable[[SiteTable | None], Mapping[Site, Any]]
"""Waits for packed summaries of further sites; is given the table of the reading, if any."""


def no_numbers(table: SiteTable | None) -> Mapping[Site, Any]:
    return {}


class Recorder:
    """Measures tensors and sends readings, for `fit` and for loops.

    It never waits for the device: arrays are fetched on another thread.
    """

    def __init__(self, submit: Submit, reporter: Reporter) -> None:
        self.reporter = reporter
        self.tables = SiteTables()
        self._taps = TapTables()
        self._submit = submit
        self._sites: dict[tuple[Site, ...], tuple[Site, ...]] = {}

    def measure(
        self,
        framework: Framework,
        table: SiteTable,
        rows: Sequence[Row],
        histograms: Any,
        eager: Any = None,
        taps: TapRows | None = None,
    ) -> dict[str, Any]:
        """The summaries of the rows of a table, as arrays on the device.

        `histograms`, whether to count cells, is a flag of the framework or a bool; `eager` is the
        `EagerStep` that has measured some rows already, and `taps` are further rows. Returned are
        `rows`; `cells`, if there are histograms; the values for probes; those of taps; and `table`,
        the table's number: a constant, so that a compiled function returns nothing but arrays.
        """
        tensors = [row.tensor for row in rows]
        result = {}
        if eager is not None:
            result["rows"], result["cells"] = eager.measure(tensors, table.with_cells)
        elif table.plan.with_histogram:
            result["rows"], result["cells"] = framework.measure(
                tensors, table.with_cells, histograms
            )
        else:
            result["rows"] = framework.measure(tensors)[0]
        result["table"] = framework.constant(table.number)
        if taps is not None:
            result |= self.tap_arrays(framework, taps, table.prefix, table.plan.layer_paths)
        return result | values_of(table.plan, rows, framework.copy)

    def tap_arrays(
        self, own: Framework, taps: TapRows, prefix: str = "", layers: Set[str] = frozenset()
    ) -> dict[str, Any]:
        """What has passed taps, as further arrays of a measurement.

        `layers` are the paths of layers, which are no names of taps.
        """
        taps = taps.apart_from(layers, prefix)
        for notice in taps.notices:
            self.reporter.notice(notice)
        return self._taps.arrays(own, taps, prefix)

    def send(
        self,
        moment: Moment,
        wait: Fetched = dict,
        *,
        table: SiteTable | None = None,
        numbers: Numbers = no_numbers,
        group: str = "",
        count: int | None = None,
        unseen: frozenset[Site] = frozenset(),
    ) -> None:
        """Send the reading of a step.

        `wait` waits for the arrays of `measure`, and may return none. `group` is that of a reading
        whose only sites are in `numbers`. `count` is how many sites the reading will have, if
        known. `unseen` are sites whose tensors were not seen, recorded with count 0.
        """
        when = time.time()

        def make_reading() -> Reading | None:
            arrays = wait()
            if arrays:
                known = table or self.tables.numbered(int(arrays["table"]))
                more = {**self._taps.rows(arrays), **numbers(known)}
                reading = reading_of(moment, when, known, arrays, more)
                reading = replace(reading, unseen=unseen) if unseen else reading
                return reading if len(reading) else None
            rows = numbers(None)
            if not rows:
                return None
            # The same object for the same sites, by which sinks recognise them at once.
            sites = self._sites.setdefault(tuple(rows), tuple(rows))
            summary = Summary.unpack(np.stack([np.asarray(row) for row in rows.values()]))
            return Reading(moment.step, moment.epoch, when, sites, summary, group=group)

        self._submit(make_reading, count)
