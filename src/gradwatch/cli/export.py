"""`gradwatch export`: the rows of a run in a file for other tools."""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import CommandError
from gradwatch.cli.export_rows import TABLES, ExportSelection, columns_of, row_chunks
from gradwatch.cli.formats import FORMATS, SUFFIXES
from gradwatch.cli.opening import choose_rank, choose_sites, open_run
from gradwatch.cli.output import echo, progress
from gradwatch.core import Site
from gradwatch.read import EVER, Run
from gradwatch.util import counted, printable
from gradwatch.util.files import atomic


@click.command(short_help="Write the rows of a run as CSV, Parquet or JSON.")
@options.run_argument()
@click.option(
    "-o",
    "--output",
    default="-",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file to write; - is stdout, the default.",
)
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), help="By default from the suffix."
)
@click.option("--table", type=click.Choice(list(TABLES)), default="summaries", show_default=True)
@options.kind
@options.sites
@options.steps
@options.rank
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def export(
    run: Path,
    output: Path,
    form: str | None,
    table: str,
    kind: str | None,
    patterns: tuple[str, ...],
    steps: tuple[int, int] | None,
    rank: int | None,
    force: bool,
) -> None:
    """Write the rows of RUN as CSV, Parquet or JSON (.csv, .parquet, .json, .jsonl).

    Memory use does not grow with the run. The file appears when it is complete; an
    interrupted export leaves no file.
    """
    to_stdout = str(output) == "-"
    form = form or _format_of(output, to_stdout)
    if not to_stdout and output.exists() and not force:
        raise CommandError(f"{output} exists. Replace it with --force, or name another file.")
    if to_stdout and form == "parquet" and sys.stdout.isatty():
        raise CommandError("Parquet is binary and cannot be printed. Name a file with -o.")
    with open_run(run) as opened:
        chosen = None if rank is None else choose_rank(opened, rank)
        sites = _sites(opened, table, kind, patterns)
        selection = ExportSelection(table, sites, steps or EVER, chosen)
        with _to(output, to_stdout) as out:
            rows = _write(opened, selection, form, out, None if to_stdout else output.parent)
    if not to_stdout:
        echo(f"{counted(rows, 'row')} in {printable(str(output))}", err=True)


def _write(
    run: Run, selection: ExportSelection, form: str, out: BinaryIO, directory: Path | None
) -> int:
    rows = 0
    target = FORMATS[form](out, columns_of(selection.table), directory)
    with contextlib.closing(target) if hasattr(target, "close") else contextlib.nullcontext():
        with progress(f"Exporting {printable(run.name)}") as advance:
            for done, chunk in row_chunks(run, selection):
                target.write(chunk)
                rows += len(chunk)
                advance(done, 1.0)
        target.end()
    return rows


def _sites(run: Run, table: str, kind: str | None, patterns: tuple[str, ...]) -> list[Site]:
    """The selected sites that the table contains."""
    if table == "losses" and kind not in (None, "loss"):
        raise CommandError(
            f"--table losses has only losses. Received: --kind {kind}. Use --table summaries."
        )
    sites = choose_sites(run, options.selector(patterns), "loss" if table == "losses" else kind)
    if table == "numbers":
        return [site for site in sites if site.kind.is_number]
    return sites


def _format_of(output: Path, to_stdout: bool) -> str:
    if to_stdout:
        return "csv"
    if output.suffix.lower() not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise CommandError(f"{output} does not end in {known}. Name the format with --format.")
    return SUFFIXES[output.suffix.lower()]


@contextmanager
def _to(output: Path, to_stdout: bool) -> Iterator[BinaryIO]:
    """Opens stdout, or a file that gets its name when it is complete."""
    if to_stdout:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    temporary = atomic.beside(output)
    try:
        with temporary.open("xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        atomic.publish(temporary, output)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
