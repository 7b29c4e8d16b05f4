"""Tests that need two devices; `test_on_two_devices.py` runs them in a process that has them.

GRADWATCH_TWO_DEVICES=1 KERAS_BACKEND=tensorflow python -m pytest <this folder>
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwatch
from gradwatch.sinks import RunInfo

FLAG = "GRADWATCH_TWO_DEVICES"
IS_HERE = bool(os.environ.get(FLAG))
collect_ignore_glob = [] if IS_HERE else ["test_*.py"]

if IS_HERE:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Which sums oneDNN takes in which order depends on the shapes.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    import tensorflow as tf

    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)
    tf.get_logger().setLevel("ERROR")


def pytest_configure(config: pytest.Config) -> None:
    # NumPy says this of Keras's variables, in Keras's own `convert_to_numpy`.
    config.addinivalue_line(
        "filterwarnings",
        "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",
    )


class Keep(gradwatch.Sink):
    """Keeps what was measured: readings of the whole, and those of single replicas."""

    def __init__(self) -> None:
        self.every: list[gradwatch.Reading] = []
        self.run: RunInfo | None = None

    def open(self, run: RunInfo) -> None:
        self.run = run

    def write(self, reading: gradwatch.Reading) -> None:
        if not reading.is_report:
            self.every.append(reading)

    @property
    def readings(self) -> list[gradwatch.Reading]:
        """Those that are no single replica's."""
        return [reading for reading in self.every if "replica_" not in reading.group]

    def of_replica(self, replica: int) -> list[gradwatch.Reading]:
        """Those of a single replica."""
        return [r for r in self.every if r.group.endswith(f"replica_{replica}")]


@pytest.fixture(scope="session")
def strategy() -> Any:
    """Two replicas in this process."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture
def make_monitor(tmp_path: Path) -> Callable[..., tuple[Any, Keep]]:
    """Makes a monitor that measures every step, and the sink that keeps its readings."""
    made = 0

    def make(**arguments: Any) -> tuple[Any, Keep]:
        nonlocal made
        made += 1
        keep = Keep()
        arguments.setdefault("every", 1)
        return gradwatch.Monitor(tmp_path / f"run{made}", sinks=[keep], **arguments), keep

    return make
