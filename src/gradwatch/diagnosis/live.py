"""Diagnosing a training while it goes on: a sink that asks the rules."""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from gradwatch.core import ModelFacts, Reading, Site, SiteFilter
from gradwatch.diagnosis.finding import Finding
from gradwatch.diagnosis.findings_file import Extent, FindingsFile
from gradwatch.diagnosis.flight import FlightRecorder
from gradwatch.diagnosis.sequencer import Sequencer
from gradwatch.diagnosis.settings import Settings
from gradwatch.diagnosis.verdict import Verdict
from gradwatch.sinks import ActiveSink
from gradwatch.util import Reporter

_YOUNG = 50
"""Steps since it began, up to which a finding is a reason to look closer."""
_START = 20
"""The first steps, which are measured anyway."""


class LiveDiagnosis(ActiveSink):
    """Asks the rules about each reading, on the sink's thread.

    Findings are appended to the run's `findings.jsonl`, and kept until `new_findings` returns them.
    `on_young` is called, on that thread, when something is found that has just begun.
    """

    def __init__(
        self,
        settings: Settings,
        reporter: Reporter,
        on_young: Callable[[], object] = lambda: None,
    ) -> None:
        self.settings = settings
        self._on_young = on_young
        self.findings: list[Finding] = []
        self.verdict = Verdict()
        self._reporter = reporter
        self._facts = ModelFacts()
        self._directory: Path | None = None
        self._file: FindingsFile | None = None
        self._new_findings: deque[Finding] = deque()
        self._awaits_reports = False
        self._unseen: frozenset[Site] = frozenset()
        self._without_unseen = SiteFilter(self._unseen.__contains__)
        self.forget()

    def forget(self) -> None:
        """Another training is diagnosed from now on; not while one is under way."""
        self._diagnosis = self.settings.start(self._facts, self._reporter.post)
        self._name = f"{time.time_ns():x}"
        self._recorder = FlightRecorder()
        self._sequencer = Sequencer(
            self._diagnosis, awaits_reports=self._awaits_reports, recorder=self._recorder
        )
        self._last: dict[str, int] = {}
        self._first_step: int | None = None
        self._last_step = 0
        self._is_whole = True
        self._checks = 0
        self.findings = []
        self.verdict = Verdict()

    def ask_only(self, rules: Collection[str]) -> None:
        """From now on ask none but these rules; not while a training is under way."""
        wished = self.settings.rules
        chosen = tuple(name for name in rules if wished is None or name in wished)
        if chosen != wished:
            self.settings = replace(self.settings, rules=chosen)
            self.forget()

    def begin(
        self,
        facts: ModelFacts,
        directory: Path | None,
        first_step: int = 1,
        *,
        awaits_reports: bool = False,
    ) -> None:
        """A training begins with this step, or goes on; before the pipeline is opened.

        `directory` is None if nothing can be written there. `awaits_reports` says whether the loss
        is reported after each step, see `Sequencer`.
        """
        self.learn(facts)
        self._sequencer.awaits_reports = self._awaits_reports = awaits_reports
        self._sequencer.begin(first_step)
        self._directory = directory
        self._open_file()

    def learn(self, facts: ModelFacts) -> None:
        """These facts are known from now on."""
        if facts != self._facts:
            self._facts = facts
            self._diagnosis.facts = facts

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """An epoch has ended; on the training thread."""
        if self.outlet is not None:
            self.outlet.wake()

    def new_findings(self) -> list[Finding]:
        """The findings since the last call."""
        return [self._new_findings.popleft() for _ in range(len(self._new_findings))]

    # The methods below are called on the sink's thread.

    def write(self, reading: Reading) -> None:
        """Ask the rules about a reading, as soon as all that comes before it has come."""
        if reading.unseen:
            if reading.unseen != self._unseen:
                self._unseen = reading.unseen
                self._without_unseen = SiteFilter(self._unseen.__contains__)
            reading = self._without_unseen(reading)
        if not reading.is_report and not reading.is_late:
            if reading.step < self._last.get(reading.group, 0):
                # The training has gone back to a checkpoint, or began anew.
                self._finish()
                self.forget()
                self._sequencer.begin(reading.step)
                self._open_file()
            self._last[reading.group] = reading.step
        if self._first_step is None:
            self._first_step = reading.step
        self._last_step = max(self._last_step, reading.step)
        self._add(self._sequencer.add(reading))

    def wake(self) -> None:
        """An epoch has ended: if nothing is on its way, there is nothing to wait for."""
        if self.outlet is None or not self.outlet.is_expecting:
            self._add(self._sequencer.flush())

    def close(self) -> None:
        """Ask the rules about everything that waits, and write how the findings ended."""
        self._finish()

    def _add(self, findings: list[Finding]) -> None:
        if self._diagnosis.checks != self._checks:
            self._checks = self._diagnosis.checks
            self.findings, self.verdict = self._diagnosis.findings, self._diagnosis.verdict
        for finding in findings:
            self._new_findings.append(finding)
            if self._file is not None:
                self._file.found(finding)
            if finding.since > max(_START, finding.detected - _YOUNG):
                self._on_young()
            if finding.rule == "non-finite" and self._directory is not None:
                self._recorder.write(self._directory, finding.detected)

    def _open_file(self) -> None:
        self._file = None if self._directory is None else FindingsFile(self._directory, self._name)

    def _finish(self) -> None:
        self._add(self._sequencer.finish())
        self._is_whole &= self.outlet is None or not self.outlet.has_lost
        if self._file is None or self._first_step is None:
            return
        extent = Extent(self._first_step, self._last_step, self._is_whole)
        self._file.ended(self._diagnosis.findings, extent, self.verdict)
        self._file.close()
