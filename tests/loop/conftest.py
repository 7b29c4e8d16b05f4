"""Setting up the tests of loops; one process imports all frameworks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before TensorFlow is imported: it reads this once.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest

import gradwatch
from tests.loop.support import Keep


@pytest.fixture
def make_monitor(tmp_path: Path) -> Callable[..., tuple[gradwatch.Monitor, Keep]]:
    """Makes a monitor with a run directory of its own, and the sink that keeps its readings."""

    def make(**arguments: Any) -> tuple[gradwatch.Monitor, Keep]:
        keep = Keep()
        sinks = [keep, *arguments.pop("sinks", [])]
        options = {"every": 1} | arguments
        return gradwatch.Monitor(tmp_path / "run", sinks=sinks, **options), keep

    return make
