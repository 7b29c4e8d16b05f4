"""Text tables that fit their output, whatever that is."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Group

GAP = 2
WIDTH_OF_A_FILE = 100
NARROWEST_NAME = 12


class Column(NamedTuple):
    """A column of a table; the first is of names, the others are of numbers."""

    header: str
    cells: list[str]
    weight: int
    """Where there is no room for all columns, the heaviest stay."""
    style: str = ""
    """How the cells look that are not 0."""


def show(title: str, columns: list[Column], file: TextIO | None, note: str = "") -> None:
    """Print it, with a note below; whatever is wrong with the output, that is no reason to fail."""
    from rich.console import Console as Terminal

    stream = sys.stdout if file is None else file
    if stream is None:  # a program without a console
        return
    with suppress(Exception):
        encoding = getattr(stream, "encoding", None) or "utf-8"
        if file is None and (notebook := Terminal()).is_jupyter:
            fitted = _fit(columns, max(notebook.width, WIDTH_OF_A_FILE))
            notebook.print(_styled(title, fitted, note))
            return
        width = _width(stream)
        fitted = _fit(columns, width)
        if stream.isatty() and encoding.lower().startswith("utf"):
            # Rendered apart and written by ourselves: rich ends the process when
            # it meets a broken pipe.
            terminal = Terminal(file=stream, width=width, force_jupyter=False)
            with terminal.capture() as capture:
                terminal.print(_styled(shortened(title, width), fitted, shortened(note, width)))
            text = capture.get()
        else:
            text = _plain(title, fitted, width, note)
            with suppress(LookupError):
                text = _encodable(text, encoding)
        # Begun on a new line: a progress bar may have left the cursor on its own.
        stream.write("\n" + text)
        stream.flush()


def _width(stream: TextIO) -> int:
    if stream.isatty() and "COLUMNS" not in os.environ:
        with suppress(OSError, ValueError):
            return os.get_terminal_size(stream.fileno()).columns or WIDTH_OF_A_FILE
    # Not the terminal's size, which says nothing about a file: only COLUMNS, or 100.
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else WIDTH_OF_A_FILE


def _fit(columns: list[Column], width: int) -> list[Column]:
    """Shorten names, then leave out the lightest columns, until the table is narrow enough."""
    columns = list(columns)
    wished = min(NARROWEST_NAME, _breadth(columns[0]))
    while True:
        names, *others = columns
        room = width - sum(GAP + _breadth(column) for column in others)
        if room >= wished or not others:
            cells = [shortened(cell, max(room, 1)) for cell in names.cells]
            header = shortened(names.header, max(room, 1))
            return [names._replace(header=header, cells=cells), *others]
        columns.remove(min(others, key=lambda column: column.weight))


def _breadth(column: Column) -> int:
    return max(map(breadth, (column.header, *column.cells)))


def breadth(text: str) -> int:
    """How many columns of the terminal a text takes."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shortened(text: str, width: int) -> str:
    """The text in that many columns of the terminal, its middle left out.

    >>> from gradwatch.util.text_table import shortened
    >>> shortened("encoder/block_12/attention/kernel", 16)
    'encoder/…/kernel'
    """
    if breadth(text) <= width:
        return text
    half = min(len(text) // 2, width)  # a character of no width at all does not matter here
    head, tail = text[:half], text[len(text) - half :]
    while head + tail and breadth(head + tail) > width - 1:
        if breadth(head) > breadth(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"


def _plain(title: str, columns: list[Column], width: int, note: str = "") -> str:
    lines = [shortened(title, width)]
    broad = [_breadth(column) for column in columns]
    for row in zip(*((column.header, *column.cells) for column in columns), strict=True):
        name, *numbers = row
        cells = [name + " " * (broad[0] - breadth(name))]
        cells += [cell.rjust(size) for cell, size in zip(numbers, broad[1:], strict=True)]
        lines.append((" " * GAP).join(cells).rstrip())
    lines += [shortened(note, width)] * bool(note)
    return "\n".join(lines) + "\n"


def _encodable(text: str, encoding: str) -> str:
    """The text with what this encoding lacks replaced, by something as wide where we can."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("·", "-").replace("…", "~")
    return text.encode(encoding, errors="replace").decode(encoding)


def _styled(title: str, columns: list[Column], note: str = "") -> Group:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
    )
    for i, column in enumerate(columns):
        table.add_column(
            Text(column.header),
            justify="right" if i else "left",
            no_wrap=True,
        )
    rows = list(zip(*(column.cells for column in columns), strict=True))
    for row in rows:
        # As Text, so that a name like "[red]" is a name and no markup.
        cells = [
            Text(cell, style=column.style if cell != "0" else "")
            for column, cell in zip(columns, row, strict=True)
        ]
        table.add_row(*cells, style="bold" if row is rows[-1] else "")
    # Not as the table's own title: that is broken into lines of the table's width.
    below = [Text(note, style="dim")] * bool(note)
    return Group(Text(title, style="bold"), table, *below)


def printable(name: str) -> str:
    """Control characters, direction marks and the like, shown instead of obeyed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
