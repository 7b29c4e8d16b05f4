"""Trainings of two real workers, each run once for all tests that look at it."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwatch

collect_ignore = ["train.py"]  # A program, not a module.
PROGRAM = Path(__file__).with_name("train.py")
PLACES = [str(Path(gradwatch.__file__).parent.parent), str(Path(__file__).parents[3])]
WORKERS = 2
PATIENCE = 200
"""Seconds after which a training counts as hanging."""


SCENARIOS = ("truth", "trouble", "refused", "killed")


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the workers have left their results; once, also where tests are spread."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    out = base / "tensorflow-workers"
    out.mkdir(exist_ok=True)
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "done").exists():
            launch(out)
            (out / "done").touch()
    return out


@pytest.fixture(scope="session")
def results(out: Path) -> Callable[[str], list[Any]]:
    """What each worker has kept of a scenario."""

    def of(scenario: str) -> list[Any]:
        files = [out / f"{scenario}-{rank}.pickle" for rank in range(WORKERS)]
        return [pickle.loads(file.read_bytes()) for file in files]

    return of


def launch(out: Path) -> None:
    """Run both workers until the second kills itself, which is the last it does."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]
    processes = []
    for rank in range(WORKERS):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        settings = {
            "TF_CONFIG": json.dumps(task),
            "KERAS_BACKEND": "tensorflow",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # Which sums oneDNN takes in which order depends on the shapes.
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "PYTHONPATH": os.pathsep.join(PLACES),
        }
        with (out / f"said-{rank}.txt").open("w") as said:
            command = [sys.executable, str(PROGRAM), str(out), *SCENARIOS]
            env = {**os.environ, **settings}
            processes.append(
                subprocess.Popen(command, env=env, stdout=said, stderr=subprocess.STDOUT)
            )
    try:
        code = processes[1].wait(PATIENCE)
        # The first one waits for it: TensorFlow takes minutes to give up.
        processes[0].terminate()
        processes[0].wait(15)
    except subprocess.TimeoutExpired:
        if processes[1].poll() is None:
            pytest.fail(f"no end after {PATIENCE} seconds: training hangs\n{heard(out)}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert code == -signal.SIGKILL, heard(out)


def heard(out: Path) -> str:
    return "\n".join(file.read_text()[-5000:] for file in sorted(out.glob("said-*.txt")))


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
