"""`gradwatch diagnose`: a report, strict JSON, and an exit code to build upon."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import gradwatch
from gradwatch.cli import diagnosis_report
from gradwatch.diagnosis import Severity
from gradwatch.diagnosis.findings_file import FindingsFile
from tests.cli.support import invoke, strict


def record(directory: Path, values: list[float], **options: object) -> None:
    """A run of one weight whose values are given; NaN is sick, all else is too short to say."""
    rng = np.random.default_rng(0)
    monitor = gradwatch.Monitor(
        directory, every=1, sinks=[gradwatch.Store()], watch=gradwatch.weights(), **options
    )
    for place, value in enumerate(values):
        monitor.record(variables={"a": np.array([value, rng.normal()])}, loss=1.0 / (1 + place))
    monitor.close()


@pytest.fixture
def sick(tmp_path, capsys):
    record(tmp_path / "sick", [1.0, 2.0, math.nan])
    return tmp_path / "sick"


def test_a_healthy_run_ends_with_0(tmp_path):
    record(tmp_path / "well", [1.0, 2.0, 3.0])
    assert invoke("diagnose", tmp_path / "well", "--strict").output == (
        "well: healthy (3 measured steps)\n"
    )


def test_an_error_ends_with_2_and_says_what_to_do(sick):
    report = invoke("diagnose", sick, code=2).output
    first, _, title = report.splitlines()[:3]
    assert first == "sick: 1 error (3 measured steps)"
    assert title == "error: NaN in step 3, first in weight a. (since step 3)"
    assert "lower the learning rate" in report


def test_json_is_strict_and_holds_the_evidence(sick):
    facts = strict(invoke("diagnose", sick, "--json", code=2).output)
    assert (facts["run"], facts["steps"], facts["verdict"]) == ("sick", 3, "errors")
    [finding] = facts["findings"]
    assert (finding["rule"], finding["since"], finding["sites"]) == (
        "non-finite", 3, [["weight", "a"]]
    )  # fmt: skip
    assert finding["evidence"]["NaN"] == 1
    assert strict(invoke("rules", "non-finite", "--json").output) == [facts["rules"]["non-finite"]]


def test_what_was_found_while_training_is_reported_too(tmp_path):
    record(tmp_path / "run", [1.0, 2.0, 3.0], diagnose=False)
    finding = gradwatch.Finding(
        "overfitting", Severity.WARNING, "Validation loss rises.", since=2, detected=3
    )
    file = FindingsFile(tmp_path / "run", "1")
    file.found(finding)
    file.close()
    assert "run: 1 warning" in invoke("diagnose", tmp_path / "run").output
    invoke("diagnose", tmp_path / "run", "--strict", code=1)


def test_a_rule_that_was_silenced_stays_silent(tmp_path):
    silence = gradwatch.silence("non-finite", because="a test of NaN")
    record(tmp_path / "run", [1.0, math.nan, math.nan], diagnose=[silence])
    assert "healthy" in invoke("diagnose", tmp_path / "run").output


def test_the_rules_and_thresholds_of_the_training_count_afterwards_too(tmp_path):
    options = {"diagnose": ["negative-loss", {"negative-loss": {"margin": 5.0}}]}
    for name, own in (("own", options), ("all", {})):
        monitor = gradwatch.Monitor(tmp_path / name, every=1, sinks=[gradwatch.Store()], **own)
        monitor.record(gradients={"a": np.ones(2)}, loss=math.nan)
        monitor.close()
        # As if it had been killed.
        (tmp_path / name / "findings.jsonl").unlink()
    assert "healthy" in invoke("diagnose", tmp_path / "own").output
    assert "NaN" in invoke("diagnose", tmp_path / "all", code=2).output


def test_a_run_that_is_not_there_is_a_mistake_in_the_command(tmp_path):
    assert "gradwatch:" in invoke("diagnose", tmp_path / "nothing", code=2).stderr


def test_what_is_explained_does_not_count_for_the_verdict():
    cause = gradwatch.Finding("dead-units", Severity.WARNING, "Dead.", 1, 2)
    effect = gradwatch.Finding(
        "zero-gradients", Severity.ERROR, "Zero.", 1, 2, explained_by="dead-units"
    )
    assert diagnosis_report.exit_code([cause, effect], strict=False) == diagnosis_report.HEALTHY
    assert diagnosis_report.exit_code([cause, effect], strict=True) == diagnosis_report.WARNINGS
