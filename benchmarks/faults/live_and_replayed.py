"""Whether the diagnosis during training and that of the recorded run find the same."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import gradwatch
from gradwatch.diagnosis import Finding, diagnose
from gradwatch.sinks import pipeline

from .program import Program
from .train import train_live


def differences(program: Program, **options: Any) -> list[str]:
    """Train a program with a monitor; the findings that are not the same afterwards."""
    # On a busy machine, closing the run takes longer than it may take a training.
    pipeline.CLOSING_TIME = 60.0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        monitor = gradwatch.Monitor(Path(folder, "run"), sinks=[gradwatch.Store()], **options)
        with redirect_stdout(StringIO()):  # Alarms are expected.
            train_live(program, 0, monitor)
        with gradwatch.open(monitor.directory) as run:
            replayed = diagnose(run).findings
    live, after = _lines(monitor.findings), _lines(replayed)
    return [f"live: {x}" for x in live - after] + [f"replayed: {x}" for x in after - live]


def compare(programs: Sequence[Program], **options: Any) -> int:
    """Print what differs; returns of how many programs."""
    count = 0
    for program in programs:
        found = differences(program, **options)
        count += bool(found)
        print("DIFFERS" if found else "same   ", program.name, flush=True)
        for line in found:
            print(f"    {line}", file=sys.stderr, flush=True)
    print(f"{count} of {len(programs)} programs differ.")
    return count


def _lines(findings: Sequence[Finding]) -> set[str]:
    return {finding.to_json() for finding in findings}
