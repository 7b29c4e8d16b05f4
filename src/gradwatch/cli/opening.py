"""From what was named on the command line to a run."""

from __future__ import annotations

import time
from pathlib import Path

from gradwatch.cli.faults import Fault, asking
from gradwatch.cli.text import echo, printable
from gradwatch.read import Run, runs
from gradwatch.store.remote import as_remote

HOME = Path("runs")
"""Where monitors write to if not told otherwise; a run there can be named without it."""
_NAMED = 5


def place_of(path: Path) -> Path:
    """Where a run is: the path as given, or below `runs`.

    Raises:
        Fault: neither is there.
    """
    if not path.exists() and not path.is_absolute() and (HOME / path).exists():
        return HOME / path
    return path


def directory_of(path: Path) -> Path:
    """The same for what works on files: a URL has none of its own here.

    Raises:
        Fault: it is a URL.
    """
    if as_remote(path) is not None:
        raise Fault("This works on a run's directory on this machine. Received: a URL.")
    return place_of(path)


def open_run(path: Path) -> Run:
    """Open one run.

    Raises:
        Fault: there is none, or there are several.
    """
    place = place_of(path)
    with asking():
        found = runs.open(place)
    if isinstance(found, Run):
        return found
    if len(found) == 1:
        return found[found.names[0]]
    named = ", ".join(str(place / name) for name in found.names[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    raise Fault(f"{place} has {len(found)} runs; name one of them: {named}{more}.")


def open_or_wait(path: Path, wait: bool, every: float) -> Run:
    """Open one run; if told to wait for it, look every so many seconds until it has begun.

    Raises:
        Fault: there is none and it is not to be waited for, or there are several.
    """
    if wait and not runs.is_run(place_of(path)):
        echo(f"Waiting for {printable(str(path))} to begin; Ctrl-C ends.", err=True)
        while not runs.is_run(place_of(path)):
            time.sleep(every)
    try:
        return open_run(path)
    except Fault as fault:
        hint = "" if place_of(path).exists() else " To wait for it: --wait."
        raise Fault(f"{fault.message}{hint}") from None


def rank_of(run: Run, rank: int | None) -> int:
    """The process to show: the one asked for, or the first.

    Raises:
        Fault: there is no such process.
    """
    if rank is not None and rank not in run.ranks:
        known = ", ".join(map(str, run.ranks)) or "none"
        raise Fault(f"There is no rank {rank} in {run.name}. Recorded: {known}.")
    return rank if rank is not None else min(run.ranks, default=0)


def size_of(place: Path) -> int:
    """How many bytes the run's files take, those that vanish meanwhile aside."""
    total = 0
    for path in place.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
