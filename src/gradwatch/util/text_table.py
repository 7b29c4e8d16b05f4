"""Tables of text that fit their output: a terminal, a pipe, a file, a notebook."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO

from gradwatch.util.text import display_width, encodable, shortened, shortened_apart, width_apart

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

GAP = "  "
NARROWEST_NAME = 20
MAX_NAMES_APART = 500
"""Of more names, it would take long to find out how far they can be shortened and still differ."""
DEFAULT_WIDTH = 100


@dataclass(frozen=True)
class TextColumn:
    """A column of a table.

    Attributes:
        cells: its content, already printable.
        weight: the heaviest columns stay if there is no room for all. A column of weight 0
            always stays; it is shortened instead.
        alarms: the rows to show in red.
        min_width: the number of terminal columns that it takes at least.
    """

    header: str
    cells: Sequence[str]
    left: bool = False
    weight: int = 5
    alarms: frozenset[int] = frozenset()
    min_width: int = 0

    @property
    def width(self) -> int:
        """The number of terminal columns that it takes."""
        return max(self.min_width, *map(display_width, (self.header, *self.cells)))

    def take(self, rows: Sequence[int]) -> TextColumn:
        """The column with some of its rows only, as wide as with all of them."""
        alarms = frozenset(i for i, row in enumerate(rows) if row in self.alarms)
        cells = [self.cells[row] for row in rows]
        return replace(self, cells=cells, alarms=alarms, min_width=self.width)


def fit(columns: Sequence[TextColumn], width: int | None) -> list[TextColumn]:
    """The columns that fit a width, with names shortened if necessary; all if it is None.

    Names are shortened, and then columns left out, so that names still differ.
    """
    left = list(columns)
    narrowest: int | None = None
    while width is not None:
        optional = [c for c in left if c.weight]
        room = width - sum(c.width for c in optional) - len(GAP) * (len(left) - 1)
        if room < sum(c.width for c in left if not c.weight) and narrowest is None:
            names = [c for c in left if not c.weight]
            narrowest = min(sum(map(_narrowest, names)), 2 * width // 5 * len(names))
        if narrowest is None or room >= narrowest or not optional:
            return _shorten_names(left, room)
        left.remove(min(reversed(optional), key=lambda c: c.weight))
    return left


def plain_lines(columns: Sequence[TextColumn]) -> list[str]:
    """The table as plain text, the header first.

    Not by rich, which takes about a millisecond a row: a query may have a million rows.
    """
    padded = [
        [_pad(cell, width, column.left) for cell in (column.header, *column.cells)]
        for column, width in ((column, column.width) for column in columns)
    ]
    return [GAP.join(row).rstrip() for row in zip(*padded, strict=True)]


def styled(columns: Sequence[TextColumn], last_row: str = "") -> Table:
    """The table for a terminal or a notebook; `last_row` is the style of its last row."""
    from rich.table import Table
    from rich.text import Text

    # The gaps are in the cells: rich before 15 makes a last column without padding too wide.
    table = Table(box=None, padding=0, header_style="bold")
    gaps = ["", *[GAP] * (len(columns) - 1)]
    for column, gap in zip(columns, gaps, strict=False):
        table.add_column(
            Text(gap + column.header),
            justify="left" if column.left else "right",
            no_wrap=True,
            min_width=len(gap) + column.width,
            overflow="crop",
        )
    rows = list(zip(*(column.cells for column in columns), strict=True))
    for i, row in enumerate(rows):
        # As Text, so that a name such as "[red]" is a name and not markup.
        cells = (
            Text(gap + cell, style="bold red" if i in column.alarms else "")
            for gap, column, cell in zip(gaps, columns, row, strict=False)
        )
        table.add_row(*cells, style=last_row if i == len(rows) - 1 else "")
    return table


def table_text(
    columns: Sequence[TextColumn],
    stream: TextIO,
    *,
    title: str = "",
    note: str = "",
    last_row: str = "",
    pipe_width: int | None = None,
) -> str:
    """A table as a stream is sent it: with colours for a terminal, else as plain text.

    The caller writes it: rich would end the process if the stream is a broken pipe. Columns that do
    not fit a terminal are left out. `title`, of one or more lines, is above the table, and `note`
    below; `last_row` is a style, for a terminal. `pipe_width` is for a file or a pipe; None for any
    width.
    """
    width = terminal_width(stream) if stream.isatty() else pipe_width
    columns = fit(columns, width)
    if width is not None:
        title = "\n".join(shortened(line, width) for line in title.split("\n"))
        note = shortened(note, width)
    if has_colours(stream):
        return rendered(titled(title, styled(columns, last_row), note), stream, width)
    lines = [*[title] * bool(title), *plain_lines(columns), *[note] * bool(note)]
    return encodable("".join(f"{line}\n" for line in lines), _encoding(stream))


def titled(title: str, table: Table, note: str = "") -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    # Not as the table's own title, which is broken into lines of the table's width.
    above, below = [Text(title, "bold")] * bool(title), [Text(note, "dim")] * bool(note)
    return Group(*above, table, *below)


def rendered(content: RenderableType, stream: TextIO, width: int | None) -> str:
    """What a terminal is sent to show something."""
    from rich.console import Console

    console = Console(
        file=stream, width=width, force_terminal=True, force_jupyter=False, highlight=False
    )
    with console.capture() as captured:
        console.print(content, soft_wrap=False)
    return captured.get()


def has_colours(stream: TextIO) -> bool:
    """Whether to use colours and bold type: on a terminal, unless `NO_COLOR` is set."""
    can_show = os.environ.get("TERM") != "dumb" and _encoding(stream).lower().startswith("utf")
    return stream.isatty() and can_show and not os.environ.get("NO_COLOR")


def terminal_width(stream: TextIO) -> int:
    """The columns of the terminal: `COLUMNS` if that is set, or else what the terminal says."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    return DEFAULT_WIDTH


def _narrowest(column: TextColumn) -> int:
    """To what width a column of names can be shortened."""
    least = min(NARROWEST_NAME, column.width)
    return width_apart(column.cells, least) if len(column.cells) <= MAX_NAMES_APART else least


def _encoding(stream: TextIO) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def _pad(cell: str, width: int, left: bool) -> str:
    pad = " " * (width - display_width(cell))
    return cell + pad if left else pad + cell


def _shorten_names(columns: Sequence[TextColumn], room: int) -> list[TextColumn]:
    """Shorten the columns of weight 0, the widest first, to that many terminal columns."""
    widths = {i: c.width for i, c in enumerate(columns) if not c.weight}
    while sum(widths.values()) > max(room, len(widths)):
        widths[max(widths, key=lambda i: widths[i])] -= 1
    return [
        replace(
            c,
            header=shortened(c.header, widths[i]),
            cells=shortened_apart(c.cells, widths[i])
            if len(c.cells) <= MAX_NAMES_APART
            else [shortened(cell, widths[i]) for cell in c.cells],
            min_width=0,
        )
        if i in widths
        else c
        for i, c in enumerate(columns)
    ]
