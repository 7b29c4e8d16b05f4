"""Telling the user what was found, on the thread that trains."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from gradwatch.diagnosis.finding import Finding, Severity
from gradwatch.diagnosis.live import LiveDiagnosis
from gradwatch.diagnosis.settings import Settings

_OF_EACH_RANK = ("non-finite",)
"""Rules that need nothing but what a rank has of its own."""


class Announcer:
    """Prints findings, hands them to the user's function, and knows whether to stop.

    What is only worth knowing is not printed.

    Args:
        settings: which rules, and how.
        on_finding: called with each finding; what it raises is said once.
        stop_on: the severity from which on training is to stop; None for never.
        remark: says something in words, once.
        file: where to print; by default what `sys.stdout` is at that time.

    Attributes:
        live: the diagnosis itself.
        should_stop: whether something was found for which training is to stop.

    Example:

    >>> import numpy as np
    >>> from gradwatch import Kind, Reading, Site, Summary
    >>> from gradwatch.diagnosis.announcing import Announcer
    >>> from gradwatch.core import ModelFacts
    >>> from gradwatch.diagnosis.finding import Severity
    >>> from gradwatch.diagnosis.settings import Settings
    >>> announcer = Announcer(Settings(), None, Severity.ERROR, print)
    >>> announcer.live.begin(ModelFacts(), None)
    >>> row = Summary.of([np.nan]).pack()[None]
    >>> announcer.live.take(Reading(4, 1, 0.0, [Site(Kind.WEIGHT, "a")], Summary.unpack(row)))
    >>> announcer.live.end()
    >>> announcer.announce()  # doctest: +ELLIPSIS
    <BLANKLINE>
    gradwatch · error: NaN in step 4, first in weight a. (since step 4)
    ...
    >>> announcer.should_stop
    True
    """

    def __init__(
        self,
        settings: Settings,
        on_finding: Callable[[Finding], object] | None,
        stop_on: Severity | None,
        remark: Callable[[str], None],
        file: TextIO | None = None,
    ) -> None:
        self.settings = settings
        self.should_stop = False
        self._messages: deque[str] = deque()
        self.live = LiveDiagnosis(settings, self._messages.append)
        self._on_finding = on_finding
        self._stop_on = stop_on
        self._remark = remark
        self._file = file
        self._who = ""

    def begin(self, facts: Any, directory: Path | None, of_rank: int | None = None) -> None:
        """A training begins, or goes on; see `LiveDiagnosis.begin`.

        Args:
            facts, directory: as there.
            of_rank: the number of this process, if another one judges what all have in
                common. Of what is its own, it can tell by itself only whether it is finite.
        """
        self.should_stop = False
        if of_rank is not None:
            self.live.end()
            self.live.ask_only(_OF_EACH_RANK)
            self._who = f"rank {of_rank} · "
        self.live.begin(facts, directory)

    def announce(self) -> None:
        """Tell what was found since the last time; call it on the thread that trains."""
        while self._messages:
            self._remark(self._messages.popleft())
        for finding in self.live.news():
            if finding.is_alarm:
                self._print(finding)
            if self._stop_on is not None and finding.severity.rank >= self._stop_on.rank:
                self.should_stop |= not finding.explained_by
            if self._on_finding is not None:
                try:
                    self._on_finding(finding)
                except Exception as error:
                    self._remark(f"on_finding failed: {type(error).__name__}: {error}")

    def _print(self, finding: Finding) -> None:
        # A closed or odd stream is no reason to stop training. The empty line keeps it
        # apart from a progress bar.
        with suppress(Exception):
            text = f"\ngradwatch · {self._who}{finding.text()}"
            print(text, file=self._file or sys.stdout, flush=True)
