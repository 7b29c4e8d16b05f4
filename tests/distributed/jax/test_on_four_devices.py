"""Runs the tests of `on_four_devices` in a process that has four devices."""

from pathlib import Path

from tests.distributed.launching import run_tests, xla_flags

FOLDER = Path(__file__).parent / "on_four_devices"


def test_all_that_is_promised_of_several_devices_holds_on_four(tmp_path):
    run_tests(FOLDER, tmp_path, KERAS_BACKEND="jax", XLA_FLAGS=xla_flags(devices=4))
