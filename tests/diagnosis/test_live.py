"""The diagnosis on its own thread: order, losses of unmeasured steps, findings in the run."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site, Summary
from gradwatch.diagnosis import ModelFacts, findings_file
from gradwatch.diagnosis.live import LiveDiagnosis
from gradwatch.diagnosis.settings import Settings
from gradwatch.sinks import RunInfo
from gradwatch.sinks.outlet import Outlet, whole
from gradwatch.util import Reporter
from gradwatch.util.files import checked_json
from tests.diagnosis.support import reading


class Live(LiveDiagnosis):
    """A diagnosis in an outlet, as in a pipeline, to which the test brings the readings."""

    def __init__(self, directory: Path | None = None, *, awaits_reports: bool = False) -> None:
        self.said: list[str] = []
        self.reporter = Reporter(self.said.append)
        super().__init__(Settings(), self.reporter)
        self.begin(ModelFacts(), directory, awaits_reports=awaits_reports)
        run = RunInfo(directory or Path())
        room, interval = 1 << 20, 0.0
        self.calls = Outlet(self, whole, "Live", run, self.reporter, room, interval)
        self.calls.open()

    def take(self, reading: gradwatch.Reading | None) -> None:
        """A reading that was expected has come, or is known never to come."""
        self.calls.put([] if reading is None else [reading])

    def end(self) -> None:
        self.calls.close(time.monotonic() + 60.0)
        self.reporter.deliver()
        assert self.said == []


def weights(step: int, value: float = 1.0, loss: float | None = None):
    arrays = {(Kind.WEIGHT, "a/kernel"): [value, 2.0], (Kind.GRADIENT, "a/kernel"): [0.1, value]}
    return reading(step, arrays, loss)


def settle(diagnosis: Live) -> None:
    """Wait until it has looked at all that has come."""
    while not diagnosis.calls.is_idle:
        time.sleep(0.001)


def report(step: int, mean: float) -> gradwatch.Reading:
    """What `fit` reports after a step."""
    site = Site(Kind.METRIC, "loss")
    return gradwatch.Reading(step, 1, 0.0, [site], Summary.of_numbers([mean]))


def test_nan_in_an_unmeasured_step_names_the_step():
    diagnosis = Live(awaits_reports=True)
    for step in (1, 2, 3, 4):
        diagnosis.calls.expect()
        diagnosis.take(report(step, 1.0 if step < 3 else math.nan))
    diagnosis.end()
    [finding] = diagnosis.new_findings()
    assert finding.title == "NaN in the loss of step 3; nothing else was measured in it."


def test_a_reading_that_overtakes_reports_of_earlier_steps_waits_for_them():
    diagnosis = Live(awaits_reports=True)
    for each in (report(1, 1.0), weights(8, math.nan, loss=math.nan)):
        diagnosis.calls.expect()
        diagnosis.take(each)
    settle(diagnosis)
    assert diagnosis.findings == []
    for step in range(2, 8):
        diagnosis.calls.expect()
        diagnosis.take(report(step, 1.0 if step < 4 else math.nan))
    settle(diagnosis)
    [finding] = diagnosis.new_findings()
    assert finding.title == "NaN in the loss of step 4; nothing else was measured in it."
    diagnosis.end()


def test_a_report_that_never_comes_holds_readings_up_for_an_epoch_at_most():
    diagnosis = Live(awaits_reports=True)
    for step in range(4, 8):  # Nothing is ever reported.
        diagnosis.calls.expect()
        diagnosis.take(weights(step, math.nan))
    settle(diagnosis)
    assert diagnosis.findings == []
    diagnosis.epoch_end(1, {})
    settle(diagnosis)
    assert [finding.since for finding in diagnosis.findings] == [4]
    diagnosis.end()


def test_a_reading_that_never_comes_holds_nothing_up():
    diagnosis = Live()
    diagnosis.calls.expect()
    diagnosis.take(None)
    diagnosis.calls.expect()
    diagnosis.take(report(1, math.inf))
    diagnosis.end()
    assert [finding.rule for finding in diagnosis.new_findings()] == ["non-finite"]


def test_a_loss_that_comes_after_the_rest_of_its_step_counts_as_first():
    diagnosis = Live()
    for step in range(1, 5):
        value = 1.0 if step < 4 else math.nan
        for each in (weights(step, value), reading(step, {(Kind.LOSS, "loss"): [value]})):
            diagnosis.calls.expect()
            diagnosis.take(each)
    diagnosis.end()
    [finding] = diagnosis.new_findings()
    assert finding.title == "NaN in step 4, first in the loss."


def test_findings_and_the_last_readings_are_in_the_run(tmp_path):
    diagnosis = Live(tmp_path)
    for step in range(1, 4):
        diagnosis.calls.expect()
        diagnosis.take(weights(step, 1.0 if step < 3 else math.nan))
    diagnosis.end()
    [kept] = findings_file.read(tmp_path).findings
    assert kept == diagnosis.findings[0]
    flight = checked_json.read(tmp_path / "flight-3.json")
    assert [each["step"] for each in flight["readings"]] == [1, 2, 3]
    assert flight["readings"][2]["sites"][0] == ["weight", "a/kernel"]


def test_a_damaged_line_of_the_findings_is_left_out(tmp_path):
    diagnosis = Live(tmp_path)
    diagnosis.calls.expect()
    diagnosis.take(weights(1, math.nan))
    diagnosis.end()
    path = tmp_path / findings_file.NAME
    good = path.read_bytes()
    assert len(findings_file.read(tmp_path).findings) == 1
    for place in range(0, len(good), 7):
        bad = bytearray(good)
        bad[place] ^= 1
        path.write_bytes(bytes(bad))
        for finding in findings_file.read(tmp_path).findings:
            assert finding in diagnosis.findings


def test_a_killed_process_leaves_what_was_found_so_far(tmp_path):
    diagnosis = Live(tmp_path)
    diagnosis.calls.expect()
    diagnosis.take(weights(1, math.nan))
    diagnosis.end()
    lines = (tmp_path / findings_file.NAME).read_bytes().splitlines(keepends=True)
    (tmp_path / findings_file.NAME).write_bytes(lines[0])
    assert [finding.rule for finding in findings_file.read(tmp_path).findings] == ["non-finite"]


def test_a_training_that_goes_back_is_diagnosed_anew(tmp_path):
    diagnosis = Live(tmp_path)
    for step in (1, 2, 3, 1):
        diagnosis.calls.expect()
        diagnosis.take(weights(step, math.nan if step == 3 else 1.0))
    diagnosis.end()
    assert diagnosis.findings == []
    assert [finding.since for finding in findings_file.read(tmp_path).findings] == [3]


@pytest.mark.parametrize("stop_on", ["error", "warning", None])
def test_a_loop_is_told_to_stop(tmp_path, stop_on, capsys):
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[], stop_on=stop_on)
    for step in range(1, 4):
        value = 1.0 if step < 3 else math.nan
        monitor.record(variables={"a": np.array([value])}, gradients={"a": np.array([value])})
    monitor.close()
    assert monitor.should_stop is (stop_on is not None)
    assert capsys.readouterr().out.count("gradwatch · error: NaN in step 3") == 1


def test_a_loop_can_say_what_its_steps_are_given(tmp_path):
    kept: list[gradwatch.Reading] = []

    class Keep(gradwatch.Sink):
        def write(self, reading: gradwatch.Reading) -> None:
            kept.append(reading)

    x, y = np.arange(6.0).reshape(2, 3), np.array([1, 4])
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[Keep()], watch=gradwatch.gradients())
    monitor.record(gradients={"a": np.ones(2)}, loss=0.5, inputs={"image": x}, targets=y)
    monitor.close()
    [told] = kept
    for site, truth in ((Site(Kind.INPUT, "input/image"), x), (Site(Kind.TARGET, "target"), y)):
        row = told.summary[told.position[site]]
        assert (row.count, row.sum, row.min, row.max) == (
            truth.size, truth.sum(), truth.min(), truth.max()
        )  # fmt: skip
    assert told.losses() == {"loss": 0.5}
