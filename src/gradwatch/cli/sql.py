"""`gradwatch sql`: query a run."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import user_errors
from gradwatch.cli.opening import open_run
from gradwatch.cli.output import echo, echo_json, stdout_width
from gradwatch.sinks import safe
from gradwatch.util import TextColumn, counted, printable
from gradwatch.util.text_table import fit, plain_lines


@click.command(short_help="Query a run in SQL.")
@options.run_argument()
@click.argument("query")
@options.as_json
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
def sql(run: Path, query: str, as_json: bool, as_csv: bool) -> None:
    """Print the answer of RUN to a QUERY in SQL, a single SELECT statement.

    The tables are summaries, all_summaries, histograms, pictures, losses, sites and
    attempts; the query 'describe summaries' lists the columns of one. A query can read
    nothing else, and write nothing.

    \b
    gradwatch sql runs/mnist \\
      "select path, max(l2) from summaries where kind = 'gradient' group by path"
    """
    if as_json and as_csv:
        raise click.UsageError("Choose one of --json and --csv.")
    with open_run(run) as opened:
        with user_errors():
            result = opened.sql(_expanded(query))
        names, rows = result.columns, result.fetchall()
    if as_json:
        echo_json([dict(zip(names, row, strict=True)) for row in rows])
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([_csv_cell(value) for value in row] for row in (names, *rows))
    else:
        _print(names, rows)


def _expanded(query: str) -> str:
    """The SELECT statement that `describe t` is short for; other queries as they are."""
    word, _, rest = query.strip().rstrip(";").partition(" ")
    if word.lower() == "describe" and rest.strip().isidentifier():
        return f"SELECT column_name, column_type FROM (DESCRIBE {rest.strip()})"
    return query


def _print(names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    columns = []
    for i, name in enumerate(names):
        values = [row[i] for row in rows]
        is_number = all(isinstance(v, int | float) or v is None for v in values) and bool(values)
        cells = [_cell(value) for value in values]
        columns.append(TextColumn(printable(name), cells, left=not is_number, weight=0))
    for line in plain_lines(fit(columns, stdout_width())):
        echo(line)
    echo(f"({counted(len(rows), 'row')})", err=True)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{counted(len(value), 'byte')}>"
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def _csv_cell(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    # As in the CSV sink; direction marks are escaped as well.
    return printable(safe(value)) if isinstance(value, str) else value
