"""The sink that forwards to an experiment tracker."""

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gradwatch.core import Reading, finite
from gradwatch.diagnosis import Finding
from gradwatch.integrations.forwarding.chosen_tracker import package_of, tracker_for
from gradwatch.integrations.forwarding.key_choice import MAX_KEYS, KeyChoice
from gradwatch.integrations.forwarding.tracker import (
    PREFIX,
    TRACKERS,
    Bins,
    ForwardedRow,
    Tracker,
)
from gradwatch.sinks import RunInfo, ScalarTables, Sink, buckets, check_statistics
from gradwatch.util import described, say, suggests_arguments

REPORT_TIME = 20.0
"""Seconds that making and handing over the report may delay the end of a training, at most."""
_SYNONYMS = {
    **dict.fromkeys(("tracker", "run", "log", "target"), "to="),
    **dict.fromkeys(("select", "metrics", "pattern", "patterns"), "keys="),
    **dict.fromkeys(("artifact", "artifacts", "html"), "report="),
}


class Forward(Sink):
    """Forwards the main numbers of a run to an experiment tracker.

    The losses, metrics, totals of the model and totals of layers, under the names that
    `TensorBoard` has for them, with `gradwatch/` before them; at most 300 keys, unless you choose
    them. wandb and trackio get histograms where some are taken. Warnings and errors of the
    diagnosis become alerts (in MLflow: tags), and when the run is closed, its report becomes an
    artifact.

    Nothing of it holds training up: a tracker that hangs or fails loses readings, which are
    counted, and gets later ones. The run on this machine is not affected.

    Args:
        to: `"wandb"`, `"mlflow"` or `"trackio"`, whose run must be active when training begins; a
            run of one of them; or a function that is called with a dict of numbers and the step, on
            another thread.
        keys: patterns of the keys to forward instead, such as `"per_layer_gradient_l2/*"`, or a
            list of them. All that match are forwarded.
        statistics: as those of `TensorBoard`: write these of every tensor, layer and the model.
        report: whether to keep the report with the run of the tracker. Closing the run waits for
            that, for 20 seconds at most.

    Example:

    >>> import gradwatch, numpy as np
    >>> logged = []
    >>> forward = gradwatch.Forward(lambda numbers, step: logged.append((step, numbers)))
    >>> with gradwatch.Monitor(every=1, sinks=[forward], diagnose=False) as monitor:
    ...     monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0])}, loss=0.5)
    >>> step, numbers = logged[0]
    >>> step, numbers["gradwatch/loss"], numbers["gradwatch/model/gradient_l2"]
    (1, 0.5, 5.0)
    """

    @suggests_arguments(_SYNONYMS)
    def __init__(
        self,
        to: str | Callable[[dict[str, float], int], object] | Any,
        *,
        keys: str | Sequence[str] | None = None,
        statistics: str | Sequence[str] | None = None,
        report: bool = True,
    ) -> None:
        is_known = to in TRACKERS if isinstance(to, str) else package_of(to) or callable(to)
        if not is_known:
            raise ValueError(
                f"Forward takes {', '.join(map(repr, TRACKERS))}, a run of one of them, or a "
                f"function of numbers and a step. Received: {to!r}"
            )
        if isinstance(to, str) and find_spec(to) is None:
            raise ModuleNotFoundError(
                f"Forward({to!r}) needs the package {to}: pip install 'gradwatch[{to}]'"
            )
        self.to, self.report = to, report
        self.keys = (keys,) if isinstance(keys, str) else None if keys is None else tuple(keys)
        self.statistics = check_statistics(statistics)
        self._tracker: Tracker | None = None
        self._findings: deque[Finding] = deque()
        self._choice = KeyChoice(self.keys)
        self._tables = ScalarTables(self.statistics)
        self._delivered: list[Reading] = []
        """Those of a `write_many` that failed which had arrived: they are not sent again."""
        self._is_stuck = False
        self._has_told = False

    def before_run(self, run: RunInfo) -> None:
        # Anew for each run: the user may have begun another one of the tracker.
        self._tracker = None
        self._tracker = tracker_for(self.to)

    def new_finding(self, finding: Finding) -> None:
        if finding.is_alarm:
            self._findings.append(finding)

    def open(self, run: RunInfo) -> None:
        self._is_stuck = False

    def write(self, reading: Reading) -> None:
        if not any(reading is each for each in self._delivered):
            self._send([reading])

    def write_many(self, readings: Sequence[Reading]) -> None:
        self._delivered = []
        self._send(readings)
        self._delivered = []

    def close(self) -> None:
        if self._tracker is not None and not self._is_stuck:
            self._alert()
            self._deliver(self._tracker.finish)

    def after_run(self, run: RunInfo) -> None:
        """Hand over what was found last, and the report."""
        if self._choice.left_out and not self._has_told:
            self._has_told = True
            say(
                f"Forward kept to {MAX_KEYS} keys: {self._choice.left_out:,} more are in the run "
                "only. Choose which to forward with keys=."
            )
        if self._tracker is None or self._is_stuck:
            return
        # What hangs must not hold the user up for longer.
        problems: list[str] = []
        thread = threading.Thread(
            target=self._hand_over,
            args=(run.directory, problems),
            name="gradwatch-report",
            daemon=True,
        )
        thread.start()
        thread.join(REPORT_TIME)
        if thread.is_alive():
            problems = [f"{self._tracker.name} took longer than {REPORT_TIME:.0f} s"]
        for problem in problems:
            say(f"The report was not handed to the tracker: {problem}. The run is complete.")

    def _hand_over(self, directory: Path, problems: list[str]) -> None:
        try:
            self._alert()
            if self.report and self._tracker is not None and self._tracker.has_files:
                with tempfile.TemporaryDirectory(prefix="gradwatch-report-") as folder:
                    self._tracker.file(_report(directory, Path(folder)))
        except Exception as error:
            problems.append(described(error))

    def _send(self, readings: Sequence[Reading]) -> None:
        tracker = self._tracker
        if tracker is None:  # As was said when the run began.
            return
        self._alert()
        rows: list[ForwardedRow] = []
        waiting: list[Reading] = []
        for reading in readings:
            row = self._row(reading, tracker.has_histograms)
            if sum(len(r.numbers) for r in (*rows, row)) > tracker.max_numbers:
                self._log(tracker, rows, waiting)
            rows.append(row)
            waiting.append(reading)
        self._log(tracker, rows, waiting)

    def _log(self, tracker: Tracker, rows: list[ForwardedRow], of: list[Reading]) -> None:
        """Log rows in one call; they are delivered then, and the lists are empty."""
        full = [row for row in rows if row.numbers or row.histograms]
        if full:
            self._deliver(lambda: tracker.log(full))
        self._delivered += of
        rows.clear()
        of.clear()

    def _alert(self) -> None:
        tracker = self._tracker
        while self._findings and tracker is not None:
            self._deliver(partial(tracker.alert, self._findings[0]))
            self._findings.popleft()

    def _deliver(self, call: Callable[[], object]) -> None:
        """Call the tracker. Whatever it raises is a fault that may pass, as that of a disk."""
        self._is_stuck = True
        try:
            call()
        except Exception as error:
            raise ConnectionError(described(error)) from error
        finally:
            self._is_stuck = False

    def _row(self, reading: Reading, has_histograms: bool) -> ForwardedRow:
        with np.errstate(all="ignore"):
            numbers = dict(self._tables.table_for(reading).rows(reading))
        kept = self._choice.kept(numbers)
        histograms = self._choice.kept(_histograms(reading)) if has_histograms else {}
        return ForwardedRow(reading.step, reading.time, _prefixed(kept), _prefixed(histograms))


def _prefixed(values: Mapping[str, Any]) -> dict[str, Any]:
    # A lone surrogate cannot be sent.
    return {
        (PREFIX + key).encode("utf-8", "backslashreplace").decode(): value
        for key, value in values.items()
    }


def _histograms(reading: Reading) -> dict[str, Bins]:
    every = [(reading.sites[i], reading.histogram(i)) for i in reading.cells]
    counted = [(site, x) for site, x in every if x is not None and finite(x.summary) > 0]
    found = {}
    drawn = buckets([taken for _, taken in counted])
    for (site, taken), (limits, counts) in zip(counted, drawn, strict=True):
        edges = np.concatenate([[float(taken.summary.min)], limits])
        found[f"per_tensor_{site.kind}/{site.path}"] = (counts, edges)
    return found


def _report(directory: Path, folder: Path) -> Path:
    """A report of the run, as a web page where the front end is there to make one."""
    from gradwatch.view.report import report
    from gradwatch.view.web import NotBuiltError

    try:
        return report(directory, folder / "report.html")
    except NotBuiltError:
        return report(directory, folder / "report.md")
