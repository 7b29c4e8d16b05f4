"""Opens the run that is named on the command line."""

import time
from pathlib import Path

from gradwatch.cli.exit_codes import CommandError, user_errors
from gradwatch.cli.output import echo
from gradwatch.core import Site, select
from gradwatch.read import Run, is_run
from gradwatch.read import open as open_place
from gradwatch.store.remote import as_remote
from gradwatch.util import printable

HOME = Path("runs")
"""Where monitors write by default; a run in it can be named without it."""
_NAMED = 5


def run_place(path: Path) -> Path:
    """The path of a run: as given, or below `runs`."""
    if not path.exists() and not path.is_absolute() and (HOME / path).exists():
        return HOME / path
    return path


def local_place(path: Path) -> Path:
    """The path of a run for commands that change its files; CommandError if it is a URL."""
    if as_remote(path) is not None:
        raise CommandError("RUN must be a directory on this machine. Received: a URL.")
    return run_place(path)


def open_run(path: Path) -> Run:
    """Open one run; CommandError if there is none, or if there are several."""
    place = run_place(path)
    with user_errors():
        found = open_place(place)
    if isinstance(found, Run):
        return found
    if len(found) == 1:
        return found[found.names[0]]
    named = ", ".join(str(place / name) for name in found.names[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    raise CommandError(f"{place} has {len(found)} runs; name one of them: {named}{more}.")


def open_or_wait(path: Path, wait: bool, interval: float) -> Run:
    """Open one run; with `wait`, look for it every so many seconds until it has begun."""
    if wait and not is_run(run_place(path)):
        echo(f"Waiting for {printable(str(path))} to begin. Press Ctrl-C to end.", err=True)
        while not is_run(run_place(path)):
            time.sleep(interval)
    try:
        return open_run(path)
    except CommandError as error:
        hint = "" if run_place(path).exists() else " To wait for it: --wait."
        raise CommandError(f"{error.message}{hint}") from None


def choose_rank(run: Run, rank: int | None) -> int:
    """The rank to show: the given one, or the first; CommandError if the run lacks it."""
    if rank is not None and rank not in run.ranks:
        known = ", ".join(map(str, run.ranks)) or "none"
        raise CommandError(f"There is no rank {rank} in {run.name}. Recorded: {known}.")
    return rank if rank is not None else min(run.ranks, default=0)


def choose_sites(run: Run, pattern: select.Selector | None, kind: str | None = None) -> list[Site]:
    """The sites that `--kind` and `--sites` select; CommandError if none, though there are some."""
    with user_errors():
        sites = run.sites(kind, pattern)
    if not sites and run.sites():
        kinds = ", ".join(dict.fromkeys(str(site.kind) for site in run.sites()))
        parts = [f"--kind {kind}"] * bool(kind) + [f"--sites {pattern}"] * bool(pattern)
        raise CommandError(
            f"{' '.join(parts)} selects nothing of {run.name}, which has {kinds}. "
            "See gradwatch show."
        )
    return sites
