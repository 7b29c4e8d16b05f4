"""What tests of several parts share: readings of real arrays, a full disk, fresh processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwatch
from gradwatch.measure.numpy import count_cells, summarize
from gradwatch.reading import Reading
from gradwatch.sinks import RunInfo
from gradwatch.sites import Site
from gradwatch.summary import Summary

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in the background of a shell: the processes that tests start would not know Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SOURCES = str(Path(gradwatch.__file__).parent.parent)


def _make_reading(
    step: int,
    arrays: Mapping[Site, Any],
    *,
    histograms: bool = False,
    epoch: int = 1,
    time: float = 1_700_000_000.25,
) -> Reading:
    with np.errstate(over="ignore"):  # the squares of huge elements
        rows = np.array([summarize(array) for array in arrays.values()]).reshape(-1, 10)
    cells = {i: count_cells(a) for i, a in enumerate(arrays.values())} if histograms else {}
    return Reading(step, epoch, time, list(arrays), Summary.unpack(rows), cells)


@pytest.fixture(scope="session")
def make_reading() -> Callable[..., Reading]:
    """`make_reading(step, {Site: array}, histograms=False)`."""
    return _make_reading


@pytest.fixture
def run(tmp_path: Path) -> RunInfo:
    return RunInfo(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, timeout=20)
    except OSError as fault:
        pytest.skip(f"there is no mount here: {fault}")
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=20)


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python in a fresh process, with a time limit: it may fork at will."""

    def run_it(code: str, *args: object, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, args)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": SOURCES},
        )

    return run_it
