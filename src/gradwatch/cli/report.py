"""`gradwatch report`: one file that tells what a run was like."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, FOUND, Fault, asking
from gradwatch.cli.opening import open_run, rank_of
from gradwatch.cli.progress import progress
from gradwatch.cli.text import bytes_, echo, printable
from gradwatch.util.files import atomic
from gradwatch.view.report import make
from gradwatch.view.web import NotBuiltError

_STDOUT = Path("-")


@click.command(short_help="A run in one file: a page, Markdown or JSON.")
@options.run_argument()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file to write; - is stdout. By default report.html, and stdout for md and json.",
)
@click.option(
    "--format", "form", type=click.Choice(list(make.FORMATS)), help="By default by the suffix."
)
@options.rank
@click.option("--open", "open_it", is_flag=True, help="Show it in the browser.")
@click.option("--force", is_flag=True, help="Replace the file whatever it is.")
def report(
    run: Path, output: Path | None, form: str | None, rank: int | None, open_it: bool, force: bool
) -> int:
    """Write a report of RUN: findings, heatmaps, the worst layers, losses and facts.

    The page is one file that opens from disk and asks for nothing else. --format md is for
    a pull request, --format json for programs. The file appears when it is complete; one that
    is a report already is replaced. The exit code is 1 if the run is damaged.
    """
    place = output or (Path("report.html") if form in (None, "html") else _STDOUT)
    to_stdout = place == _STDOUT
    if form is None:
        form = "html" if to_stdout else _format_of(place)
    if open_it and to_stdout:
        raise Fault("What goes to stdout cannot be opened. Name a file with -o.")
    if not to_stdout:
        try:
            make.check_free(place, force)
        except FileExistsError:
            raise Fault(
                f"{place} exists, and is no report of gradwatch's. Replace it with --force, "
                "or name another file."
            ) from None
    with open_run(run) as opened:
        chosen = None if rank is None else rank_of(opened, rank)
        try:
            with progress(f"Reporting {printable(opened.name)}") as tell, asking():
                text = make.text_of(opened, form, chosen, tell)
        except NotBuiltError as error:
            raise Fault(str(error)) from None
        damaged = bool(opened.damage)
    data = text.encode()
    if to_stdout:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        with asking():
            atomic.replace(place, data)
        echo(f"{printable(str(place))}, {bytes_(len(data))}", err=True)
    if open_it:
        click.launch(place.absolute().as_uri())
    return FOUND if damaged else FINE


def _format_of(place: Path) -> str:
    with asking():
        return make.format_of(place)
