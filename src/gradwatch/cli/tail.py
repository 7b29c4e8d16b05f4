"""`gradwatch tail`: follow a run that is being written."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, FOUND, asking
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import open_or_wait
from gradwatch.cli.text import compact, echo, printable
from gradwatch.core import Reading, finite, l2
from gradwatch.read import Run, Status
from gradwatch.view.glance import gradient_kind

_HEADER = f"{'step':>9}  {'epoch':>5}  {'loss':>9}  {'grad L2':>9}  {'update/w':>9}  {'NaN/Inf':>7}"


@click.command(short_help="Follow a run that is being written.")
@options.run_argument()
@click.option("-n", "--lines", default=10, show_default=True, help="How many past steps to show.")
@click.option("--wait", is_flag=True, help="Wait for a run that has not begun.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.05),
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@options.as_json
def tail(run: Path, lines: int, wait: bool, interval: float, as_json: bool) -> int:
    """Follow RUN: a line for each measured step, until the run ends.

    update/w is the largest L2 norm of a variable's update relative to the variable's,
    and whose it is. With --json, one JSON object a line. The exit code is 1 if the
    training ended without closing its record, or the run is damaged.
    """
    with open_or_wait(run, wait, interval) as opened:
        if not as_json:
            echo(_HEADER)
        for step in _steps(opened, lines, wait, interval):
            facts = at_step(opened, step)
            echo(dumps(facts) if as_json else _line(facts))
        status = opened.status
    echo(f"The run is {status}.", err=True)
    return FINE if status in (Status.FINISHED, Status.EMPTY) else FOUND


def at_step(run: Run, step: int) -> dict[str, Any]:
    """What was measured at a step, in a few numbers."""
    with asking():
        readings = run.at(step)
    whole = [reading for reading in readings if reading.micro_batch is None] or readings
    losses = {path: value for reading in whole for path, value in reading.losses().items()}
    ratios = {
        path: ratio
        for reading in whole
        for path, ratio in reading.update_ratios().items()
        if not math.isnan(ratio)
    }
    largest = max(ratios, key=lambda path: ratios[path], default=None)
    return {
        "step": step,
        "epoch": max((reading.epoch for reading in whole), default=None),
        "time": max((reading.time for reading in whole), default=None),
        "losses": losses,
        "gradient_l2": _gradient(whole),
        "largest_update_ratio": None if largest is None else ratios[largest],
        "largest_update_path": largest,
        "nonfinite": int(sum(float((r.summary.count - finite(r.summary)).sum()) for r in whole)),
    }


def _gradient(readings: list[Reading]) -> float | None:
    """The L2 norm of all gradients of the step together."""
    kind = gradient_kind(site for reading in readings for site in reading.sites)
    if kind is None:
        return None
    totals = [total for reading in readings if (total := reading.total(kind)) is not None]
    return math.hypot(*(float(l2(total)) for total in totals))


def _line(facts: dict[str, Any]) -> str:
    losses = facts["losses"]
    loss = compact(next(iter(losses.values()), None))
    cells = (
        f"{facts['step']:>9}",
        f"{facts['epoch'] or '-':>5}",
        f"{loss:>9}",
        f"{compact(facts['gradient_l2']):>9}",
        f"{compact(facts['largest_update_ratio']):>9}",
        f"{facts['nonfinite']:>7}",
    )
    more = [f"{printable(path)} {compact(value)}" for path, value in list(losses.items())[1:]]
    if facts["largest_update_path"] is not None:
        more.insert(0, printable(facts["largest_update_path"]))
    return "  ".join((*cells, *more))


def _steps(run: Run, lines: int, wait: bool, interval: float) -> Iterator[int]:
    """Each step once it is complete, the last few of the past first.

    The newest step may still grow, by its loss, say. So it is told when a later one
    has come, when nothing has for a while, or when the run has ended.
    """
    known = run.steps()
    last = int(known[-lines - 1]) if len(known) > lines else None
    attempts = _attempts(run)
    is_over = False
    while True:
        steps = [s for s in run.steps().tolist() if last is None or s > last]
        is_over = run.status is not Status.LIVE and not (wait and run.status is Status.EMPTY)
        ready = steps if is_over else steps[:-1]
        for step in ready:
            yield step
            last = step
        if is_over:
            return
        time.sleep(interval)
        changed = run.refresh()
        if not changed and len(steps) > len(ready):
            yield steps[-1]
            last = steps[-1]
        now = _attempts(run)
        for first_step in now[len(attempts) :]:
            # Training has gone back: its steps come again.
            if last is not None and first_step <= last:
                last = first_step - 1
        attempts = now


def _attempts(run: Run) -> list[int]:
    """The first steps of all attempts that have recorded anything, oldest first."""
    rows = run.sql("SELECT first_step FROM attempts ORDER BY time, writer, attempt").fetchall()
    return [int(row[0]) for row in rows]
