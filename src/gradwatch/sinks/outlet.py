"""A sink with its thread, its faults and its losses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from gradwatch.core import Reading
from gradwatch.sinks.base import RunInfo, Sink
from gradwatch.util import Reporter, Worker, described

TO_BE_WRITTEN = 4096
"""How many readings may wait for a sink. More than for the thread that makes them, which passes on
many at once; and those that have only the numbers of a step are small."""
TOGETHER = 32
"""How many readings a sink gets at once at most."""
FAILURES_ALLOWED = 3
View = Callable[[Reading], Sequence[Reading]]
"""The readings that a sink gets for one that was made."""


def whole(reading: Reading) -> Sequence[Reading]:
    """The view of a sink that gets each reading as it is."""
    return (reading,)


class ActiveSink(Sink):
    """A sink that also acts between readings, on its own thread.

    `outlet` is None before the first run.
    """

    outlet: Outlet | None = None

    def wake(self) -> None:
        """Called on the sink's thread after `outlet.wake()`."""


class Outlet:
    """Calls a sink, on a thread of its own if it writes, and handles what it raises.

    The readings that wait for it may hold `room` bytes, and wait for each other for at most
    `batch_interval` seconds, see `Worker`.
    """

    def __init__(
        self,
        sink: Sink,
        view: View,
        name: str,
        run: RunInfo,
        reporter: Reporter,
        room: int,
        batch_interval: float,
    ) -> None:
        self.sink = sink
        self.view = view
        self._name = name
        self._run = run
        self._reporter = reporter
        self._expected = 0
        self._marked = 0
        self._is_ready = self._is_off = self._was_late = False
        self._faults = self._in_a_row = 0
        self._lost_readings = self._lost_rows = 0
        self._lost_more = False
        self._lock = threading.Lock()
        self._worker: Worker[Reading | None] | None = None
        if isinstance(sink, ActiveSink):
            sink.outlet = self
        if sink.threaded:
            self._worker = Worker(
                f"gradwatch-{name}",
                self._write_all,
                TO_BE_WRITTEN,
                together=TOGETHER if _takes_many(sink) else 1,
                batch_interval=batch_interval,
                size_of=lambda reading: 0 if reading is None else reading.nbytes,
                max_bytes=room,
                on_fault=self._note_loss,
                at_end=self._finish,
            )

    @property
    def is_idle(self) -> bool:
        """Whether all that was put is written, or lost."""
        return self._worker is None or self._worker.is_idle

    @property
    def is_quiet(self) -> bool:
        """Whether what was put before `mark` is written, or lost."""
        return self._worker is None or self._worker.has_handled(self._marked)

    def mark(self) -> None:
        self._marked = 0 if self._worker is None else self._worker.submitted

    def flush_soon(self) -> None:
        if self._worker is not None:
            self._worker.flush_soon()

    def open(self) -> None:
        """Open the sink, on its thread: even that may hang."""
        if self._worker is None:
            self._write(None)
        else:
            self._worker.submit(None)

    def wake(self) -> None:
        """Have an active sink woken, after the readings that wait for it; returns at once."""
        if self._worker is not None and self._worker.submit(None):
            self._worker.flush_soon()

    @property
    def is_expecting(self) -> bool:
        """Whether readings are on their way that the sink has not been given yet."""
        return self._expected > 0

    def expect(self, readings: int = 1) -> None:
        """Readings are on their way: `put` follows, or `drop`; fewer if negative."""
        with self._lock:
            self._expected = max(0, self._expected + readings)

    def put(self, readings: Sequence[Reading]) -> None:
        """Have a reading that was expected written, as this sink's view has it."""
        self.expect(len(readings) - 1)
        for reading in readings:
            if self._worker is None:
                self._write(reading)
            elif not self._worker.submit(reading):
                self.drop(len(reading))

    def drop(self, rows: int | None) -> None:
        """A reading that was expected will not come; so many rows are lost, see `lose`."""
        self.expect(-1)
        self.lose(rows)

    def before_run(self) -> None:
        """Tell the sink, on this thread; before `open`."""
        self._try("before_run", self.sink.before_run, self._run)

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Tell the sink, on this thread."""
        if not self._is_off:
            self._try("epoch_end", lambda: self.sink.epoch_end(epoch, logs))

    def new_finding(self, finding: object) -> None:
        """Tell the sink, on this thread."""
        self._try("new_finding", self.sink.new_finding, finding)

    def after_run(self) -> None:
        """Tell the sink, on this thread, after it was closed."""
        self._try("after_run", self.sink.after_run, self._run)

    def seal(self) -> None:
        """Take no more; returns at once."""
        if self._worker is not None:
            self._worker.seal()

    def close(self, deadline: float) -> None:
        """Write what waits and close the sink, by the deadline of `time.monotonic`."""
        if self._worker is None:
            self._finish()
        elif not self._worker.close(deadline - time.monotonic()):
            self._was_late = True
            for reading in self._worker.unfinished:
                if reading is not None:
                    self.lose(len(reading))

    def lose(self, rows: int | None) -> None:
        """Count a reading of so many rows as lost; None if that is not known."""
        with self._lock:
            self._lost_readings += 1
            self._lost_rows += rows or 0
            self._lost_more |= rows is None

    @property
    def has_lost(self) -> bool:
        """Whether the sink has missed anything."""
        return bool(self._lost_readings or self._faults)

    def losses(self) -> str:
        """What is missing, in words; empty if nothing is."""
        with self._lock:
            parts = []
            if self._lost_readings:
                rows = _many(self._lost_rows, "row") + (" or more" if self._lost_more else "")
                parts.append(f"lost {_many(self._lost_readings, 'reading')} ({rows})")
            if self._faults:
                parts.append(f"had {_many(self._faults, 'fault')}")
            if self._was_late:
                parts.append("did not finish in time")
        return f"{self._name} {', '.join(parts)}" if parts else ""

    def _write(self, reading: Reading | None) -> None:
        """Write a reading; None opens the sink, or wakes it."""
        doing = "write" if reading is not None else "wake" if self._is_ready else "open"
        if reading is not None:
            self.expect(-1)
        is_done = not self._is_off and self._try(doing, self._step, reading)
        if not is_done and reading is not None:
            self.lose(len(reading))

    def _write_all(self, waiting: Sequence[Reading | None]) -> None:
        """Write several readings in one go; if that fails, each by itself, so that each counts."""
        while waiting and waiting[0] is None:  # To be opened, or woken.
            self._write(None)
            waiting = waiting[1:]
        readings = [reading for reading in waiting if reading is not None]
        if self._is_ready and not self._is_off and 1 < len(readings) == len(waiting):
            with suppress(BaseException):
                self.sink.write_many(readings)
                self._in_a_row = 0
                self.expect(-len(readings))
                return
        for reading in waiting:
            self._write(reading)

    def _step(self, reading: Reading | None) -> None:
        # A sink whose open() failed is opened again with the next reading.
        if not self._is_ready:
            self.sink.open(self._run)
            self._is_ready = True
        elif reading is None and isinstance(self.sink, ActiveSink):
            self.sink.wake()
        if reading is not None:
            self.sink.write(reading)

    def _finish(self) -> None:
        self._is_off = True
        self._try("close", self.sink.close)

    def _try(self, doing: str, call: Callable[..., object], *args: object) -> bool:
        try:
            call(*args)
        except BaseException as fault:
            # Ctrl-C, or the exit of a signal handler: not the sink's, but the user's.
            if not isinstance(fault, Exception) and _is_main_thread():
                raise
            self._note(doing, fault)
            return False
        self._in_a_row = 0
        return True

    def _note_loss(self, fault: BaseException) -> None:
        """Something failed around the sink, with what its thread has in hand."""
        for _ in self._worker.current if self._worker is not None else ():
            self.lose(None)
        self._note("write", fault)

    def _note(self, doing: str, fault: BaseException) -> None:
        with self._lock:
            self._faults += 1
            is_first = self._faults == 1
            if not isinstance(fault, OSError):
                self._in_a_row += 1
            gives_up = self._in_a_row >= FAILURES_ALLOWED and not self._is_off
            self._is_off |= gives_up
        if is_first:
            self._reporter.post(
                f"{self._name}.{doing}() failed: {described(fault)}. Training goes on; "
                "further faults of this sink are only counted."
            )
        if gives_up:
            self._reporter.post(
                f"{self._name} failed {FAILURES_ALLOWED} times in a row and is switched off, "
                f"the last time with {described(fault)}. Training goes on."
            )


def _takes_many(sink: Sink) -> bool:
    """Whether its `write_many` is at least as much its own as its `write`."""
    own = next(c for c in type(sink).__mro__ if {"write", "write_many"} & vars(c).keys())
    return own is not Sink and "write_many" in vars(own) and "write" not in vars(sink)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
