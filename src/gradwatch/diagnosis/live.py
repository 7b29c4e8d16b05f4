"""Diagnosing a training while it goes on, on a thread of its own."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from gradwatch.core import Kind, ModelFacts, Reading, ReportedLoss
from gradwatch.diagnosis.finding import Finding
from gradwatch.diagnosis.findings_file import FindingsFile
from gradwatch.diagnosis.flight import FlightRecorder
from gradwatch.diagnosis.means import MeanLosses, is_one_missing
from gradwatch.diagnosis.merge_readings import are_one_step, is_step_only, merged
from gradwatch.diagnosis.settings import Settings
from gradwatch.util import Worker

_ROOM = 256
_SHARE = 1 / 500
"""Of the time, that looking at losses of unmeasured steps may take."""
_SHORTEST_PAUSE = 0.1
_LATEST = 32
"""Reports after which one that is missing is not waited for."""


@dataclass(frozen=True)
class _EpochEnd:
    epoch: int
    step: int
    logs: Mapping[str, float]


@dataclass(frozen=True)
class _Look:
    """Look at the losses that have come."""

    is_last: bool


_Event: TypeAlias = Reading | _EpochEnd | _Look
_LOOK, _LAST_LOOK = _Look(is_last=False), _Look(is_last=True)


class LiveDiagnosis:
    """Takes what becomes known of a training and says what is found.

    All methods return at once, and may be called from any thread: the rules are asked on a
    thread of this object's. What they find is appended to the run's `findings.jsonl`, and
    kept until `news` asks for it. A fault of ours is said once.

    Args:
        settings: which rules, and how.
        say: told, in words, of a rule that failed and the like; called on that thread.

    Attributes:
        findings: all findings so far, the worst first.

    Example:

    >>> import numpy as np
    >>> from gradwatch import Kind, Reading, Site, Summary
    >>> from gradwatch.core import ModelFacts
    >>> from gradwatch.diagnosis.live import LiveDiagnosis
    >>> from gradwatch.diagnosis.settings import Settings
    >>> live = LiveDiagnosis(Settings(), say=print)
    >>> live.begin(ModelFacts(), directory=None)
    >>> row = Summary.of([np.nan, 1.0]).pack()[None]
    >>> live.take(Reading(4, 1, 0.0, [Site(Kind.GRADIENT, "net/a")], Summary.unpack(row)))
    >>> live.end()
    >>> [finding.title for finding in live.news()]
    ['NaN in step 4, first in gradient net/a.']
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self.findings: list[Finding] = []
        self._settings = settings
        self._say = say
        self._facts = ModelFacts()
        self._directory: Path | None = None
        self._file: FindingsFile | None = None
        self._worker: Worker[_Event] | None = None
        self._news: deque[Finding] = deque()
        self._reported: deque[ReportedLoss] = deque(maxlen=1 << 16)
        self._under_way = 0
        self._count_lock = threading.Lock()
        self._early: deque[Reading] = deque()
        """Readings that have overtaken reports of earlier steps."""
        self._last_reported: ReportedLoss | None = None
        """The newest report that was looked at."""
        self._next_look = 0.0
        self._broken = 0
        """How many reports in a row were not finite."""
        self._has_failed = False
        self.forget()

    def forget(self) -> None:
        """Another training is diagnosed from now on; not while one is under way."""
        self._diagnosis = self._settings.start(self._facts, self._say)
        self._name = f"{time.time_ns():x}"
        self._recorder = FlightRecorder()
        self._means = MeanLosses()
        self._last: dict[str, int] = {}
        self._step = 0
        self._held: Reading | None = None
        self._newest: Reading | None = None
        self._comes_apart = False
        self._ended: list[_EpochEnd] = []
        self.findings = []

    def ask_only(self, rules: Collection[str]) -> None:
        """From now on ask none but these rules; not while a training is under way."""
        wished = self._settings.rules
        chosen = tuple(name for name in rules if wished is None or name in wished)
        if chosen != wished:
            self._settings = replace(self._settings, rules=chosen)
            self.forget()

    def begin(self, facts: ModelFacts, directory: Path | None) -> None:
        """A training begins, or goes on.

        Args:
            facts: what is known of the model.
            directory: the run's; None if nothing can be written there.
        """
        self.end()
        self._under_way = 0
        self._early.clear()
        self._reported.clear()
        self._last_reported = None
        if facts != self._facts:
            self._facts = facts
            self._diagnosis.facts = facts
        self._directory = directory
        self._open_file()
        self._worker = Worker(
            "gradwatch-diagnosis", self._handle, _ROOM, on_fault=self._fault, at_end=self._finish
        )

    def expect(self) -> None:
        """A reading is on its way: what it tells comes before what is reported of later steps."""
        with self._count_lock:
            self._under_way += 1

    def take(self, reading: Reading | None) -> None:
        """A reading that was expected; None if it did not come to anything."""
        # It has arrived when it is looked at: a report that overtakes it on its way waits.
        if reading is None or not self._submit(reading):
            self._arrived()

    def report(self, reported: ReportedLoss) -> None:
        """The training has reported its loss, perhaps not quite in the order of the steps."""
        self._reported.append(reported)
        self._broken = 0 if math.isfinite(reported.mean) else self._broken + 1
        # Rarely, while all is well: asking the rules takes the interpreter from the training.
        is_new = 0 < self._broken <= _LATEST
        if is_new or self._early or time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _SHORTEST_PAUSE
            self._submit(_LOOK)

    def epoch_end(self, epoch: int, step: int, logs: Mapping[str, float]) -> None:
        """An epoch has ended with that step."""
        self._submit(_EpochEnd(epoch, step, dict(logs)))

    @property
    def is_idle(self) -> bool:
        """Whether all that has come was looked at."""
        return self._worker is None or self._worker.is_idle

    def news(self) -> list[Finding]:
        """What was found since this was asked the last time."""
        found = []
        while self._news:
            found.append(self._news.popleft())
        return found

    def end(self, timeout: float = 1.0) -> None:
        """The training ends, perhaps to go on later: look at all that has come, and write."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.submit(_LAST_LOOK)
            worker.close(timeout)

    def _submit(self, event: _Event) -> bool:
        worker = self._worker
        return worker is not None and worker.submit(event)

    def _arrived(self) -> None:
        with self._count_lock:
            self._under_way = max(0, self._under_way - 1)

    # All below is called on the thread.

    def _handle(self, event: _Event) -> None:
        began = time.monotonic()
        if isinstance(event, Reading):
            self._early.append(event)
        elif isinstance(event, _EpochEnd):
            self._ended.append(event)
        is_last = isinstance(event, _Look) and event.is_last
        # When an epoch has ended, all of its reports have come.
        self._receive_early(may_wait=not is_last and not self._ended)
        if isinstance(event, _Look):
            if is_last:
                self._let_go()
            self._look(to_the_end=is_last)
        if self._ended and (is_last or not self._under_way):
            self._end_epochs()
        taken = time.monotonic() - began
        self._next_look = time.monotonic() + max(_SHORTEST_PAUSE, taken / _SHARE)

    def _receive_early(self, may_wait: bool) -> None:
        """Take the readings that have come, except those that wait for reports.

        Keras reports from threads of its own, which a reading overtakes on a busy machine.
        Taken at once, it would be blamed for what had begun in a step before it.
        """
        while self._early:
            reports = sorted(self._reported)
            is_late = len(self._early) >= _LATEST or len(reports) >= _LATEST
            step = self._early[0].step
            if may_wait and not is_late and is_one_missing(self._last_reported, reports, step):
                return
            self._arrived()
            self._receive(self._early.popleft())

    def _receive(self, reading: Reading) -> None:
        """Take a reading, together with what comes of the same step beside it."""
        held, self._held = self._held, None
        if held is not None and are_one_step(held, reading):
            self._read(merged(held, reading))
            return
        if held is not None:
            self._read(held)
        is_beside_last = self._newest is not None and are_one_step(self._newest, reading)
        # Once the loss has come after the rest, the rest waits for it: what is NaN in both
        # was so in the loss first.
        self._comes_apart |= is_beside_last
        self._newest = reading
        if self._comes_apart and not is_step_only(reading):
            self._held = reading
        else:
            self._read(reading)

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._read(held)

    def _read(self, reading: Reading) -> None:
        if reading.step < self._last.get(reading.group, 0):
            # The training has gone back to a checkpoint, or began anew.
            self._finish()
            self.forget()
            self._open_file()
        self._last[reading.group] = reading.step
        self._look(before=reading.step)
        for loss in reading.numbers(Kind.LOSS).values():
            self._means.check(reading.step, loss)
        self._step = max(self._step, reading.step)
        self._recorder.add(reading)
        self._hear(self._diagnosis.observe(reading))

    def _end_epochs(self) -> None:
        """Tell the diagnosis of the epochs that have ended, all of whose readings have come."""
        ended, self._ended = self._ended, []
        self._let_go()
        self._look(to_the_end=True)
        for each in ended:
            self._step = max(self._step, each.step)
            self._hear(self._diagnosis.observe_epoch(each.epoch, self._step, each.logs))

    def _look(self, before: int | None = None, to_the_end: bool = False) -> None:
        """Tell the diagnosis the losses that were reported.

        Args:
            before: only those up to that step, of which a reading has come.
            to_the_end: none will come that is missing.
        """
        if before is None and self._under_way and not to_the_end:
            return  # What comes with the reading says more.
        reported = sorted(self._reported.popleft() for _ in range(len(self._reported)))
        losses: list[tuple[int, float]] = []
        for place, each in enumerate(reported):
            is_later = before is not None and each.step > before
            is_next = self._means.is_next(each.count, each.stride)
            may_wait = before is None and not to_the_end and len(reported) - place < _LATEST
            if is_later or (may_wait and not is_next):
                self._reported.extendleft(reversed(reported[place:]))
                break
            loss = self._means.take(each.step, each.count, each.mean)
            self._last_reported = each
            # That of a step with a reading is in the reading.
            if loss is not None and each.step > self._step and each.step != before:
                losses.append((each.step, loss))
                self._step = each.step
                self._recorder.add_loss(each.step, loss)
                if not math.isfinite(loss):
                    # Rules look at the newest one.
                    self._hear(self._diagnosis.observe_losses(losses))
                    losses = []
        if losses:
            self._hear(self._diagnosis.observe_losses(losses))

    def _hear(self, news: list[Finding]) -> None:
        self.findings = self._diagnosis.findings
        for finding in news:
            self._news.append(finding)
            if self._file is not None:
                self._file.found(finding)
            if finding.rule == "non-finite" and self._directory is not None:
                self._recorder.write(self._directory, self._step)

    def _open_file(self) -> None:
        self._file = None if self._directory is None else FindingsFile(self._directory, self._name)

    def _finish(self) -> None:
        if self._file is not None:
            self._file.ended(self._diagnosis.findings)
            self._file.close()

    def _fault(self, fault: BaseException) -> None:
        if self._has_failed:
            return  # What follows may be a consequence, and one warning is enough.
        self._has_failed = True
        with suppress(Exception):
            self._say(f"The diagnosis goes on, though something failed: {fault!r}")
