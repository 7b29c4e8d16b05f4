"""The benchmark of strangers' programs: its labels and scores; two programs are trained."""

import math
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.strangers.catalog import HELD_OUT, TUNING, cases  # noqa: E402
from benchmarks.strangers.judging import confirm, summarise  # noqa: E402
from benchmarks.strangers.kinds import KINDS  # noqa: E402
from benchmarks.strangers.worker import run_case  # noqa: E402

pytestmark = pytest.mark.any_backend

HEALTHY, FAULTY = "torch_mlp/wine_and_blobs:sgd", "torch_mlp/wine_and_blobs:clip"


def line(name, score, *findings, mode="default"):
    said = [
        {"rule": rule, "severity": "warning", "step": step, "layer": "net/a", "title": rule}
        for rule, step in findings
    ]
    return {"name": name, "seed": 0, "mode": mode, "score": score, "findings": said,
            "verdict": None, "hidden": []}  # fmt: skip


def test_every_fault_has_a_kind_and_a_healthy_twin():
    known = cases()
    for case in known.values():
        assert (case.learns is None) == (case.fault is not None)
        if case.fault is not None:
            assert case.fault.kind in KINDS
            assert known[case.twin].learns is not None


def test_families_are_either_for_tuning_or_held_out():
    assert not set(TUNING) & set(HELD_OUT)
    assert {case.family for case in cases().values()} == {*TUNING, *HELD_OUT}


def test_labels_are_confirmed_by_outcomes_only():
    judged, dropped = confirm([line(HEALTHY, 0.9), line(FAULTY, 0.1)], cases())
    assert (len(judged), dropped) == (2, [])
    judged, dropped = confirm([line(HEALTHY, 0.9), line(FAULTY, 0.8)], cases())
    assert [each.case.name for each in judged] == [HEALTHY]
    judged, _ = confirm([line(HEALTHY, 0.2, mode="bare"), line(FAULTY, 0.1)], cases())
    assert judged == []
    judged, _ = confirm([line(HEALTHY, 0.9), line(FAULTY, math.nan)], cases())
    assert len(judged) == 2


def test_an_alarm_is_right_by_its_name_from_the_beginning_of_the_fault_on():
    name, twin = "keras_events/digits:units_die", "keras_events/digits:plain"
    early = [line(twin, 0.9), line(name, 0.0, ("dead-units", 3), ("loss-spike", 70))]
    assert summarise(confirm(early, cases())[0])["right"] == 0
    right = [line(twin, 0.9), line(name, 0.0, ("dead-units", 64))]
    numbers = summarise(confirm(right, cases())[0])
    assert (numbers["right"], numbers["steps"], numbers["healthy_alarms"]) == (1, 4, 0)


@pytest.mark.skipif(os.environ.get("KERAS_BACKEND", "torch") != "torch", reason="needs torch")
def test_programs_train_and_what_is_said_of_them_is_kept():
    pytest.importorskip("torch")
    healthy = run_case("torch_mlp/wine_and_blobs:sgd", 0, "every")
    faulty = run_case("keras_mlp/circles:one_unit_softmax", 0, "default")
    assert "error" not in healthy
    assert "error" not in faulty
    assert healthy["score"] > 0.6 > faulty["score"]
    assert "structural-mismatch" in [each["rule"] for each in faulty["findings"]]
