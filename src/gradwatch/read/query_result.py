"""The result of a query."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gradwatch.read.database import Database
from gradwatch.util import TextColumn, counted
from gradwatch.util.text_table import plain_lines

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SHOWN = 20


class QueryResult:
    """The rows that a query yields, read when they are first looked at."""

    def __init__(self, database: Database, query: str, parameters: Sequence[Any]) -> None:
        self._database, self._query, self._parameters = database, query, list(parameters)
        with database.user_query(query, self._parameters) as cursor:
            described = f"DESCRIBE SELECT * FROM (\n{query.rstrip().rstrip(';')}\n)"
            found = cursor.execute(described, self._parameters).fetchall()
        self.columns: list[str] = [column[0] for column in found]

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            return list(cursor.execute(self._query, self._parameters).fetchall())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows, as tuples; NULL is None."""
        return list(self._rows)

    def to_arrow(self) -> Any:
        """As a `pyarrow.Table`; needs pyarrow."""
        return _needing("pyarrow", lambda: self._convert("to_arrow_table"))

    def to_pandas(self) -> Any:
        """As a `pandas.DataFrame`; needs pandas."""
        return _needing("pandas", lambda: self._convert("df"))

    def to_polars(self) -> Any:
        """As a `polars.DataFrame`; needs polars and pyarrow."""

        def convert() -> Any:
            return importlib.import_module("polars").from_arrow(self._convert("to_arrow_table"))

        return _needing("polars", convert)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        shown = self._rows[:_SHOWN]
        columns = [
            TextColumn(_words(name), [_words(row[i]) for row in shown], left=True)
            for i, name in enumerate(self.columns)
        ]
        more = ["..."] * (len(self._rows) > _SHOWN)
        return "\n".join([*plain_lines(columns), *more, f"({counted(len(self._rows), 'row')})"])

    def _cursor(self) -> AbstractContextManager[DuckDBPyConnection]:
        return self._database.user_query(self._query, self._parameters, is_checked=True)

    def _convert(self, method: str) -> Any:
        # Columns, without a detour by tuples: a run may have millions of rows.
        with self._cursor() as cursor:
            relation = cursor.sql(self._query, params=self._parameters or None)
            return getattr(relation, method)()


def _needing(package: str, convert: Callable[[], Any]) -> Any:
    try:
        importlib.import_module(package)
        return convert()
    except ImportError as error:
        raise ImportError(
            f"This needs {error.name or package}: pip install 'gradwatch[dataframes]'"
        ) from error


def _words(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if isinstance(value, bytes):
        text = f"{len(value):,} bytes"
    # Names come from anywhere: no escape sequence of theirs reaches a terminal.
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= 60 else f"{text[:57]}..."
