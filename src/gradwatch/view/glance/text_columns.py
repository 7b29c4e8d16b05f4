"""Tables of text in as many columns of a terminal as there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwatch.util import breadth, shortened

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
        least: how many columns of the terminal it takes at least.
    """

    header: str
    cells: Sequence[str]
    left: bool = False
    weight: int = 5
    alarming: frozenset[int] = frozenset()
    least: int = 0

    @property
    def breadth(self) -> int:
        """How many columns of the terminal it takes."""
        return max(self.least, *map(breadth, (self.header, *self.cells)))

    def of(self, rows: Sequence[int]) -> Column:
        """Some of its rows, as wide as with all of them."""
        alarming = frozenset(i for i, row in enumerate(rows) if row in self.alarming)
        cells = [self.cells[row] for row in rows]
        return replace(self, cells=cells, alarming=alarming, least=self.breadth)


def fitted(columns: Sequence[Column], room: int | None) -> list[Column]:
    """The columns for which there is room, names shortened if need be; all if it is None.

    >>> from gradwatch.view.glance.text_columns import Column, fitted
    >>> columns = [Column("layer", ["encoder/block_12/attention"], left=True, weight=0),
    ...            Column("L2", ["1.5"], weight=9), Column("zeros", ["0.0%"], weight=1)]
    >>> [(c.header, *c.cells) for c in fitted(columns, 22)]
    [('layer', 'encoder/…ttention'), ('L2', '1.5')]
    """
    left = list(columns)
    while room is not None:
        fixed = sum(c.breadth for c in left if c.weight) + len(GAP) * (len(left) - 1)
        names = [c for c in left if not c.weight]
        wished = sum(min(NARROWEST_NAME, c.breadth) for c in names)
        optional = [c for c in left if c.weight]
        if room - fixed >= wished or not optional:
            return _shorten(left, room - fixed)
        left.remove(min(reversed(optional), key=lambda c: c.weight))
    return left


def padded(columns: Sequence[Column]) -> list[list[str]]:
    """The rows, header first: cells that stand below each other when joined by `GAP`."""
    sizes = [column.breadth for column in columns]
    rows = [[c.header for c in columns], *map(list, zip(*(c.cells for c in columns), strict=True))]
    return [
        [_pad(cell, size, c.left) for cell, size, c in zip(row, sizes, columns, strict=True)]
        for row in rows
    ]


def _pad(cell: str, size: int, left: bool) -> str:
    pad = " " * (size - breadth(cell))
    return cell + pad if left else pad + cell


def _shorten(columns: list[Column], room: int) -> list[Column]:
    """Shorten the columns of names, the widest first, to that many columns together."""
    names = {i: c.breadth for i, c in enumerate(columns) if not c.weight}
    while sum(names.values()) > max(room, len(names)):
        names[max(names, key=lambda i: names[i])] -= 1
    return [
        replace(
            c,
            header=shortened(c.header, names[i]),
            cells=[shortened(cell, names[i]) for cell in c.cells],
            least=0,
        )
        if i in names
        else c
        for i, c in enumerate(columns)
    ]
