"""The parameters of a request, with limits."""

import re
from collections.abc import Mapping, Sequence

from gradwatch.read import ALL, EVER, RankChoice
from gradwatch.view.data import FIRST, Window

MAX_COLUMNS, MAX_ROWS, MAX_CELLS = 2_000, 500, 150_000
"""The largest response: no screen shows more."""
MAX_COMPARED_ROWS = 2_000
MAX_RUNS, MAX_TEXT, MAX_PATTERN = 16, 12_000, 500
ALIGNMENTS = ("step", "fraction")
_INTEGER = re.compile(r"-?[0-9]{1,15}", re.ASCII)


class BadRequestError(ValueError):
    """A parameter is missing or out of its limits; the message is for the client."""


class QueryParams:
    """The parameters of a request."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    @property
    def run(self) -> str:
        return self._text("run")

    @property
    def runs(self) -> list[str]:
        """The ids of two runs or more."""
        return self._ids(2)

    @property
    def some_runs(self) -> list[str]:
        """The ids of one run or more."""
        return self._ids(1)

    @property
    def kind(self) -> str:
        return self._text("kind")

    @property
    def path(self) -> str:
        """The path of a site, a layer or a block."""
        return self._text("path")

    @property
    def statistic(self) -> str:
        return self._text("statistic")

    @property
    def revision(self) -> str:
        """The revision of the tree that `nodes` belong to."""
        return self._text("revision")

    @property
    def pattern(self) -> str:
        """The pattern of a selector; empty if there is none."""
        return self._text("pattern", MAX_PATTERN) if self._one("pattern") is not None else ""

    @property
    def align(self) -> str:
        found = self._text("align")
        if found not in ALIGNMENTS:
            raise BadRequestError(f"'align' is one of {', '.join(ALIGNMENTS)}.")
        return found

    @property
    def step(self) -> int:
        return _integer("step", self._text("step"))

    @property
    def columns(self) -> int:
        return _check("'columns'", _integer("columns", self._text("columns")), 1, MAX_COLUMNS)

    @property
    def max_rows(self) -> int:
        return _check("'rows'", _integer("rows", self._text("rows")), 1, MAX_ROWS)

    @property
    def nodes(self) -> list[int]:
        """Rows as numbers of nodes, separated by commas."""
        nodes = [_integer("rows", word) for word in self._text("rows").split(",")]
        _check("The number of 'rows'", len(nodes), 1, MAX_ROWS)
        return nodes

    @property
    def window(self) -> Window:
        first, last = self._optional("from"), self._optional("to")
        stretch = EVER[0] if first is None else first, EVER[1] if last is None else last
        if stretch[1] < stretch[0]:
            raise BadRequestError("'to' is before 'from'.")
        return Window(self.columns, stretch, self._optional("since"), self._optional("width"))

    @property
    def has_rank(self) -> bool:
        return self._one("rank") is not None

    @property
    def rank(self) -> RankChoice:
        found = self._text("rank")
        if found == FIRST:
            return None
        return ALL if found == ALL else _integer("rank", found)

    def _ids(self, fewest: int) -> list[str]:
        ids = self._text("runs").split(",")
        _check("The number of 'runs'", len(ids), fewest, MAX_RUNS)
        return ids

    def _text(self, name: str, longest: int = MAX_TEXT) -> str:
        found = self._one(name)
        if found is None:
            raise BadRequestError(f"The request lacks {name!r}.")
        _check(f"The length of {name!r}", len(found), 0, longest)
        return found

    def _optional(self, name: str) -> int | None:
        found = self._one(name)
        return None if found is None else _integer(name, found)

    def _one(self, name: str) -> str | None:
        found = self._values.get(name, ())
        if len(found) > 1:
            raise BadRequestError(f"{name!r} is given {len(found)} times.")
        return found[0] if found else None


def check_cells(rows: int, columns: int) -> None:
    """Refuse a response of too many cells."""
    _check("Rows times columns", rows * columns, 1, MAX_CELLS)


def _check(what: str, number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise BadRequestError(f"{what} must be {low:,} to {high:,}. Received: {number:,}")
    return number


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise BadRequestError(f"{name!r} must be a whole number.")
    return int(text)
