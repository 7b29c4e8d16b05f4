"""Trainings of two processes with `jax.distributed`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.distributed.full_disk import full_disk
from tests.distributed.launching import Processes, environment, kept_ports, once

ALONE = """
import sys, gradwatch
from tests.distributed.jax.models import MODELS
from tests.distributed.jax.training import fit
from tests.distributed.patience import be_patient
be_patient()
monitor = gradwatch.Monitor(sys.argv[1], every=1, sinks=[gradwatch.Store()])
fit(MODELS["batch_norm"](), [monitor])
"""


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the trainings of two processes, and of one on a single device."""

    def launch(folder: Path) -> None:
        with full_disk(folder), workers(folder, "all") as processes:
            assert processes.wait_for_all() == [0, 0], processes.heard()
        program = ["-c", ALONE, folder / "single"]
        with Processes(folder, [program], [environment(KERAS_BACKEND="jax")]) as alone:
            assert alone.wait_for_all() == [0], alone.heard()

    return once(tmp_path_factory, "jax-trained", launch)


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training whose second process was killed."""

    def launch(folder: Path) -> None:
        with workers(folder, "killed") as processes:
            # The first would wait for it, until JAX ends it a minute or two later.
            assert processes.wait(1) == -signal.SIGKILL, processes.heard()

    return once(tmp_path_factory, "jax-killed", launch)


@contextmanager
def workers(folder: Path, what: str) -> Iterator[Processes]:
    """Both processes of a training."""
    with kept_ports(1) as (port,):
        worker = ["-m", "tests.distributed.jax.worker"]
        programs = [[*worker, rank, f"127.0.0.1:{port}", folder, what] for rank in range(2)]
        with Processes(folder, programs, [environment(KERAS_BACKEND="jax")] * 2) as processes:
            yield processes
