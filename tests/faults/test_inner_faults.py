"""An exception at any internal call, one at a time: training ends, and with the same weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import SOURCES
from tests.faults.nursery import ROOT
from tests.variants import rarely

CLOSING = "The record is not complete"
# On JAX each trial compiles; what lies behind the capture is the same on all of them.
OWN_OF_KERAS = "capture,record"


@pytest.mark.parametrize(
    ("training", "backend", "few", "many", "parts"),
    [
        ("numpy_loop", "torch", 12, 0, ""),
        ("torch_loop", "torch", 4, 0, ""),
        ("keras_fit", "torch", 4, 0, ""),
        *rarely(
            ("torch_seen", "torch", 4, 0, "capture,record"),
            ("keras_fit", "jax", 2, 150, OWN_OF_KERAS),
        ),
    ],
)
def test_no_fault_of_ours_stops_training_or_changes_it(
    tmp_path, count, training, backend, few, many, parts
):
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.injecting", training, str(tmp_path),
         str(count(few, many)), "5", parts],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([SOURCES, ROOT]),
            "KERAS_BACKEND": backend,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    about, *outcomes = map(json.loads, filter(None, done.stdout.splitlines()))
    print(f"{training} on {backend}: {len(outcomes)} faults in {about['places']} functions")
    assert about["places"] > 100
    assert len(outcomes) >= min(about["places"], few)
    assert sum(not each["reached"] for each in outcomes) <= len(outcomes) // 5
    for outcome in outcomes:
        assert "raised" not in outcome, outcome
        assert outcome["same"], outcome
        assert outcome["deaths"] == [], outcome
        warnings = [text for text in outcome["said"] if not text.startswith(CLOSING)]
        assert len(warnings) <= 1, outcome
        assert len(outcome["said"]) - len(warnings) <= 1, outcome
