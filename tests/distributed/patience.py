"""Time for what is to be written: a busy machine takes longer than users may be made to wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gradwatch.sinks import pipeline
from gradwatch.util import exits

PATIENCE = 600.0


def be_patient() -> None:
    """Have monitors and the end of this process wait for as long as it takes, not two seconds."""
    exits.PATIENCE = PATIENCE
    pipeline.CLOSING_TIME = PATIENCE


def until(is_so: Callable[[], object]) -> None:
    """Wait for what another thread or process does."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"it did not come to be in {PATIENCE:g} s"
        time.sleep(0.002)


def until_written(monitor: Any) -> None:
    """Wait until all that a monitor has measured by now is where it belongs."""
    until(lambda: monitor._session.is_idle)
