"""Runs the tests of `on_four_devices` in a process that has four devices."""

import subprocess
import sys
from pathlib import Path

from tests.distributed.jax.processes import ROOT, environment

FOLDER = Path(__file__).parent / "on_four_devices"


def test_all_that_is_promised_of_several_devices_holds_on_four():
    flags = "--xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", FOLDER],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment(XLA_FLAGS=flags),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
