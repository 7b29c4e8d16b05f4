"""The health of a run: the same in every list and view, from the findings."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gradwatch
from gradwatch.diagnosis import Finding, Severity, findings_of, known_findings, replay
from gradwatch.read import Status
from gradwatch.view.data import ProgressReader, RunView, health_of, overview
from gradwatch.view.data.health import Condition, health
from tests.cli.support import invoke, strict

ERROR = Finding("a", Severity.ERROR, "It is broken.", 1, 2)
WARNING = Finding("b", Severity.WARNING, "It is odd.", 1, 2)
EXPLAINED = replace(WARNING, explained_by="a")


def record(directory: Path, values: list[float], first_step: int = 1, **options: object) -> None:
    monitor = gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()], **options)
    for step, value in enumerate(values, first_step):
        # The layer that comes first by its name is not the one that is NaN first.
        tensors = {"z/kernel": np.array([value, 1.0]), "a/kernel": np.array([value, 2.0])}
        monitor.record(variables=tensors, gradients=tensors, loss=value, step=step)
    monitor.close()


@pytest.fixture
def runs(tmp_path, capsys):
    record(tmp_path / "well", [1.0, 0.9, 0.8])
    record(tmp_path / "sick", [1.0, 0.9, math.nan, math.nan])
    record(tmp_path / "silent", [1.0, math.nan], diagnose=False)
    return tmp_path


@pytest.mark.parametrize(
    ("status", "is_crashed", "damage", "findings", "expected"),
    [
        (Status.FINISHED, False, 0, [], (Condition.OK, "")),
        (Status.FINISHED, False, 0, None, (Condition.NOT_DIAGNOSED, "")),
        (Status.EMPTY, False, 0, [], (Condition.NOT_DIAGNOSED, "")),
        (Status.LIVE, False, 0, [], (Condition.RUNNING, "")),
        (Status.LIVE, False, 0, [WARNING], (Condition.WARNING, "It is odd.")),
        (Status.FINISHED, False, 0, [WARNING, ERROR], (Condition.ERROR, "It is broken.")),
        (Status.FINISHED, False, 0, [EXPLAINED], (Condition.OK, "")),
        (Status.CRASHED, True, 0, [WARNING], (Condition.STOPPED, "It is odd.")),
        (Status.CRASHED, True, 0, [ERROR], (Condition.ERROR, "It is broken.")),
        (Status.DAMAGED, False, 2, [], (Condition.DAMAGED, "2 places cannot be read")),
    ],
)
def test_the_worst_of_all_counts(status, is_crashed, damage, findings, expected):
    found = health(status, is_crashed, damage, findings)
    assert (found.condition, found.headline) == expected


def test_every_view_gives_the_same_health(runs):
    listed = {e["name"]: e["health"] for e in strict(invoke("ls", runs, "--json").stdout)}
    for name in ("well", "sick", "silent"):
        with gradwatch.open(runs / name) as run:
            findings = findings_of(run)
            truth = health_of(run, findings).facts()
            assert ProgressReader(run).read().health(findings).facts() == truth
            assert overview(RunView(run), findings)["health"] == truth
        assert listed[name] == truth
        shown = strict(invoke("show", runs / name, "--json").stdout)
        assert shown["health"] | truth == shown["health"]
        assert strict(invoke("top", runs / name, "--json").stdout)["health"] == truth
        report = strict(invoke("report", runs / name, "-o", "-", "--format", "json").stdout)
        assert report["health"] == truth
    assert [listed[name]["condition"] for name in ("well", "sick", "silent")] == [
        "ok", "error", "error"
    ]  # fmt: skip


def test_show_names_the_first_nan_that_the_diagnosis_names(runs):
    text = invoke("show", runs / "sick").stdout
    assert "error       NaN in step 3, first in the loss. (since step 3)" in text
    # Not the first by its name.
    assert "NaN or Inf  10 elements of 5 sites, steps 3 to 4" in text
    assert "findings    none" in invoke("show", runs / "well").stdout


def test_a_list_says_what_is_wrong_with_a_run(runs):
    lines = invoke("ls", runs).stdout.splitlines()
    sick = next(line for line in lines if line.startswith("sick"))
    assert "finished  error" in sick
    assert sick.endswith("NaN in step 3, first in the loss.")
    page = gradwatch.open(runs)._repr_html_()
    assert "error</span> NaN in step 3, first in the loss." in page
    assert page.count("color:#23945a") == 1  # of the one that is well


def test_a_run_that_was_diagnosed_while_it_was_recorded_is_not_diagnosed_again(runs, monkeypatch):
    def fail(*args, **options):
        raise AssertionError("It was diagnosed again.")

    monkeypatch.setattr(replay, "diagnose", fail)
    for name in ("well", "sick"):
        with gradwatch.open(runs / name) as run:
            known = known_findings(run, max_rows=0)
            assert known.is_complete
            assert [f.rule for f in known.findings] == ["non-finite"] * (name == "sick")
    with gradwatch.open(runs / "silent") as run:
        assert known_findings(run, max_rows=0) == (None, False, None)


def test_findings_of_an_earlier_part_of_a_run_are_not_taken_for_all(tmp_path, capsys):
    record(tmp_path / "run", [1.0, 0.9])
    record(tmp_path / "run", [math.nan, math.nan], first_step=3, diagnose=False)
    with gradwatch.open(tmp_path / "run") as run:
        assert not known_findings(run, max_rows=0).is_complete
        assert [finding.rule for finding in findings_of(run)] == ["non-finite"]


def test_a_diverged_run_is_an_error_counted_alike_by_the_console_and_by_diagnose(tmp_path, capsys):
    with gradwatch.Monitor(tmp_path, every=1) as monitor:
        for step in range(1, 31):
            before = {name: np.full((2, 2), 2.0**step) for name in ("a/kernel", "b/kernel")}
            after = {name: 2.0 * value for name, value in before.items()}
            monitor.record(
                variables=after, previous=before, gradients=before, loss=1.5**step, step=step
            )
    assert "steps measured, 1 error" in capsys.readouterr().out.splitlines()[-1]
    with gradwatch.open(tmp_path) as run:
        assert health_of(run, findings_of(run)).condition is Condition.ERROR
        replayed = replay.diagnose(run).findings
        assert [(f.rule, f.severity) for f in replayed] == [
            (f.rule, f.severity) for f in findings_of(run)
        ]
    assert ": 1 error (" in invoke("diagnose", tmp_path, code=2).stdout
