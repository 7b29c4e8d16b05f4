"""Diagnosing a training while it goes on: a sink that asks the rules."""

import math
import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from gradwatch.core import Kind, ModelFacts, Reading, ReportedLoss, SiteFilter
from gradwatch.diagnosis.finding import Finding
from gradwatch.diagnosis.findings_file import Extent, FindingsFile
from gradwatch.diagnosis.flight import FlightRecorder
from gradwatch.diagnosis.merge_readings import completes, has_no_tensors, merged
from gradwatch.diagnosis.running_means import StepLosses, is_report_missing
from gradwatch.diagnosis.settings import Settings
from gradwatch.sinks import ActiveSink
from gradwatch.util import Reporter

_SHARE = 1 / 500
"""The share of the time that looking at losses of unmeasured steps may take."""
_SHORTEST_PAUSE = 0.1
_LATEST = 32
"""After so many newer reports, a missing one is not waited for."""


class LiveDiagnosis(ActiveSink):
    """Asks the rules about each reading and each reported loss, on the sink's thread.

    Findings are appended to the run's `findings.jsonl`, and kept until `new_findings` returns them.
    """

    def __init__(self, settings: Settings, reporter: Reporter) -> None:
        self.settings = settings
        self.findings: list[Finding] = []
        self._reporter = reporter
        self._facts = ModelFacts()
        self._directory: Path | None = None
        self._file: FindingsFile | None = None
        self._new_findings: deque[Finding] = deque()
        self._reported: deque[ReportedLoss] = deque(maxlen=1 << 16)
        self._epochs: deque[tuple[int, int, Mapping[str, float]]] = deque()
        """Epochs that have ended, the last step of each, and its logs."""
        self._unmeasured: deque[Reading] = deque()
        """Losses of steps that were not measured, as a loop gave them."""
        self._early: deque[Reading] = deque()
        """Readings that have overtaken reports of earlier steps."""
        self._last_reported: ReportedLoss | None = None
        """The newest report that was looked at."""
        self._last_step = 0
        """The last step of the epoch that ends next, as far as the training knows it."""
        self._next_look = 0.0
        self._nonfinite_reports = 0
        self.forget()

    def forget(self) -> None:
        """Another training is diagnosed from now on; not while one is under way."""
        self._diagnosis = self.settings.start(self._facts, self._reporter.post)
        self._name = f"{time.time_ns():x}"
        self._recorder = FlightRecorder()
        self._means = StepLosses()
        self._last: dict[str, int] = {}
        self._step = 0
        self._first_step: int | None = None
        self._last_measured = 0
        self._is_whole = True
        self._held: Reading | None = None
        self._newest: Reading | None = None
        self._loss_comes_later = False
        self.findings = []

    def ask_only(self, rules: Collection[str]) -> None:
        """From now on ask none but these rules; not while a training is under way."""
        wished = self.settings.rules
        chosen = tuple(name for name in rules if wished is None or name in wished)
        if chosen != wished:
            self.settings = replace(self.settings, rules=chosen)
            self.forget()

    def begin(self, facts: ModelFacts, directory: Path | None) -> None:
        """A training begins, or goes on; before the pipeline is opened.

        `directory` is None if nothing can be written there.
        """
        self._early.clear()
        self._unmeasured.clear()
        self._reported.clear()
        self._epochs.clear()
        self._last_reported = None
        self._last_step = 0
        if facts != self._facts:
            self._facts = facts
            self._diagnosis.facts = facts
        self._directory = directory
        self._open_file()

    def report(self, reported: ReportedLoss) -> None:
        """The training has reported its loss, perhaps not quite in the order of the steps."""
        self._reported.append(reported)
        self._nonfinite_reports = 0 if math.isfinite(reported.mean) else self._nonfinite_reports + 1
        # Rarely, while all is well: asking the rules takes the interpreter from the training.
        is_new = 0 < self._nonfinite_reports <= _LATEST
        if is_new or self._early or time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _SHORTEST_PAUSE
            self._ask_to_wake()

    def reach(self, step: int) -> None:
        """The training has come to this step, measured or not."""
        self._last_step = step

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """An epoch has ended with the step last reached; on the training thread."""
        numbers = {name: float(x) for name, x in logs.items() if isinstance(x, int | float)}
        self._epochs.append((epoch, self._last_step, numbers))
        self._ask_to_wake()

    def new_findings(self) -> list[Finding]:
        """The findings since the last call."""
        return [self._new_findings.popleft() for _ in range(len(self._new_findings))]

    def _ask_to_wake(self) -> None:
        if self.outlet is not None:
            self.outlet.wake()

    @property
    def _is_expecting(self) -> bool:
        return bool(self._early) or (self.outlet is not None and self.outlet.is_expecting)

    # The methods below are called on the sink's thread.

    def write(self, reading: Reading) -> None:
        """Ask the rules about a reading, and about the losses reported before it."""
        if reading.is_report:
            return  # The training reports these by itself, see `report` and `epoch_end`.
        began = time.monotonic()
        last = self._early[-1] if self._early else self._newest
        if _is_loss(reading) and not (last is not None and completes(last, reading)):
            self._unmeasured.append(reading)
            if began >= self._next_look or not all(map(math.isfinite, reading.losses().values())):
                self._read_unmeasured()
                self._plan_next_look(began)
            return
        self._read_unmeasured()
        if reading.unseen:
            reading = SiteFilter(reading.unseen.__contains__)(reading)
        self._early.append(reading)
        self._read_early(may_wait=not self._epochs)
        self._end_epochs()
        self._plan_next_look(began)

    def wake(self) -> None:
        """Ask the rules about the reported losses, and the epochs that have ended."""
        began = time.monotonic()
        self._read_unmeasured()
        # When an epoch has ended, all of its reports have come.
        self._read_early(may_wait=not self._epochs)
        self._read_reports()
        self._end_epochs()
        self._plan_next_look(began)

    def close(self) -> None:
        """Ask the rules about everything that waits, and write how the findings ended."""
        self._read_unmeasured()
        self._read_early(may_wait=False)
        self._read_held()
        self._read_reports(to_the_end=True)
        self._end_epochs(to_the_end=True)
        self._finish()

    def _plan_next_look(self, began: float) -> None:
        taken = time.monotonic() - began
        self._next_look = time.monotonic() + max(_SHORTEST_PAUSE, taken / _SHARE)

    def _read_unmeasured(self) -> None:
        """Tell the diagnosis the losses that a loop gave at steps that were not measured."""
        while self._unmeasured:
            group = self._unmeasured[0].group
            losses: list[tuple[int, float]] = []
            while self._unmeasured and self._unmeasured[0].group == group:
                reading = self._unmeasured.popleft()
                if reading.step < self._last.get(group, 0):
                    self._begin_again()
                self._last[group] = reading.step
                losses += [(reading.step, loss) for loss in reading.losses().values()]
            self._step = max(self._step, losses[-1][0])
            for step, loss in losses:
                self._recorder.add_loss(step, loss)
            self._add(self._diagnosis.observe_losses(losses, group))

    def _begin_again(self) -> None:
        """The training has gone back to a checkpoint, or began anew."""
        self._finish()
        self.forget()
        self._open_file()

    def _read_early(self, may_wait: bool) -> None:
        """Read the readings that have come, except those that wait for reports.

        Keras reports from threads of its own, which a reading overtakes on a busy machine.
        Read at once, it would be blamed for what had begun in a step before it.
        """
        while self._early:
            reports = sorted(self._reported)
            is_late = len(self._early) >= _LATEST or len(reports) >= _LATEST
            step = self._early[0].step
            if may_wait and not is_late and is_report_missing(self._last_reported, reports, step):
                return
            self._merge(self._early.popleft())

    def _merge(self, reading: Reading) -> None:
        """Read a reading, merged with another of the same step."""
        held, self._held = self._held, None
        if held is not None and completes(held, reading):
            self._read(merged(held, reading))
            return
        if held is not None:
            self._read(held)
        is_same_step = self._newest is not None and completes(self._newest, reading)
        # Once the loss has come after the rest, the rest waits for it: what is NaN in both
        # was so in the loss first.
        self._loss_comes_later |= is_same_step
        self._newest = reading
        if self._loss_comes_later and not has_no_tensors(reading):
            self._held = reading
        else:
            self._read(reading)

    def _read_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._read(held)

    def _read(self, reading: Reading) -> None:
        if reading.step < self._last.get(reading.group, 0):
            self._begin_again()
        self._last[reading.group] = reading.step
        if self._first_step is None:
            self._first_step = reading.step
        self._last_measured = max(self._last_measured, reading.step)
        self._read_reports(before=reading.step)
        for loss in reading.numbers(Kind.LOSS).values():
            self._means.add_measured(reading.step, loss)
        self._step = max(self._step, reading.step)
        self._recorder.add(reading)
        self._add(self._diagnosis.observe(reading))

    def _end_epochs(self, to_the_end: bool = False) -> None:
        """Tell the diagnosis of the epochs that have ended, all of whose readings have come."""
        if not self._epochs or (self._is_expecting and not to_the_end):
            return
        self._read_held()
        self._read_reports(to_the_end=True)
        while self._epochs:
            epoch, step, logs = self._epochs.popleft()
            self._step = max(self._step, step)
            self._add(self._diagnosis.observe_epoch(epoch, self._step, logs))

    def _read_reports(self, before: int | None = None, to_the_end: bool = False) -> None:
        """Tell the diagnosis the losses that were reported.

        `before` limits them to the steps up to that of a reading that has come. `to_the_end` says
        that no missing report will come.
        """
        if before is None and self._is_expecting and not to_the_end:
            return  # The reading on its way says more.
        reported = sorted(self._reported.popleft() for _ in range(len(self._reported)))
        losses: list[tuple[int, float]] = []
        for place, each in enumerate(reported):
            is_later = before is not None and each.step > before
            is_next = self._means.is_next(each.count, each.stride)
            may_wait = before is None and not to_the_end and len(reported) - place < _LATEST
            if is_later or (may_wait and not is_next):
                self._reported.extendleft(reversed(reported[place:]))
                break
            loss = self._means.add_mean(each.step, each.count, each.mean)
            self._last_reported = each
            # The loss of a measured step is in its reading.
            if loss is not None and each.step > self._step and each.step != before:
                losses.append((each.step, loss))
                self._step = each.step
                self._recorder.add_loss(each.step, loss)
                if not math.isfinite(loss):
                    # Rules look at the newest one.
                    self._add(self._diagnosis.observe_losses(losses))
                    losses = []
        if losses:
            self._add(self._diagnosis.observe_losses(losses))

    def _add(self, findings: list[Finding]) -> None:
        self.findings = self._diagnosis.findings
        for finding in findings:
            self._new_findings.append(finding)
            if self._file is not None:
                self._file.found(finding)
            if finding.rule == "non-finite" and self._directory is not None:
                self._recorder.write(self._directory, self._step)

    def _open_file(self) -> None:
        self._file = None if self._directory is None else FindingsFile(self._directory, self._name)

    def _finish(self) -> None:
        self._is_whole &= self.outlet is None or not self.outlet.has_lost
        if self._file is None or self._first_step is None:
            return
        extent = Extent(self._first_step, self._last_measured, self._is_whole)
        self._file.ended(self._diagnosis.findings, extent)
        self._file.close()


def _is_loss(reading: Reading) -> bool:
    """Whether a reading has nothing but the loss of a whole step."""
    return reading.micro_batch is None and all(site.kind is Kind.LOSS for site in reading.sites)
