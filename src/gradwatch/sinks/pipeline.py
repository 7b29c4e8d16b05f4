"""Brings readings from the training thread to the sinks, without delaying training."""

import os
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gradwatch.core import Reading
from gradwatch.sinks.base import RunInfo, Sink
from gradwatch.sinks.outlet import ActiveSink, Outlet, View, whole
from gradwatch.util import Reporter, Worker, described, exits

MakeReading = Callable[[], Reading | Sequence[Reading] | None]
Fetch = tuple[MakeReading, int | None]

EPOCH_PATIENCE = 0.5
CLOSING_TIME = 2.0
"""Seconds that `close` waits for the device and the sinks."""
MAX_BYTES = 64_000_000
"""The size of all readings that wait for sinks, at most, and of those that wait to be made."""
MAX_PENDING = 1024
"""How many readings may wait to be made. Enough for the moments in which a busy machine runs only
the thread that trains: a second of steps of a millisecond."""
ROW_BYTES = 500
"""What a row of a reading is taken to hold before one was made: a summary, at times with cells."""
BATCH_INTERVAL = 0.1
"""Seconds for which readings that come in quick succession wait for each other. A thread that wakes
up takes the interpreter and the processor's caches from the one that trains: better once for
twenty readings than for each. A kill of the process loses what waits."""
DENSE = BATCH_INTERVAL / 4
"""Seconds. A reading that comes later than that after the one before is written at once."""


class Pipeline:
    """Brings readings to sinks, each on its own thread, and handles all faults.

    One thread makes the readings, which waits for the device. Each sink that writes has a
    thread of its own, so one that hangs delays no other. Whatever a sink raises, training goes
    on; the user is told once per sink, and lost readings are counted. After an `OSError` (a full
    disk) a sink is tried again with the next reading, without end; after three other faults in a
    row it is switched off.

    Readings that come in quick succession are made and written together, up to a tenth
    of a second later. Those that wait for slow sinks hold at most 64 MB in all; each sink has an
    equal part of that, so that one that hangs does not take the others' room.

    Messages are posted to the reporter; `submit`, `epoch_end` and `close` deliver them, on the
    training thread. In a forked child all methods do nothing.
    """

    def __init__(self, sinks: Sequence[Sink], reporter: Reporter, view: View = whole) -> None:
        self._consumers = [(sink, view) for sink in sinks]
        self._reporter = reporter
        self._outlets: list[Outlet] = []
        self._fetcher: Worker[Fetch] | None = None
        self._process: int | None = None
        self._fetch_failed = False
        self._row_bytes: float = ROW_BYTES
        self._last = 0.0
        self._marked = 0
        """What the fetcher had taken with the last measurement."""

    def add(self, sink: Sink, view: View = whole) -> None:
        """Add a consumer with a view of its own; before `open`."""
        self._consumers.append((sink, view))

    def open(self, run: RunInfo) -> None:
        """A run begins; may be called again after `close`."""
        self.close()
        self._fetch_failed = False
        self._marked = 0
        names = _distinct([type(sink).__name__ for sink, _ in self._consumers])
        room = MAX_BYTES // max(1, sum(sink.threaded for sink, _ in self._consumers))
        self._outlets = [
            # They are told when to write; else, while the device keeps a reading waiting, those
            # before it are not to wait for long.
            Outlet(sink, view, name, run, self._reporter, room, batch_interval=2 * BATCH_INTERVAL)
            for (sink, view), name in zip(self._consumers, names, strict=True)
        ]
        self._fetcher = Worker(
            "gradwatch-fetch",
            self._fetch,
            MAX_PENDING,
            batch_interval=BATCH_INTERVAL,
            size_of=self._size_of,
            max_bytes=MAX_BYTES,
            on_fault=self._note,
        )
        self._process = os.getpid()
        _open_pipelines.add(self)
        exits.opened()
        for outlet in self._outlets:
            outlet.before_run()
            outlet.open()
        self._reporter.deliver()

    def submit(self, make_reading: MakeReading, rows: int | None = None) -> bool:
        """Have a reading, or several, made and written, later; returns at once.

        `make_reading` is called on another thread and may wait for the device; it returns None if
        there is nothing to write. `rows` is how many sites the reading will have, if known: for the
        count of what is lost, in case it is never made. If `make_reading` has an attribute
        `is_measured` that is False, `is_quiet` does not wait for it. The result is False if too
        many are waiting already, the pipeline is not open, or this is a forked child.
        """
        if not self._is_open() or self._fetcher is None:
            return False
        self._reporter.deliver()
        with exits.critical:
            then, self._last = self._last, time.monotonic()
            for outlet in self._outlets:
                outlet.expect()
            if self._fetcher.submit((make_reading, rows)):
                if getattr(make_reading, "is_measured", True):
                    self._marked = self._fetcher.submitted
                if self._last - then > DENSE:
                    self._fetcher.flush_soon()
                return True
            self._drop(rows)
            return False

    @property
    def is_idle(self) -> bool:
        return self._fetcher is None or (
            self._fetcher.is_idle and all(outlet.is_idle for outlet in self._outlets)
        )

    @property
    def is_quiet(self) -> bool:
        """Whether all that was measured is written, whatever else waits."""
        fetcher = self._fetcher
        return fetcher is None or (
            fetcher.has_handled(self._marked) and all(o.is_quiet for o in self._outlets)
        )

    @property
    def submitted(self) -> int:
        """How many readings were submitted."""
        return 0 if self._fetcher is None else self._fetcher.submitted

    def has_made(self, count: int) -> bool:
        """Whether that many readings have arrived from the device, or were dropped."""
        return self._fetcher is None or self._fetcher.has_handled(count)

    def flush_soon(self) -> None:
        """Have what waits for more of its kind written now."""
        if self._is_open() and self._fetcher is not None:
            self._fetcher.flush_soon()

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Tell the sinks; waits up to 0.5 s if one of them prints what was just measured."""
        if not self._is_open() or self._fetcher is None:
            return
        with exits.critical:
            if any(not outlet.sink.threaded for outlet in self._outlets):
                self._fetcher.drain(EPOCH_PATIENCE)
            else:
                self._fetcher.flush_soon()
            for outlet in self._outlets:
                outlet.epoch_end(epoch, logs)
        self._reporter.deliver()

    def new_finding(self, finding: object) -> None:
        """Tell the sinks of a new finding, also after `close`."""
        for outlet in self._outlets if self._process == os.getpid() else ():
            outlet.new_finding(finding)

    def after_run(self) -> None:
        """Tell the sinks that the run is closed, with all its files; after `close`."""
        for outlet in self._outlets if self._process == os.getpid() else ():
            outlet.after_run()
        self._reporter.deliver()

    def close(self, timeout: float | None = None) -> None:
        """Write out what waits, for at most `timeout` seconds, and report what was lost."""
        if self._is_open() and self._fetcher is not None:
            try:
                with exits.critical:
                    self._close(self._fetcher, CLOSING_TIME if timeout is None else timeout)
            finally:
                exits.closed()

    def _close(self, fetcher: Worker[Fetch], timeout: float) -> None:
        self._fetcher = None
        _open_pipelines.discard(self)
        deadline = time.monotonic() + timeout
        # A part of the time is kept for the sinks: they can only finish after it.
        try:
            if not fetcher.close(0.75 * timeout):
                for _, rows in fetcher.unfinished:
                    self._drop(rows)
        finally:
            self._close_outlets(deadline)
        recording = [o for o in self._outlets if not isinstance(o.sink, ActiveSink)]
        losses = [words for outlet in recording if (words := outlet.losses())]
        if losses:
            self._reporter.post(f"The record is not complete: {'; '.join(losses)}.")
        self._reporter.deliver()

    def _close_outlets(self, deadline: float) -> None:
        # One that fails must not keep the next from closing.
        for outlet in self._outlets:
            try:
                outlet.seal()
            except Exception as fault:
                self._note(fault)
        for outlet in self._outlets:
            try:
                outlet.close(deadline)
            except Exception as fault:
                self._note(fault)

    def _is_open(self) -> bool:
        return self._fetcher is not None and self._process == os.getpid()

    def _size_of(self, job: Fetch) -> int:
        """What the arrays of a reading hold until it is made, by those that were made before."""
        _, rows = job
        return int((rows or 1) * self._row_bytes)

    def _fetch(self, jobs: Sequence[Fetch]) -> None:
        for make_reading, rows in jobs:
            self._fetch_one(make_reading, rows)
        fetcher = self._fetcher  # `close` sets it to None, on another thread.
        if fetcher is None or not fetcher.has_waiting:
            for outlet in self._outlets:
                outlet.flush_soon()

    def _fetch_one(self, make_reading: MakeReading, rows: int | None) -> None:
        try:
            made = make_reading()
        except BaseException as fault:
            self._drop(rows)
            self._post_once(
                f"A measurement could not be fetched from the device: {described(fault)}. "
                "Not recorded: that step. Training goes on; further such faults are only counted."
            )
            return
        readings = () if made is None else (made,) if isinstance(made, Reading) else made
        for each in readings:
            self._row_bytes = max(self._row_bytes, each.nbytes / max(len(each), 1))
        taken: dict[View, Sequence[Reading]] = {}
        for outlet in self._outlets:
            if outlet.view not in taken:
                taken[outlet.view] = [seen for each in readings for seen in outlet.view(each)]
            outlet.put(taken[outlet.view])
            if getattr(make_reading, "is_measured", True):
                outlet.mark()

    def _note(self, fault: BaseException) -> None:
        """Count a reading as lost, of unknown size, after an internal error."""
        self._drop(None)
        self._post_once(
            f"Internal error in gradwatch while passing on a measurement. Not recorded: that step. "
            f"Training is not affected; further such errors are only counted. {described(fault)}"
        )

    def _post_once(self, message: str) -> None:
        if not self._fetch_failed:
            self._fetch_failed = True
            self._reporter.post(message)

    def _drop(self, rows: int | None) -> None:
        for outlet in self._outlets:
            outlet.drop(rows)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where one comes again."""
    seen: Counter[str] = Counter()
    seen_names = []
    for name in names:
        seen[name] += 1
        seen_names.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return seen_names


_open_pipelines: weakref.WeakSet[Pipeline] = weakref.WeakSet()


def _close_all(deadline: float) -> None:
    """At the end of the process, for runs that were not closed."""
    for pipeline in list(_open_pipelines):
        # Not all of the time: what follows the sinks' closing needs some, too.
        pipeline.close(0.85 * max(0.0, deadline - time.monotonic()))


exits.register(0, _close_all)
