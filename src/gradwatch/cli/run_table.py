"""Tables that fit a terminal, and are whole when they go anywhere else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

import click

from gradwatch.cli.text import echo
from gradwatch.view.glance import GAP, fitted, padded
from gradwatch.view.glance import Column as Column


def width() -> int | None:
    """The columns of the terminal that stdout is, or that `COLUMNS` says it has.

    None if it is none: what goes into a file or a pipe is not cut.
    """
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def lines(columns: Sequence[Column], room: int | None) -> list[str]:
    """The table, header first, in at most that many columns of the terminal.

    >>> from gradwatch.cli.run_table import Column, lines
    >>> print(*lines([Column("layer", ["dense", "out"], left=True), Column("L2", ["1.5", "20"])],
    ...              None), sep="\\n")
    layer   L2
    dense  1.5
    out     20
    """
    columns = fitted(columns, room)
    return [_row(columns, cells, i - 1) for i, cells in enumerate(padded(columns))]


def show(columns: Sequence[Column]) -> None:
    """Print it on stdout."""
    header, *rows = lines(columns, width())
    echo(style(header, bold=True))
    for row in rows:
        echo(row)


def style(text: str, **how: bool | str) -> str:
    """The text in bold, in a colour, ...; as it is where that is not wanted."""
    return click.style(text, **how) if colours() else text  # type: ignore[arg-type]


def colours() -> bool:
    """Whether to use colours and bold type: on a terminal, unless `NO_COLOR` is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _row(columns: Sequence[Column], cells: Sequence[str], row: int) -> str:
    line = GAP.join(cells).rstrip()
    if any(row in column.alarming for column in columns):
        # The cell's padding may be coloured too: that is not seen.
        line = GAP.join(
            style(cell, fg="red") if row in column.alarming else cell
            for column, cell in zip(columns, cells, strict=True)
        )
    return line
