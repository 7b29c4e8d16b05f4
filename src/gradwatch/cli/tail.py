"""`gradwatch tail`: follow a run while it is written."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK, user_errors
from gradwatch.cli.opening import open_or_wait
from gradwatch.cli.output import echo
from gradwatch.core import STATISTICS, Reading, finite, merge, shown
from gradwatch.read import Run, Status
from gradwatch.util import compact, printable
from gradwatch.view.data import gradient_kind, to_json

_LINE = "{:>9}  {:>5}  {:>9}  {:>9}  {:>9}  {:>7}"
_HEADER = ("step", "epoch", "loss", "grad L2", "update/w", "NaN/Inf")


@click.command(short_help="Follow a run while it is written.")
@options.run_argument()
@click.option("-n", "--lines", default=10, show_default=True, help="How many past steps to print.")
@options.wait
@options.interval("--interval", 0.5)
@options.as_json
def tail(run: Path, lines: int, wait: bool, interval: float, as_json: bool) -> int:
    """Print a line for each measured step of RUN, until the run ends.

    update/w is the largest ratio of the L2 norm of a variable's update to the norm of the
    variable; the name of the variable follows. With --json, each line is a JSON object.

    The exit code is 1 if the training ended without closing the run, or the run is damaged.
    """
    with open_or_wait(run, wait, interval) as opened:
        if not as_json:
            echo(_LINE.format(*_HEADER))
        for step in _steps(opened, lines, wait, interval):
            facts = _step_facts(opened, step)
            echo(to_json(facts) if as_json else _line(facts))
        status = opened.status
    echo(f"The run is {status}.", err=True)
    return OK if status in (Status.FINISHED, Status.EMPTY) else FOUND


def _step_facts(run: Run, step: int) -> dict[str, Any]:
    with user_errors():
        readings = run.at(step)
    whole = [reading for reading in readings if reading.micro_batch is None] or readings
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
        "losses": {path: x for reading in whole for path, x in reading.losses().items()},
        "gradient_l2": _gradient_norm(whole),
        "largest_update_ratio": None if largest is None else ratios[largest],
        "largest_update_path": largest,
        "nonfinite": int(sum(float((r.summary.count - finite(r.summary)).sum()) for r in whole)),
    }


def _gradient_norm(readings: list[Reading]) -> float | None:
    """The L2 norm of all gradients of the step together."""
    kind = gradient_kind(site for reading in readings for site in reading.sites)
    if kind is None:
        return None
    totals = [total for reading in readings if (total := reading.total(kind)) is not None]
    return float(shown(STATISTICS["l2"], merge(totals)))


def _line(facts: dict[str, Any]) -> str:
    first, *others = facts["losses"].items() or [("", None)]
    numbers = (first[1], facts["gradient_l2"], facts["largest_update_ratio"])
    cells = (facts["step"], facts["epoch"] or "-", *map(compact, numbers), facts["nonfinite"])
    more = [f"{printable(path)} {compact(value)}" for path, value in others]
    if facts["largest_update_path"] is not None:
        more.insert(0, printable(facts["largest_update_path"]))
    return "  ".join((_LINE.format(*cells), *more))


def _steps(run: Run, lines: int, wait: bool, interval: float) -> Iterator[int]:
    """Each step once it is complete, beginning with the last few of the past.

    The newest step may still grow, for example by its loss. So it is yielded when a later
    one has come, when nothing has come for an interval, or when the run has ended.
    """
    known = run.measured_steps
    last = int(known[-lines - 1]) if len(known) > lines else None
    attempts = _attempts(run)
    while True:
        steps = [s for s in run.measured_steps.tolist() if last is None or s > last]
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
            # The training went back to an earlier step, so its steps come again.
            if last is not None and first_step <= last:
                last = first_step - 1
        attempts = now


def _attempts(run: Run) -> list[int]:
    """The first steps of all attempts that have recorded something, the oldest first."""
    rows = run.sql("SELECT first_step FROM attempts ORDER BY time, writer, attempt").fetchall()
    return [int(row[0]) for row in rows]
