"""Runs the tests of `on_two_devices` in a process whose CPU is split into two devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gradwatch

FLAG = "GRADWATCH_TWO_DEVICES"
FOLDER = Path(__file__).with_name("on_two_devices")
ROOT = Path(__file__).parents[3]
PATIENCE = 300
"""Seconds after which the tests count as hanging."""


def test_the_tests_that_need_two_devices_pass() -> None:
    sources = str(Path(gradwatch.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", str(FOLDER)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": sources, "KERAS_BACKEND": "tensorflow", FLAG: "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
