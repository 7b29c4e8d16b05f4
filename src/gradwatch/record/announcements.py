"""The lines about a run: where it is, what takes long, how it went."""

from __future__ import annotations

import atexit
import os
import shlex
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gradwatch.diagnosis import Alerts, counted_alarms
from gradwatch.sinks import Console, Sink, Store
from gradwatch.util import printable
from gradwatch.watches.budget import Pacer


class Announcements:
    """Prints lines where the `Console` sinks print their tables; nowhere without one."""

    def __init__(self, pacer: Pacer, alerts: Alerts | None) -> None:
        self._pacer = pacer
        self._alerts = alerts
        self._consoles: list[Console] = []
        self._counted_before = (0, 0)
        self._is_open = False
        # For runs that are not closed.
        atexit.register(_end, weakref.ref(self), os.getpid())

    def begin(self, sinks: Sequence[Sink], directory: Path | None) -> None:
        """A run begins; `directory` is None if it has none."""
        self._consoles = [sink for sink in sinks if isinstance(sink, Console)]
        self._is_open = True
        if directory is not None:
            place = printable(str(directory))
            is_stored = any(isinstance(sink, Store) for sink in sinks)
            how = f" · to look at it: gradwatch view {shlex.quote(place)}" * is_stored
            self.say(f"the run is kept in {place}{how}")

    def say(self, words: str, *, is_below_bar: bool = False) -> None:
        """Print a line, on any thread; a progress bar may have left the cursor on its own."""
        for console in self._consoles:
            console.say(f"gradwatch · {words}", is_below_bar=is_below_bar)

    def end(self) -> None:
        """The run has ended, unless that was said already: say how it went."""
        if self._is_open:
            self._is_open = False
            if self._alerts is not None and self._alerts.diagnosis.verdict.is_known:
                self.say(f"verdict: {self._alerts.diagnosis.verdict.text()}")
            self.say(self._how_it_went())
            self._counted_before = self._pacer.counts

    def _how_it_went(self) -> str:
        cost = self._pacer.cost()
        steps, measured = (
            now - before
            for now, before in zip(self._pacer.counts, self._counted_before, strict=True)
        )
        words = [f"{measured:,} of {steps:,} steps measured"]
        if self._alerts is not None:
            found = self._alerts.diagnosis.findings
            fine = "healthy" if found else "no findings"
            words.append(" and ".join(counted_alarms(found)) or fine)
        words += [f"measuring took {cost.share()}"] * cost.is_known
        if cost.compile_seconds >= 1:
            words.append(f"compiled in {cost.compile_seconds:.0f} s")
        return ", ".join(words)


def _end(announcements: weakref.ref[Announcements], process: int) -> None:
    still_there = announcements()
    if still_there is not None and process == os.getpid():
        with suppress(Exception):
            still_there.end()
