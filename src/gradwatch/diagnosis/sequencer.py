"""Brings what is known of a training into one order, in whatever order it comes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gradwatch.core import Jumps, Kind, Reading, SiteFilter
from gradwatch.diagnosis.engine import Diagnosis
from gradwatch.diagnosis.finding import Finding
from gradwatch.diagnosis.flight import FlightRecorder
from gradwatch.diagnosis.merge_readings import completes, merged
from gradwatch.diagnosis.running_means import StepLosses

_MOST_HELD, _MOST_BYTES = 256, 64_000_000
"""Readings that wait for reports, at most."""
_MOST_LOSSES = 64
"""Losses of unmeasured steps about which the rules are asked at once, at most."""


@dataclass
class _Waiting:
    """What waits of one part of a training."""

    losses: list[tuple[int, float]] = field(default_factory=list)
    """Losses of unmeasured steps that the diagnosis has not been told yet."""
    told: int = 0
    """How many losses of unmeasured steps it has been told."""
    step: int = 0
    """The newest step that the diagnosis has been told of, or will be with `losses`."""
    loss_step: int = 0
    """The newest step whose loss is known."""
    jumps: Jumps = field(default_factory=Jumps)
    """Tells which losses the rules are asked about at once."""
    incomplete: Reading | None = None
    """A measurement whose loss may follow."""
    last: Reading | None = None
    """The last measurement that the diagnosis has been told."""
    loss_follows: bool | None = None
    """Whether losses come after the measurements of their steps; None until that is known."""
    reports: list[Reading] = field(default_factory=list)
    """Reports of the step that is incomplete."""


class Sequencer:
    """Tells a diagnosis everything in the order of the steps, so that it finds the same each time.

    During training, reports of the loss come late, and the loss of a step may come apart from its
    measurement; a recorded run has all of a step together. Either way the diagnosis is told, for
    each step: the measurement with its loss, then the loss that the training reported for a step
    that was not measured, then the logs of an epoch that ends with it. When it asks its rules
    depends on that alone, and never on the time.

    Args:
        diagnosis: what is told.
        awaits_reports: whether the training reports its loss after each step, and this may come
            after the measurements of later steps, but never before that of the step itself.
        begins: the first step of each `fit`, in their order, if known.
        recorder: is given the readings and losses that the diagnosis is told.
    """

    def __init__(
        self,
        diagnosis: Diagnosis,
        *,
        awaits_reports: bool = False,
        begins: Iterable[int] = (),
        recorder: FlightRecorder | None = None,
    ) -> None:
        self.awaits_reports = awaits_reports
        diagnosis.is_paced = True
        self._diagnosis = diagnosis
        self._recorder = recorder
        self._begins = deque(begins)
        self._ends = deque(list(self._begins)[1:])
        self._means = StepLosses()
        self._groups: dict[str, _Waiting] = {}
        self._held: deque[Reading] = deque()
        """Measurements that have overtaken reports of earlier steps."""
        self._held_bytes = 0
        self._reported = 0
        """The last step that was reported."""
        self._only_measured = SiteFilter(lambda site: site.kind.is_reported)
        self._without_samples = SiteFilter(lambda site: site.kind is Kind.SAMPLE_LOSS)
        self._found: list[Finding] = []

    def begin(self, step: int) -> None:
        """A `fit` begins with this step."""
        self._begins.append(step)
        self._reported = max(self._reported, step - 1)

    def add(self, reading: Reading) -> list[Finding]:
        """Take a reading; returns what has been found thereby."""
        if self._ends and reading.step >= self._ends[0]:
            # A recorded run has all its fits together.
            while self._ends and reading.step >= self._ends[0]:
                self._ends.popleft()
            self._found += self.finish()
        if samples := reading.numbers(Kind.SAMPLE_LOSS):
            self._diagnosis.observe_samples(reading.step, samples, reading.group)
            if reading.layout.has_no_tensors:
                # No rule is asked because of them alone.
                reading = self._without_samples(reading)
        is_reported = reading.is_report and len(reading) > 0
        if not reading.is_report:
            measured = self._only_measured(reading)
            is_reported = len(measured) < len(reading)
            self._hold(measured)
            self._held_bytes += measured.nbytes
            self._release()
        if is_reported:
            self._add_report(reading)
        return self._take_findings()

    def add_epoch(self, epoch: int, step: int, logs: Mapping[str, float]) -> list[Finding]:
        """Take the logs of an epoch that has ended with this step, and whose reports have come."""
        self._release(before=step + 1)
        self._complete(self._group(""))
        self._end_epoch(epoch, step, logs)
        return self._take_findings()

    def flush(self) -> list[Finding]:
        """Wait for nothing that has not come yet."""
        self._release(before=None)
        for group in self._groups.values():
            self._complete(group)
        return self._take_findings()

    def finish(self, *, has_ended: bool = True) -> list[Finding]:
        """Nothing more comes: tell the diagnosis all that has waited.

        And that the training has ended, for now, unless it goes on elsewhere.
        """
        found = self.flush()
        for name, group in self._groups.items():
            self._tell_losses(name, group)
        if has_ended:
            self._found += self._diagnosis.observe_end()
        return [*found, *self._take_findings()]

    def _take_findings(self) -> list[Finding]:
        found, self._found = self._found, []
        return found

    def _group(self, name: str) -> _Waiting:
        return self._groups.setdefault(name, _Waiting())

    def _hold(self, reading: Reading) -> None:
        """Keep a measurement in the order of steps: one that is late may come after others."""
        place = len(self._held)
        while reading.is_late and place and self._held[place - 1].step > reading.step:
            place -= 1
        self._held.insert(place, reading)

    def _release(self, before: int | None = 0) -> None:
        """Pass on the measurements that wait for nothing, and those before a step; None for all."""
        while self._held:
            step = self._held[0].step
            is_waiting = (
                self.awaits_reports
                and step > self._reported
                and before is not None
                and step >= before
                and len(self._held) <= _MOST_HELD
                and self._held_bytes <= _MOST_BYTES
            )
            if is_waiting:
                return
            reading = self._held.popleft()
            self._held_bytes -= reading.nbytes
            self._add_measured(reading)

    def _add_measured(self, reading: Reading) -> None:
        """Pass on a measurement together with its loss, which may come after it."""
        group = self._group(reading.group)
        waiting, group.incomplete = group.incomplete, None
        if waiting is not None:
            is_same = completes(waiting, reading)
            group.loss_follows = is_same
            self._observe(merged(waiting, reading) if is_same else waiting)
            self._add_reports(group)
            if is_same:
                return
        if group.last is not None and completes(group.last, reading):
            group.loss_follows = True
        elif _is_loss(reading):
            self._add_loss(reading.group, reading.step, next(iter(reading.losses().values())))
            return
        if group.loss_follows is not False and _may_lack_its_loss(reading):
            group.incomplete = reading
        else:
            self._observe(reading)

    def _complete(self, group: _Waiting) -> None:
        """Wait no longer for the loss of a measurement."""
        waiting, group.incomplete = group.incomplete, None
        if waiting is not None:
            self._observe(waiting)
            self._add_reports(group)

    def _observe(self, reading: Reading) -> None:
        group = self._group(reading.group)
        self._tell_losses(reading.group, group)
        losses = reading.losses()
        if not reading.group:
            for loss in losses.values():
                self._means.add_measured(reading.step, loss)
        group.last, group.step = reading, max(group.step, reading.step)
        if losses and reading.step > group.loss_step:
            group.loss_step = group.step
            group.jumps.add(next(iter(losses.values())))
        if self._recorder is not None:
            self._recorder.add(reading)
        self._found += self._diagnosis.observe(reading)

    def _add_report(self, reading: Reading) -> None:
        """Take what the training has reported of its own accord."""
        group = self._group(reading.group)
        if self.awaits_reports:
            # What was measured up to this step has come before.
            self._release(before=reading.step + 1)
            self._complete(group)
        elif group.incomplete is not None:
            group.reports.append(reading)
            return
        self._pass_report(reading)
        self._release()

    def _add_reports(self, group: _Waiting) -> None:
        reports, group.reports = group.reports, []
        for reading in reports:
            self._pass_report(reading)

    def _pass_report(self, reading: Reading) -> None:
        path = f"{reading.group}/loss".removeprefix("/")
        mean = reading.numbers(Kind.METRIC).get(path)
        has_metrics = Kind.METRIC in reading.layout.rows
        if has_metrics:
            self._reported = max(self._reported, reading.step)
        if mean is not None and not reading.group:
            while self._begins and self._begins[0] <= reading.step:
                self._means.begin(self._begins.popleft())
            loss = self._means.add_mean(reading.step, reading.epoch, mean)
            if loss is not None:
                self._add_loss(reading.group, reading.step, loss)
        if has_metrics and mean is None:
            self._add_metrics(reading)
        logs = reading.numbers(Kind.EPOCH_METRIC)
        if "loss" in logs or "val_loss" in logs:
            self._end_epoch(reading.epoch, reading.step, logs)

    def _add_metrics(self, reading: Reading) -> None:
        """Take the metrics of a loop; those of `fit` come with its epochs."""
        prefix = f"{reading.group}/" if reading.group else ""
        values = reading.numbers(Kind.METRIC).items()
        named = {name.removeprefix(prefix): value for name, value in values}
        self._diagnosis.observe_metrics(reading.step, named, reading.group)

    def _end_epoch(self, epoch: int, step: int, logs: Mapping[str, float]) -> None:
        group = self._group("")
        self._tell_losses("", group)
        group.step = max(group.step, step)
        self._found += self._diagnosis.observe_epoch(epoch, step, logs)

    def _add_loss(self, name: str, step: int, loss: float) -> None:
        """Take the loss of a step that was not measured."""
        group = self._group(name)
        if step < group.step or step <= group.loss_step:
            return  # It was measured.
        group.step = group.loss_step = step
        group.losses.append((step, loss))
        if self._recorder is not None:
            self._recorder.add_loss(step, loss)
        # Rarely, once many are known: asking the rules takes the interpreter from the training.
        # Rules look at the newest loss, so that one that is not finite must be the last.
        enough = min(1 + group.told // 8, _MOST_LOSSES)
        is_sign = group.jumps.add(loss) is not None or not math.isfinite(loss)
        if len(group.losses) >= enough or is_sign:
            self._tell_losses(name, group)

    def _tell_losses(self, name: str, group: _Waiting) -> None:
        losses, group.losses = group.losses, []
        if losses:
            group.told += len(losses)
            self._found += self._diagnosis.observe_losses(losses, name)


def _is_loss(reading: Reading) -> bool:
    """Whether a reading has nothing but the loss of a whole step."""
    return reading.micro_batch is None and reading.layout.rows.keys() <= {Kind.LOSS}


def _may_lack_its_loss(reading: Reading) -> bool:
    return not reading.layout.has_no_tensors and Kind.LOSS not in reading.layout.rows
