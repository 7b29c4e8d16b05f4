"""Tables that fit a terminal, and are whole when they go anywhere else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from gradwatch.cli.text import echo
from gradwatch.sinks.table import breadth, shortened

GAP = "  "
NARROWEST_NAME = 16


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        header: its name.
        cells: its content, already printable.
        left: whether it is of words rather than of numbers.
        weight: where there is no room for all columns, the heaviest stay; 0 is for
            one that stays in any case, and is shortened instead.
        alarming: rows to be shown in red.
    """

    header: str
    cells: Sequence[str]
    left: bool = False
    weight: int = 5
    alarming: frozenset[int] = frozenset()


def width() -> int | None:
    """The columns of the terminal that stdout is, or that `COLUMNS` says it has.

    None if it is none: what goes into a file or a pipe is not cut.
    """
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def lines(columns: Sequence[Column], room: int | None) -> list[str]:
    """The table, header first, in at most that many columns of the terminal.

    >>> from gradwatch.cli.table import Column, lines
    >>> print(*lines([Column("layer", ["dense", "out"], left=True), Column("L2", ["1.5", "20"])],
    ...              None), sep="\\n")
    layer   L2
    dense  1.5
    out     20
    """
    columns = list(columns) if room is None else _fit(list(columns), room)
    sizes = [_breadth(column) for column in columns]
    rows = [_row(columns, sizes, [c.header for c in columns], None)]
    for i, cells in enumerate(zip(*(c.cells for c in columns), strict=True)):
        rows.append(_row(columns, sizes, cells, i))
    return rows


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


def _row(
    columns: Sequence[Column], sizes: Sequence[int], cells: Sequence[str], row: int | None
) -> str:
    parts = []
    for column, size, cell in zip(columns, sizes, cells, strict=True):
        pad = " " * (size - breadth(cell))
        shown = style(cell, fg="red") if row is not None and row in column.alarming else cell
        parts.append(shown + pad if column.left else pad + shown)
    return GAP.join(parts).rstrip()


def _fit(columns: list[Column], room: int) -> list[Column]:
    while True:
        fixed = sum(_breadth(c) for c in columns if c.weight) + len(GAP) * (len(columns) - 1)
        names = [c for c in columns if not c.weight]
        wished = sum(min(NARROWEST_NAME, _breadth(c)) for c in names)
        optional = [c for c in columns if c.weight]
        if room - fixed >= wished or not optional:
            return _shorten(columns, room - fixed)
        columns.remove(min(reversed(optional), key=lambda c: c.weight))


def _shorten(columns: list[Column], room: int) -> list[Column]:
    """Shorten the columns of names, the widest first, to that many columns together."""
    names = {i: _breadth(c) for i, c in enumerate(columns) if not c.weight}
    while sum(names.values()) > max(room, len(names)):
        names[max(names, key=lambda i: names[i])] -= 1
    return [
        replace(c, header=shortened(c.header, names[i]), cells=_cut(c.cells, names[i]))
        if i in names
        else c
        for i, c in enumerate(columns)
    ]


def _cut(cells: Sequence[str], size: int) -> list[str]:
    return [shortened(cell, size) for cell in cells]


def _breadth(column: Column) -> int:
    return max(map(breadth, (column.header, *column.cells)))
