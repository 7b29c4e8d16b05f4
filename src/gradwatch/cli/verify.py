"""`gradwatch verify`: is all that was written still there?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, FOUND, asking
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import directory_of
from gradwatch.cli.progress import progress
from gradwatch.cli.run_table import style
from gradwatch.cli.text import bytes_, counted, echo, printable
from gradwatch.maintain import verify_run as verifying
from gradwatch.read import runs


@click.command(short_help="Compare all files with their checksums.")
@click.argument(
    "places", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options.as_json
def verify(places: tuple[Path, ...], as_json: bool) -> int:
    """Compare every file of each RUN with its checksum.

    A directory of runs stands for all of them. The exit code is 0 if all is whole, 1 if there
    is damage, and 2 if there is no such run.
    """
    reports = [check(directory) for directory in directories(places)]
    if as_json:
        echo(dumps([facts(report) for report in reports], indent=1))
    else:
        for report in reports:
            show(report)
    return FINE if all(report.is_whole for report in reports) else FOUND


def directories(places: tuple[Path, ...]) -> list[Path]:
    """The directories of the runs that are named."""
    found: list[Path] = []
    for place in map(directory_of, places):
        with asking():
            opened = runs.Runs(place) if place.is_dir() and not runs.is_run(place) else None
            if opened is not None and len(opened):
                found += [place / name for name in opened.names]
            elif runs.is_run(place):
                found.append(place)
            else:
                runs.open(place)  # which says what is wrong with it
    return found


def check(directory: Path) -> verifying.Report:
    """Verify a run, with progress."""
    with asking(), progress(f"Verifying {printable(directory.name)}") as tell:
        return verifying.verify(directory, lambda done, of, name: tell(done, of))


def facts(report: verifying.Report) -> dict[str, Any]:
    """The report as plain facts."""
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


def show(report: verifying.Report) -> None:
    """Print the report."""
    state = style("whole", fg="green")
    if not report.is_whole:
        state = style(f"damaged in {counted(len(report.damage), 'place')}", fg="red")
    size = f"{counted(report.files, 'file')}, {bytes_(report.bytes)}, {counted(report.rows, 'row')}"
    echo(f"{printable(str(report.path))}: {state} ({size})")
    for damage in report.damage:
        echo(f"  {printable(damage.file.name)}: {printable(damage.what)}")
    for path, torn in report.torn.items():
        what = f"ends within a record ({counted(torn, 'byte')}), as after a kill: no damage"
        echo(f"  {printable(path.name)}: {what}")
    if report.leftovers:
        echo(
            f"  {counted(len(report.leftovers), 'journal')} of processes that are gone: "
            "as good as sealed ones; 'gradwatch repair' seals them"
        )
