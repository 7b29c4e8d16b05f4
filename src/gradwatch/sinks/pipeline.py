"""From the training thread to the sinks, without ever holding training up."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from gradwatch import exits
from gradwatch.reading import Reading
from gradwatch.sinks.base import RunInfo, Sink
from gradwatch.sinks.worker import Worker

Fetch = tuple[Callable[[], Reading | None], int | None]

EPOCH_PATIENCE = 0.5
MAX_BYTES = 64_000_000
"""What the readings that wait for sinks may hold in all."""
FAILURES_ALLOWED = 3


class Pipeline:
    """Brings readings to sinks, each on its own thread, and answers for all faults.

    One thread fetches: it makes the readings, which waits for the device. Each
    sink that writes has a thread of its own, so one that hangs holds up nobody.
    Whatever a sink raises, training goes on; it is said once per sink, and what
    was lost is counted. After an `OSError` (a full disk) a sink is tried again
    with the next reading, without end; after three other faults in a row it is
    switched off.

    The readings that wait for slow sinks hold at most 64 MB in all; each sink has an
    equal part of that, so that one that hangs does not take the others' room.

    Messages are kept until the training thread comes by: `submit`, `epoch_end`,
    `close` and `deliver` pass them on. In a forked child all methods do nothing.

    Args:
        sinks: the consumers of readings.
        say: called with each message, on the training thread.

    Example:

    >>> import pathlib
    >>> import numpy as np
    >>> from gradwatch.reading import Reading
    >>> from gradwatch.sinks import RunInfo, Sink
    >>> from gradwatch.sinks.pipeline import Pipeline
    >>> from gradwatch.summary import Summary
    >>> class Steps(Sink):
    ...     def write(self, reading):
    ...         print("step", reading.step)
    >>> pipeline = Pipeline([Steps()], say=print)
    >>> pipeline.open(RunInfo(pathlib.Path(".")))
    >>> pipeline.submit(lambda: Reading(7, 1, 0.0, [], Summary.empty((0,))))
    True
    >>> pipeline.close()
    step 7
    """

    def __init__(self, sinks: Sequence[Sink], say: Callable[[str], object]) -> None:
        self.sinks = tuple(sinks)
        self._say = say
        self._messages: deque[str] = deque()
        self._outlets: list[_Outlet] = []
        self._fetcher: Worker[Fetch] | None = None
        self._process: int | None = None
        self._fetch_failed = False

    def open(self, run: RunInfo) -> None:
        """A run begins; may be called again after `close`."""
        self.close()
        self._messages.clear()
        self._fetch_failed = False
        names = _distinct([type(sink).__name__ for sink in self.sinks])
        room = MAX_BYTES // max(1, sum(sink.threaded for sink in self.sinks))
        self._outlets = [
            _Outlet(sink, name, run, self._messages.append, room)
            for sink, name in zip(self.sinks, names, strict=True)
        ]
        self._fetcher = Worker("gradwatch-fetch", self._fetch, on_fault=self._note)
        self._process = os.getpid()
        _open_pipelines.add(self)
        exits.opened()
        for outlet in self._outlets:
            outlet.open()
        self.deliver()

    def submit(self, make_reading: Callable[[], Reading | None], rows: int | None = None) -> bool:
        """Have a reading made and written, later; returns at once.

        Args:
            make_reading: called on another thread; may wait for the device. None
                if it then turns out that there is nothing to write.
            rows: how many sites it will have, if known: for the count of what is
                lost, in case the reading is never made.

        Returns:
            Whether it was taken; False if too many are waiting already, or the
            pipeline is not open, or this is a forked child.
        """
        if not self._is_open() or self._fetcher is None:
            return False
        self.deliver()
        if self._fetcher.submit((make_reading, rows)):
            return True
        self._lose(rows)
        return False

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted has been written."""
        return self._fetcher is None or (
            self._fetcher.is_idle and all(outlet.is_idle for outlet in self._outlets)
        )

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Tell the sinks; waits up to 0.5 s if one of them prints what was just measured."""
        if not self._is_open() or self._fetcher is None:
            return
        if any(not outlet.sink.threaded for outlet in self._outlets):
            self._fetcher.drain(EPOCH_PATIENCE)
        for outlet in self._outlets:
            outlet.epoch_end(epoch, logs)
        self.deliver()

    def close(self, timeout: float = 2.0) -> None:
        """Write out what waits, for at most `timeout` seconds, and say what was lost."""
        if self._is_open() and self._fetcher is not None:
            try:
                self._close(self._fetcher, timeout)
            finally:
                exits.closed()

    def deliver(self) -> None:
        """Say what is to be said; call it on the training thread."""
        while self._messages:
            # A `say` that raises (warnings as errors, say) must not stop training.
            with suppress(Exception):
                self._say(self._messages.popleft())

    def _close(self, fetcher: Worker[Fetch], timeout: float) -> None:
        self._fetcher = None
        _open_pipelines.discard(self)
        deadline = time.monotonic() + timeout
        # A part of the time is kept for the sinks: they can only finish after it.
        try:
            if not fetcher.close(0.75 * timeout):
                for _, rows in fetcher.unfinished:
                    self._lose(rows)
        finally:
            self._close_outlets(deadline)
        losses = [words for outlet in self._outlets if (words := outlet.losses())]
        if losses:
            self._messages.append(f"The record is not complete: {'; '.join(losses)}.")
        self.deliver()

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

    def _fetch(self, job: Fetch) -> None:
        make_reading, rows = job
        try:
            reading = make_reading()
        except BaseException as fault:
            self._lose(rows)
            self._say_once(
                f"A measurement could not be fetched from the device: {_words(fault)}. "
                "Training goes on; further such faults are only counted."
            )
            return
        if reading is None:
            return
        for outlet in self._outlets:
            outlet.put(reading)

    def _note(self, fault: BaseException) -> None:
        """Something failed on the way of a reading; which part of it was lost, is not known."""
        self._lose(None)
        self._say_once(
            f"gradwatch failed at passing a measurement on: {_words(fault)}. Training goes on; "
            "further such faults are only counted."
        )

    def _say_once(self, message: str) -> None:
        if not self._fetch_failed:
            self._fetch_failed = True
            self._messages.append(message)

    def _lose(self, rows: int | None) -> None:
        for outlet in self._outlets:
            outlet.lose(rows)


class _Outlet:
    """A sink with its thread, its faults and its losses."""

    def __init__(
        self, sink: Sink, name: str, run: RunInfo, tell: Callable[[str], object], room: int
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
                size_of=lambda reading: 0 if reading is None else reading.nbytes,
                max_bytes=room,
                on_fault=self._note_loss,
                at_end=self._finish,
            )

    @property
    def is_idle(self) -> bool:
        return self._worker is None or self._worker.is_idle

    def open(self) -> None:
        """Open the sink, on its thread: even that may hang."""
        if self._worker is None:
            self._write(None)
        else:
            self._worker.submit(None)

    def put(self, reading: Reading) -> None:
        if self._worker is None:
            self._write(reading)
        elif not self._worker.submit(reading):
            self.lose(len(reading))

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        if not self._is_off:
            self._try("epoch_end", lambda: self.sink.epoch_end(epoch, logs))

    def seal(self) -> None:
        if self._worker is not None:
            self._worker.seal()

    def close(self, deadline: float) -> None:
        if self._worker is None:
            self._finish()
        elif not self._worker.close(deadline - time.monotonic()):
            self._was_late = True
            for reading in self._worker.unfinished:
                if reading is not None:
                    self.lose(len(reading))

    def lose(self, rows: int | None) -> None:
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
        """Something failed around the sink."""
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
                f"{self._name}.{doing}() failed: {_words(fault)}. Training goes on; "
                "further faults of this sink are only counted."
            )
        if gives_up:
            self._tell(
                f"{self._name} failed {FAILURES_ALLOWED} times in a row and is switched off, "
                f"the last time with {_words(fault)}. Training goes on."
            )


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where one comes again."""
    seen: Counter[str] = Counter()
    seen_names = []
    for name in names:
        seen[name] += 1
        seen_names.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return seen_names


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _words(fault: BaseException) -> str:
    try:
        return f"{type(fault).__name__}: {fault}".removesuffix(": ")
    except Exception:  # an exception whose own text raises
        return type(fault).__name__


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


_open_pipelines: weakref.WeakSet[Pipeline] = weakref.WeakSet()


def _close_all(deadline: float) -> None:
    """At the end of the process, for runs that nobody closed."""
    for pipeline in list(_open_pipelines):
        # Not all of the time: what follows the sinks' closing needs some, too.
        pipeline.close(0.85 * max(0.0, deadline - time.monotonic()))


exits.register(0, _close_all)
