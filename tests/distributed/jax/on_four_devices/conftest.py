"""Tests that need four devices; `test_on_four_devices.py` runs them in a process that has them.

XLA_FLAGS=--xla_force_host_platform_device_count=4 KERAS_BACKEND=jax python -m pytest <this folder>
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwatch
from gradwatch.sinks import RunInfo

FLAG = "--xla_force_host_platform_device_count=4"
collect_ignore_glob = [] if FLAG in os.environ.get("XLA_FLAGS", "") else ["test_*.py"]


class Keep(gradwatch.Sink):
    """Keeps what was measured."""

    def __init__(self) -> None:
        self.readings: list[gradwatch.Reading] = []

    def open(self, run: RunInfo) -> None:
        pass

    def write(self, reading: gradwatch.Reading) -> None:
        if not reading.is_report:
            self.readings.append(reading)


@pytest.fixture
def make_monitor(tmp_path: Path) -> Callable[..., tuple[Any, Keep]]:
    """Makes a monitor that measures every step, and the sink that keeps its readings."""

    def make(**arguments: Any) -> tuple[Any, Keep]:
        keep = Keep()
        arguments.setdefault("every", 1)
        return gradwatch.Monitor(tmp_path / "run", sinks=[keep], **arguments), keep

    return make
