"""Input/output errors, and the run's directory deleted, at each of the first writes.

A run of 540 writes meets its fault at every 50th of the first 500; fifty runs, each beginning
one write later, thereby have one at each.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

import gradwatch
from tests.faults import truth
from tests.variants import rarely

SEED, APART, FIRST = 9, 50, 500


@pytest.mark.parametrize(
    "fault",
    [
        "EIO",
        *rarely("deleted", "EROFS", "EACCES"),
    ],
)
def test_a_fault_at_each_of_the_first_writes_costs_only_what_is_counted(
    nursery, tmp_path, count, fault
):
    phases = range(0, APART, count(50, 1))
    lost = 0
    for phase in phases:
        place = tmp_path / str(phase)
        faults = list(range(1 + phase, FIRST + 1, APART))
        output = nursery.run("programs.train_on_a_failing_disk", place, SEED, fault, faults)
        told = json.loads(output.splitlines()[-1])
        assert told["faults"] == len(faults), output
        assert len([m for m in told["said"] if "record is not complete" not in m]) <= 1, told
        with gradwatch.open(place) as run:
            steps = truth.steps_in(run, SEED)
            if fault != "deleted":
                assert not run.damage, run.damage
                rows = len(steps) * len(truth.PATHS)
                assert rows + run.lost_rows == told["steps"] * len(truth.PATHS), (phase, told)
                assert run.lost_rows == told["lost"], (phase, told)
                lost += run.lost_rows
            # Whatever was, at the end all is recorded again.
            assert steps[-10:] == list(range(told["steps"] - 9, told["steps"] + 1))
    print(f"{fault}: {len(phases) * len(faults)} faults, {lost} rows lost and counted")


def test_a_directory_that_may_not_be_written_to_is_said_once(nursery):
    """Real permissions, which do not bind root: so as somebody else."""
    if os.getuid() != 0:
        pytest.skip("needs root, to become somebody else")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        Path(folder).chmod(0o755)
        output = nursery.run("programs.train_without_permission", place, SEED)
    assert output.count("GradwatchWarning") == 1, output
    assert "Permission denied" in output
