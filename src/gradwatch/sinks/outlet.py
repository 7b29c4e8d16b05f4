"""A sink with its thread, its faults and its losses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from gradwatch.core import Reading
from gradwatch.sinks.base import RunInfo, Sink
from gradwatch.util import Worker

TO_BE_WRITTEN = 256
"""How many readings may wait for a sink. More than for the thread that makes them, which passes on
many at once."""
FAILURES_ALLOWED = 3


class Outlet:
    """Calls a sink, on a thread of its own if it writes, and answers for what it raises.

    Args:
        sink: the sink.
        name: what it is called in messages.
        run: what it is told of the run.
        tell: takes a message, from any thread.
        room: how many bytes the readings that wait for it may hold.
        rest: for how many seconds at most they wait for each other, see `Worker`.
    """

    def __init__(
        self,
        sink: Sink,
        name: str,
        run: RunInfo,
        tell: Callable[[str], object],
        room: int,
        rest: float,
    ) -> None:
        self.sink = sink
        self._name = name
        self._run = run
        self._tell = tell
        self._is_ready = self._is_off = self._was_late = False
        self._faults = self._in_a_row = 0
        self._lost_readings = self._lost_rows = 0
        self._lost_more = False
        self._lock = threading.Lock()
        self._worker: Worker[Reading | None] | None = None
        if sink.threaded:
            self._worker = Worker(
                f"gradwatch-{name}",
                self._write,
                TO_BE_WRITTEN,
                handle_together=self._write_together if _takes_many(sink) else None,
                rest=rest,
                size_of=lambda reading: 0 if reading is None else reading.nbytes,
                max_bytes=room,
                on_fault=self._note_loss,
                at_end=self._finish,
            )

    @property
    def is_idle(self) -> bool:
        """Whether all that was put is written, or lost."""
        return self._worker is None or self._worker.is_idle

    def hurry(self) -> None:
        """Have what waits written now."""
        if self._worker is not None:
            self._worker.hurry()

    def drain(self, timeout: float) -> bool:
        """The same, and wait for it; False if it took longer."""
        return self._worker is None or self._worker.drain(timeout)

    def open(self) -> None:
        """Open the sink, on its thread: even that may hang."""
        if self._worker is None:
            self._write(None)
        else:
            self._worker.submit(None)

    def put(self, reading: Reading) -> None:
        """Have a reading written, sooner or later."""
        if self._worker is None:
            self._write(reading)
        elif not self._worker.submit(reading):
            self.lose(len(reading))

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Tell the sink, on this thread."""
        if not self._is_off:
            self._try("epoch_end", lambda: self.sink.epoch_end(epoch, logs))

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
        """Write a reading; None only opens the sink."""
        doing = "open" if reading is None else "write"
        is_done = not self._is_off and self._try(doing, self._step, reading)
        if not is_done and reading is not None:
            self.lose(len(reading))

    def _write_together(self, waiting: Sequence[Reading | None]) -> None:
        """Write readings in one go; if that fails, each by itself, so that each counts."""
        readings = [reading for reading in waiting if reading is not None]
        if self._is_ready and not self._is_off and len(readings) == len(waiting):
            with suppress(BaseException):
                self.sink.write_many(readings)
                self._in_a_row = 0
                return
        for reading in waiting:
            self._write(reading)

    def _step(self, reading: Reading | None) -> None:
        # A sink whose open() failed is opened again with the next reading.
        if not self._is_ready:
            self.sink.open(self._run)
            self._is_ready = True
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
            self._tell(
                f"{self._name}.{doing}() failed: {words(fault)}. Training goes on; "
                "further faults of this sink are only counted."
            )
        if gives_up:
            self._tell(
                f"{self._name} failed {FAILURES_ALLOWED} times in a row and is switched off, "
                f"the last time with {words(fault)}. Training goes on."
            )


def _takes_many(sink: Sink) -> bool:
    """Whether its `write_many` is at least as much its own as its `write`."""
    own = next(c for c in type(sink).__mro__ if {"write", "write_many"} & vars(c).keys())
    return own is not Sink and "write_many" in vars(own) and "write" not in vars(sink)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def words(fault: BaseException) -> str:
    """What is wrong."""
    try:
        return f"{type(fault).__name__}: {fault}".removesuffix(": ")
    except Exception:  # an exception whose own text raises
        return type(fault).__name__


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
