"""The fault benchmark, live and replayed: what is found during training is found afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.faults.catalog import catalog  # noqa: E402


def one_of_each_kind() -> list[str]:
    """The first program of each kind of fault."""
    chosen: dict[str, str] = {}
    for program in catalog().values():
        if program.fault:
            chosen.setdefault(program.fault.kind, program.name)
    return list(chosen.values())


def compare(*arguments: str) -> None:
    """Run the comparison in a process of its own: Keras has one backend a process."""
    command = [sys.executable, "-m", "benchmarks.faults", *arguments]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_programs_of_some_kinds_of_fault_are_diagnosed_alike_live_and_replayed():
    compare("--half", "tuning", "live", *one_of_each_kind()[::4], "--every", "7")


@pytest.mark.slow
@pytest.mark.parametrize(("half", "every"), [("tuning", 7), ("test", 1)])
def test_a_program_of_each_kind_of_fault_is_diagnosed_alike_live_and_replayed(half, every):
    compare("--half", half, "live", *one_of_each_kind(), "--every", str(every))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax", "tensorflow"])
@pytest.mark.parametrize("half", ["tuning", "test"])
def test_all_programs_are_diagnosed_alike_live_and_replayed(half, backend):
    compare("--half", half, "live", "--backend", backend)
