"""`gradwatch upload`: copy a run to a URL."""

from dataclasses import asdict
from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK, CommandError, user_errors
from gradwatch.cli.opening import run_place
from gradwatch.cli.output import echo, echo_json
from gradwatch.maintain import LiveRunError
from gradwatch.maintain import upload as upload_run
from gradwatch.util import counted, printable


@click.command(short_help="Upload a run, or the rest of it, to its URL.")
@options.run_argument()
@click.option(
    "--to",
    metavar="URL",
    help="The URL to upload to, if not the one that the run was recorded for.",
)
@options.as_json
def upload(run: Path, to: str | None, as_json: bool) -> int:
    """Upload RUN to the URL it was recorded for, or to another one.

    Files that ended processes left open are sealed first, as by repair. Files that are
    there already are not uploaded again. The exit code is 1 if damaged files were left out.
    """
    try:
        with user_errors():
            done = upload_run(run_place(run), to)
    except LiveRunError as error:
        raise CommandError(str(error)) from None
    if as_json:
        echo_json(asdict(done))
    else:
        files = f"{counted(done.files, 'file')}, {counted(done.bytes, 'byte')}"
        echo(printable(f"{done.url}: {files} uploaded"))
        for name in done.damaged:
            echo(printable(f"damaged and left out: {name}"))
    return FOUND if done.damaged else OK
