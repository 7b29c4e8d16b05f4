"""The parameters of a request, each within its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gradwatch.read import ALL, EVER, RankChoice
from gradwatch.view.data import FIRST, Window

COLUMNS, ROWS, CELLS = 2_000, 500, 150_000
"""No answer is larger: no screen shows more."""
COMPARED = 2_000
"""Rows of a comparison, which is answered as a whole."""
RUNS, TEXT = 16, 12_000
PATTERN = 500
_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)


class AskedError(ValueError):
    """A request that is wrong; its words are for whoever made it."""


class Asked:
    """What a request asks for.

    Args:
        given: the parameters, the values of each.

    Example:

    >>> from gradwatch.view.web.asked import Asked
    >>> asked = Asked({"kind": ["gradient"], "columns": ["300"], "from": ["10"]})
    >>> asked.text("kind"), asked.window().columns
    ('gradient', 300)
    >>> asked.text("path")
    Traceback (most recent call last):
    gradwatch.view.web.asked.AskedError: The request lacks 'path'.
    """

    def __init__(self, given: Mapping[str, Sequence[str]]) -> None:
        self._given = given

    def text(self, name: str, longest: int = TEXT) -> str:
        """A text."""
        found = self._one(name)
        if found is None:
            raise AskedError(f"The request lacks {name!r}.")
        if len(found) > longest:
            raise AskedError(f"{name!r} has at most {longest} characters. Received: {len(found)}")
        return found

    def pattern(self) -> str:
        """A pattern of a selector; empty if there is none."""
        return "" if self._one("pattern") is None else self.text("pattern", PATTERN)

    def whole(self, name: str) -> int:
        """A whole number."""
        found = self.perhaps(name)
        if found is None:
            raise AskedError(f"The request lacks {name!r}.")
        return found

    def perhaps(self, name: str) -> int | None:
        """A whole number, or None if it is not given."""
        found = self._one(name)
        return None if found is None else _number(name, found)

    def among(self, name: str, choices: Sequence[str]) -> str:
        """One of a few words."""
        found = self.text(name)
        if found not in choices:
            raise AskedError(f"{name!r} is one of {', '.join(choices)}.")
        return found

    def columns(self) -> int:
        """How many columns there may be."""
        found = self.whole("columns")
        if not 1 <= found <= COLUMNS:
            raise AskedError(f"'columns' is 1 to {COLUMNS}. Received: {found}")
        return found

    def rows(self) -> list[int]:
        """The numbers of rows, with commas between them."""
        found = [_number("rows", word) for word in self.text("rows").split(",")]
        if len(found) > ROWS:
            raise AskedError(f"At most {ROWS} rows are answered at once. Received: {len(found)}")
        return found

    def window(self) -> Window:
        """Which columns are asked for."""
        first, last = self.perhaps("from"), self.perhaps("to")
        stretch = EVER[0] if first is None else first, EVER[1] if last is None else last
        if stretch[1] < stretch[0]:
            raise AskedError("'to' is before 'from'.")
        return Window(self.columns(), stretch, self.perhaps("since"), self.perhaps("width"))

    def has(self, name: str) -> bool:
        """Whether it is given."""
        return self._one(name) is not None

    def rank(self) -> RankChoice:
        """Whose numbers are asked for."""
        found = self.text("rank")
        if found == FIRST:
            return None
        return ALL if found == ALL else _number("rank", found)

    def most_rows(self) -> int:
        """How many rows there may be."""
        found = self.whole("rows")
        if not 1 <= found <= ROWS:
            raise AskedError(f"'rows' is 1 to {ROWS}. Received: {found}")
        return found

    def runs(self) -> list[str]:
        """The ids of two runs or more."""
        found = self.text("runs").split(",")
        if not 2 <= len(found) <= RUNS:
            raise AskedError(f"2 to {RUNS} runs are compared. Received: {len(found)}")
        return found

    def _one(self, name: str) -> str | None:
        found = self._given.get(name, ())
        if len(found) > 1:
            raise AskedError(f"{name!r} is given {len(found)} times.")
        return found[0] if found else None


def check_cells(rows: int, columns: int) -> None:
    """Refuse more cells than any screen shows."""
    if rows * columns > CELLS:
        raise AskedError(
            f"At most {CELLS:,} cells are answered at once. Received: {rows} rows of {columns} "
            "columns"
        )


def _number(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise AskedError(f"{name!r} is a whole number.")
    return int(text)
