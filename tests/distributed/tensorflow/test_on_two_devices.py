"""Runs the tests of `on_two_devices` in a process whose CPU is split into two devices."""

from __future__ import annotations

from pathlib import Path

from tests.distributed.launching import run_tests

FOLDER = Path(__file__).with_name("on_two_devices")


def test_the_tests_that_need_two_devices_pass(tmp_path: Path) -> None:
    run_tests(FOLDER, tmp_path, KERAS_BACKEND="tensorflow", GRADWATCH_TWO_DEVICES="1")
