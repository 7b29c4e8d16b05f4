"""`gradwatch report`: a run in one file."""

import sys
from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK, CommandError, user_errors
from gradwatch.cli.opening import choose_rank, open_run
from gradwatch.cli.output import echo, progress
from gradwatch.util import bytes_, printable
from gradwatch.util.files import atomic
from gradwatch.view.report import make
from gradwatch.view.web import NotBuiltError

_STDOUT = Path("-")


@click.command(short_help="Write a run to one file: a web page, Markdown or JSON.")
@options.run_argument()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file to write; - is stdout. By default report.html, and stdout for md and json.",
)
@click.option(
    "--format", "form", type=click.Choice(list(make.FORMATS)), help="By default from the suffix."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1000),
    help="With --format json: leave out what is longer, and say how much.",
)
@options.rank
@click.option("--open", "open_it", is_flag=True, help="Open the report in the browser.")
@click.option("--force", is_flag=True, help="Replace the file even if it is not a report.")
def report(
    run: Path,
    output: Path | None,
    form: str | None,
    max_bytes: int | None,
    rank: int | None,
    open_it: bool,
    force: bool,
) -> int:
    """Write a report of RUN: findings, heatmaps, the worst layers, losses and facts.

    The web page is one file that opens from disk and loads nothing else. Use --format md
    for a pull request and --format json for programs. The file appears when it is complete,
    and replaces an older report. The exit code is 1 if the run is damaged.
    """
    place = output or (Path("report.html") if form in (None, "html") else _STDOUT)
    to_stdout = place == _STDOUT
    if form is None:
        form = "html" if to_stdout else _format_of(place)
    if max_bytes is not None and form != "json":
        raise CommandError(f"--max-bytes is for --format json. Received: --format {form}")
    if open_it and to_stdout:
        raise CommandError("--open needs a file. Name it with -o.")
    if not to_stdout:
        try:
            make.check_free(place, force)
        except FileExistsError:
            raise CommandError(
                f"{place} exists and is not a gradwatch report. Replace it with --force, "
                "or name another file."
            ) from None
    with open_run(run) as opened:
        chosen = None if rank is None else choose_rank(opened, rank)
        try:
            with progress(f"Reporting {printable(opened.name)}") as advance, user_errors():
                text = make.text_of(opened, form, chosen, advance, max_bytes)
        except NotBuiltError as error:
            raise CommandError(str(error)) from None
        damaged = bool(opened.damage)
    data = text.encode()
    if to_stdout:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        with user_errors():
            atomic.replace(place, data)
        echo(f"{printable(str(place))}, {bytes_(len(data))}", err=True)
    if open_it:
        click.launch(place.absolute().as_uri())
    return FOUND if damaged else OK


def _format_of(place: Path) -> str:
    with user_errors():
        return make.format_of(place)
