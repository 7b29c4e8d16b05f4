"""`gradwatch sql`: a question in SQL."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options
from gradwatch.cli.faults import asking
from gradwatch.cli.formats import cell
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import open_run
from gradwatch.cli.run_table import Column, show
from gradwatch.cli.text import counted, echo, printable


@click.command(short_help="Ask a question in SQL.")
@options.run_argument()
@click.argument("query")
@options.as_json
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values instead of a table.")
def sql(run: Path, query: str, as_json: bool, as_csv: bool) -> None:
    """Ask RUN a QUERY in SQL: one SELECT statement.

    The tables are summaries, all_summaries, histograms, pictures, losses, sites and
    attempts; 'describe summaries' lists the columns of one. Nothing else can be read,
    and nothing written.

    \b
    gradwatch sql runs/mnist \\
      "select path, max(l2) from summaries where kind = 'gradient' group by path"
    """
    if as_json and as_csv:
        raise click.UsageError("Choose one of --json and --csv.")
    with open_run(run) as opened:
        with asking():
            result = opened.sql(_described(query))
        names, rows = result.columns, result.fetchall()
    if as_json:
        echo(dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([cell(name) for name in names])
        writer.writerows([_csv_cell(value) for value in row] for row in rows)
    else:
        _show(names, rows)


def _described(query: str) -> str:
    """`describe t` as the SELECT that it is short for."""
    word, _, rest = query.strip().rstrip(";").partition(" ")
    if word.lower() == "describe" and rest.strip().isidentifier():
        return f"SELECT column_name, column_type FROM (DESCRIBE {rest.strip()})"
    return query


def _show(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    columns = []
    for i, name in enumerate(names):
        values = [row[i] for row in rows]
        numbers = all(isinstance(v, int | float) or v is None for v in values) and bool(values)
        cells = [_cell(value) for value in values]
        columns.append(Column(printable(name), cells, left=not numbers, weight=0))
    show(columns)
    echo(f"({counted(len(rows), 'row')})", err=True)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{counted(len(value), 'byte')}>"
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(str(value))


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return cell(value) if isinstance(value, str) else value
