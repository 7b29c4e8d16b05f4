"""Telling the user about findings, on the thread that trains."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.finding import Finding, Severity, how_to_read_more
from gradwatch.diagnosis.live import LiveDiagnosis
from gradwatch.sinks import Pipeline
from gradwatch.util import Reporter, printable

_RULES_OF_EACH_RANK = ("non-finite",)


class Alerts:
    """Prints alarms, hands all findings to the user's function, and decides whether to stop.

    The first alarm is printed with the command that explains it. An exception of `on_finding` is
    shown once, by `reporter`. `stop_on` is the severity from which on training is to stop; None for
    never. By default alarms go to the `sys.stdout` of that time.
    """

    def __init__(
        self,
        diagnosis: LiveDiagnosis,
        on_finding: Callable[[Finding], object] | None,
        stop_on: Severity | None,
        reporter: Reporter,
        file: TextIO | None = None,
    ) -> None:
        self.diagnosis = diagnosis
        self.should_stop = False
        self.is_quiet = False
        """Whether alarms are given as warnings instead of being printed."""
        self._who = ""
        self._is_first = True
        self._on_finding = on_finding
        self._stop_on = stop_on
        self._reporter = reporter
        self._file = file

    def begin(
        self,
        facts: ModelFacts,
        directory: Path | None,
        rank: int = 0,
        first_step: int = 1,
        *,
        awaits_reports: bool = False,
    ) -> None:
        """A training begins, or goes on; see `LiveDiagnosis.begin`.

        The first rank asks all rules about what the processes have in common; another rank asks
        only those that its own measurements answer.
        """
        self.should_stop = False
        if rank:
            self._who = f"rank {rank} · "
            self.diagnosis.ask_only(_RULES_OF_EACH_RANK)
        self.diagnosis.begin(facts, directory, first_step, awaits_reports=awaits_reports)

    def deliver(self, pipeline: Pipeline | None = None) -> None:
        """Tell the user, and the sinks of a pipeline, about the findings since the last call."""
        for finding in self.diagnosis.new_findings():
            if pipeline is not None:
                pipeline.new_finding(finding)
            if finding.is_alarm:
                self._print(finding)
            if self._stop_on is not None and finding.severity.rank >= self._stop_on.rank:
                self.should_stop |= not finding.explained_by
            if self._on_finding is not None:
                try:
                    self._on_finding(finding)
                except Exception as error:
                    self._reporter.notice(f"on_finding failed: {type(error).__name__}: {error}")

    def _print(self, finding: Finding) -> None:
        # A closed or odd stream is no reason to stop training.
        with suppress(Exception):
            text = f"gradwatch · {self._who}{finding.text()}"
            if self._is_first:
                self._is_first = False
                text += f"\n  {printable(how_to_read_more(finding))}"
            if self.is_quiet and self._file is None:
                self._reporter.show(text)
            else:
                # The empty line keeps it apart from a progress bar.
                print(f"\n{text}", file=self._file or sys.stdout, flush=True)
