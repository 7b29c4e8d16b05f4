"""Trainings of two real processes, each run once for all tests that look at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.full_disk import full_disk
from tests.distributed.launching import Processes, environment, once

collect_ignore = ["train.py", "unlike.py"]  # Programs, not modules.
PROGRAM = Path(__file__).with_name("train.py")
SCENARIOS = ("truth", "collectives", "trouble", "failing", "budget", "others")


@pytest.fixture(scope="session")
def out(trained):
    """Where all that ends well has left its results: one start of the processes for all of it."""
    return trained(*SCENARIOS)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Runs scenarios of train.py, or of another program, once."""

    def run(*scenarios, ends_well=True, ranks=2):
        def launch(out):
            # They find each other through a file in this folder.
            programs = [[PROGRAM, out, rank, ranks, *scenarios] for rank in range(ranks)]
            everywhere = [environment()] * ranks
            with full_disk(out), Processes(out, programs, everywhere) as processes:
                codes = processes.wait_for_all()
                assert not ends_well or codes == [0] * ranks, processes.heard()

        return once(tmp_path_factory, f"torch-{'-'.join(scenarios)}", launch)

    return run
