"""A run with files of every kind."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

import gradwatch
from tests.maintain.damaged import ENVIRONMENT
from tests.store.recorded import Recorder


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A run with segments of all tables, manifests, a journal that nobody seals, run.json."""
    place = tmp_path_factory.mktemp("runs") / "a"
    with gradwatch.Monitor(place, every=1, sinks=[]) as monitor:
        monitor.record(gradients={"a": np.ones(2)})
    Recorder(place, rows_a_journal=100).write(range(1, 21), histograms=True).close()
    # Written by a process that is gone, so that it may be repaired.
    code = (
        "import os, pathlib, sys\n"
        "from tests.store.recorded import Recorder\n"
        "recorder = Recorder(pathlib.Path(sys.argv[1]), rows_a_journal=10**6, first_step=21)\n"
        "recorder.write(range(21, 31))\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(place)], check=True, env=ENVIRONMENT)
    run = gradwatch.open(place)
    assert not run.damage
    assert run.last_step == 30
    assert run.status == "crashed"
    return place


@pytest.fixture
def place(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "a")
