"""Runs the tests of `on_four_devices` in a process that has four devices."""

from pathlib import Path

from tests.distributed.launching import run_tests

FOLDER = Path(__file__).parent / "on_four_devices"


def test_all_that_is_promised_of_several_devices_holds_on_four(tmp_path):
    flags = "--xla_force_host_platform_device_count=4"
    run_tests(FOLDER, tmp_path, KERAS_BACKEND="jax", XLA_FLAGS=flags)
