"""Trainings of two real workers, each run once for all tests that look at it."""

from __future__ import annotations

import json
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.full_disk import full_disk
from tests.distributed.launching import Processes, environment, kept_ports, once

collect_ignore = ["train.py"]  # A program, not a module.
PROGRAM = Path(__file__).with_name("train.py")
WORKERS = 2
SCENARIOS = ("truth", "trouble", "budget", "refused", "killed")


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the workers have left their results."""
    return once(tmp_path_factory, "tensorflow-workers", launch)


@pytest.fixture(scope="session")
def results(out: Path) -> Callable[[str], list[Any]]:
    """What each worker has kept of a scenario."""

    def of(scenario: str) -> list[Any]:
        files = [out / f"{scenario}-{rank}.pickle" for rank in range(WORKERS)]
        return [pickle.loads(file.read_bytes()) for file in files]

    return of


def launch(out: Path) -> None:
    """Run both workers until the second kills itself, which is the last it does."""
    with kept_ports(WORKERS) as ports, full_disk(out):
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        tasks = [{"type": "worker", "index": rank} for rank in range(WORKERS)]
        settings = [
            environment(
                KERAS_BACKEND="tensorflow",
                TF_CONFIG=json.dumps({"cluster": cluster, "task": task}),
            )
            for task in tasks
        ]
        with Processes(out, [[PROGRAM, out, *SCENARIOS]] * WORKERS, settings) as workers:
            # The first one waits for it: TensorFlow takes minutes to give up.
            assert workers.wait(1) == -signal.SIGKILL, workers.heard()
