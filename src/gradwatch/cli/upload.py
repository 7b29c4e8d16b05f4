"""`gradwatch upload`: bring a run to a URL."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, FOUND, Fault, asking
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import place_of
from gradwatch.cli.text import echo, printable
from gradwatch.maintain import LiveRunError
from gradwatch.maintain import upload as complete


@click.command(short_help="Upload a run, or what is left of it, to its URL.")
@options.run_argument()
@click.option("--to", metavar="URL", help="Where to, if not where the run was recorded for.")
@options.as_json
def upload(run: Path, to: str | None, as_json: bool) -> int:
    """Upload RUN to the URL it was recorded for, or to another one.

    What dead processes have left is sealed first, as by repair. What is there already is
    not uploaded again. Exit code 1: damaged files were left out.
    """
    try:
        with asking():
            done = complete(place_of(run), to)
    except LiveRunError as error:
        raise Fault(str(error)) from None
    if as_json:
        echo(dumps(asdict(done), indent=1))
    else:
        files = f"{done.files} file{'s' * (done.files != 1)}, {done.bytes:,} bytes"
        echo(printable(f"{done.url}: {files} uploaded"))
        for name in done.damaged:
            echo(printable(f"damaged and left out: {name}"))
    return FOUND if done.damaged else FINE
