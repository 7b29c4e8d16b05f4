"""`gradwatch verify`: is everything that was written still there?"""

from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK, user_errors
from gradwatch.cli.opening import local_place
from gradwatch.cli.output import echo, echo_json, progress, style
from gradwatch.maintain import VerifyReport
from gradwatch.maintain import verify as verify_run
from gradwatch.read import is_run
from gradwatch.read import open as open_place
from gradwatch.util import bytes_, counted, printable


@click.command(short_help="Compare all files with their checksums.")
@click.argument(
    "places", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options.as_json
def verify(places: tuple[Path, ...], as_json: bool) -> int:
    """Compare every file of each RUN with its checksum.

    A directory of runs stands for all runs in it. The exit code is 0 if all files are
    whole, 1 if there is damage, and 2 if there is no such run.
    """
    reports = [verified(directory) for directory in _directories(places)]
    if as_json:
        echo_json([_facts(report) for report in reports])
    else:
        for report in reports:
            _print(report)
    return OK if all(report.is_whole for report in reports) else FOUND


def verified(directory: Path) -> VerifyReport:
    """Verify a run, with a progress bar."""
    with user_errors(), progress(f"Verifying {printable(directory.name)}") as advance:
        return verify_run(directory, lambda done, total, name: advance(done, total))


def _directories(places: tuple[Path, ...]) -> list[Path]:
    found: list[Path] = []
    for place in map(local_place, places):
        with user_errors():
            if is_run(place):
                found.append(place)
                continue
            opened = open_place(place)  # fails if there is no run
            found += [place / name for name in getattr(opened, "names", ())]
    return found


def _facts(report: VerifyReport) -> dict[str, Any]:
    return {
        "path": str(report.path),
        "whole": report.is_whole,
        "files": report.files,
        "bytes": report.bytes,
        "records": report.frames,
        "rows": report.rows,
        "damage": [{"file": str(d.file), "what": d.what} for d in report.damage],
        "torn": {str(path): size for path, size in report.torn.items()},
        "leftovers": [str(path) for path in report.leftovers],
    }


def _print(report: VerifyReport) -> None:
    state = style("whole", "green")
    if not report.is_whole:
        state = style(f"damaged in {counted(len(report.damage), 'place')}", "red")
    size = f"{counted(report.files, 'file')}, {bytes_(report.bytes)}, {counted(report.rows, 'row')}"
    echo(f"{printable(str(report.path))}: {state} ({size})")
    for damage in report.damage:
        echo(f"  {printable(damage.file.name)}: {printable(damage.what)}")
    for path, size_torn in report.torn.items():
        words = f"ends within a record ({counted(size_torn, 'byte')}), as after a kill: no damage"
        echo(f"  {printable(path.name)}: {words}")
    if report.leftovers:
        echo(
            f"  {counted(len(report.leftovers), 'journal')} left by processes that have ended: "
            "complete, and 'gradwatch repair' seals them"
        )
