"""Trainings of two real processes, each run once for all tests that look at it."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import gradwatch

PROGRAM = Path(__file__).with_name("train.py")
SOURCES = str(Path(gradwatch.__file__).parent.parent)
PATIENCE = 100
"""Seconds after which a training counts as hanging."""


SCENARIOS = ("truth", "collectives", "trouble", "failing", "budget", "others")


@pytest.fixture(scope="session")
def out(trained):
    """Where all that ends well has left its results: one start of the processes for all of it."""
    return trained(*SCENARIOS)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Runs scenarios of train.py once, also where tests are spread over workers."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def run(*scenarios, ends_well=True, ranks=2):
        out = base / f"torch-{'-'.join(scenarios)}"
        out.mkdir(exist_ok=True)
        with (out / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (out / "done").exists():
                launch(out, scenarios, ends_well, ranks)
                (out / "done").touch()
        return out

    return run


def launch(out, scenarios, ends_well, ranks):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(out), *scenarios],
            env={**os.environ, **common, "PYTHONPATH": SOURCES, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    except subprocess.TimeoutExpired:
        pytest.fail(f"{scenarios} hangs: no end after {PATIENCE} seconds")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    codes = [process.returncode for process in processes]
    assert not ends_well or codes == [0] * ranks, "\n".join(said)
    return codes
