"""A DuckDB database that can read the verified segments of a run, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.read import views
from gradwatch.store import NO_MICRO_BATCH, SCHEMAS, literal, lock_down, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Columns = dict[str, NDArray[Any]]

_TABLES = {
    "_paths": {"writer": "VARCHAR", "site": "INTEGER", "path": "VARCHAR"},
    "_bounds": {
        "writer": "VARCHAR",
        "attempt": "INTEGER",
        "group": "VARCHAR",
        "until": "BIGINT",
    },
    "sites": {"number": "INTEGER", "kind": "VARCHAR", "path": "VARCHAR", "layer": "VARCHAR"},
    "attempts": {
        "rank": "INTEGER",
        "writer": "VARCHAR",
        "attempt": "INTEGER",
        "first_step": "BIGINT",
        "part_of": "VARCHAR",
        "time": "DOUBLE",
    },
    **{
        f"_tail_{table}": {name: type_ for name, type_ in schema.items() if name != "path"}
        for table, schema in SCHEMAS.items()
    },
}
_SIGNED = (None, "INT_8", "INT_16", "INT_32", "INT_64")
_CLASSES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), "whole"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "number"),
    "VARCHAR": "text",
    "BLOB": "bytes",
}
_CLASSES_IN_PARQUET = {
    **{(f"INT{size}", kind): "whole" for size in (32, 64) for kind in _SIGNED},
    ("FLOAT", None): "number",
    ("DOUBLE", None): "number",
    ("BYTE_ARRAY", "UTF8"): "text",
    ("BYTE_ARRAY", None): "bytes",
}
"""By the physical and the converted type: only DuckDB 1.4 and newer name the type in SQL."""
_FILES = 256
"""So many files are looked at at once."""
# Newer versions of DuckDB refuse them by themselves.
_SECRETS = ("DUCKDB_SECRETS", "WHICH_SECRET")
_WRITING = ("COPY", "INSERT", "DELETE", "UPDATE", "MERGE", "CREATE", "ALTER", "DROP", "EXPORT")


class QueryError(ValueError):
    """A query that is refused or wrong."""


class Database:
    """The tables of a run, in memory; the rows of its segments stay in their files.

    It is locked: a query reaches no other file, no network, no extension, no setting and no Python
    variable. All of `segments` were found whole.
    """

    def __init__(self, segments: Mapping[str, Sequence[Path]]) -> None:
        import duckdb

        self._segments = {table: [p.absolute() for p in segments[table]] for table in SCHEMAS}
        self._connection = duckdb.connect(":memory:")
        self._lock = threading.Lock()
        files = [path for paths in self._segments.values() for path in paths]
        lock_down(self._connection, files)
        for name, columns in _TABLES.items():
            types = ", ".join(f"{quoted(column)} {t}" for column, t in columns.items())
            self._connection.execute(f"CREATE TABLE {name} ({types})")
        self._has_attempts: bool | None = None
        self._defined: bool | None = None
        self._filled: dict[str, object] = {}
        self._waiting_lock = threading.Lock()
        self._waiting: dict[str, tuple[object, Callable[[], Iterable[tuple[Any, ...]]]]] = {}

    def append(self, table: str, rows: Columns, names: Columns) -> None:
        """Add rows of journals to those that are in no segment.

        `rows` are as from `tables.rows_of`, with `owner`: a number for whose they are. `names` has
        `owner`, `writer`, `rank`, `site`, `kind` and `group` of the owners' sites.
        """
        given = {
            "micro_batch": f"nullif(r.micro_batch, {NO_MICRO_BATCH})",
            **{name: f"n.{quoted(name)}" for name in ("writer", "rank", "kind", "group")},
        }
        values = ", ".join(given.get(c, f"r.{quoted(c)}") for c in _TABLES[f"_tail_{table}"])
        with self._lock:
            self._connection.register("_given", rows)
            self._connection.register("_names", names)
            self._connection.execute(
                f"INSERT INTO _tail_{table} "
                f"SELECT {values} FROM _given r "
                "JOIN _names n ON r.site = n.site AND r.owner = n.owner"
            )
            self._connection.unregister("_given")
            self._connection.unregister("_names")

    def fill(self, table: str, key: object, rows: Iterable[tuple[Any, ...]]) -> None:
        """Replace all rows of a table, unless the last ones came with the same key."""
        if self._filled.get(table) != key:
            given = list(rows)
            names = list(_TABLES[table])
            columns = {name: _column([row[i] for row in given]) for i, name in enumerate(names)}
            self._replace(table, columns)
            self._filled[table] = key

    def fill_later(
        self, table: str, key: object, rows: Callable[[], Iterable[tuple[Any, ...]]]
    ) -> None:
        """As `fill`, before the next query of a user: for a table that no other query needs.

        To make the rows of a hundred thousand sites takes a second.
        """
        with self._waiting_lock:
            self._waiting[table] = key, rows

    def define_later(self, has_attempts: bool) -> None:
        """Make the views before the next query of a user: no other query needs them, and to make
        them takes as long as to open a small run."""
        with self._waiting_lock:
            self._has_attempts = has_attempts

    def fetch(
        self,
        query: str,
        parameters: Sequence[Any] = (),
        tables: Mapping[str, Columns] | None = None,
    ) -> Columns:
        """The result of a query of this package; NULL is NaN in numbers that are not whole.

        `tables` exist for this query alone.
        """
        with self.cursor() as cursor:
            for name, columns_of in (tables or {}).items():
                cursor.register(name, columns_of)
            columns: Columns = cursor.execute(query, list(parameters)).fetchnumpy()
        return {name: _filled(values) for name, values in columns.items()}

    @contextmanager
    def cursor(self) -> Iterator[DuckDBPyConnection]:
        """A connection for one thread and one query."""
        with self._lock:
            cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    @contextmanager
    def user_query(
        self, query: str, parameters: Sequence[Any], *, is_checked: bool = False
    ) -> Iterator[DuckDBPyConnection]:
        """A connection for a user's query; raises `QueryError` unless it is one valid SELECT."""
        import duckdb

        with self._waiting_lock:
            for table, (key, rows) in self._waiting.items():
                self.fill(table, key, rows())
            self._waiting.clear()
            if self._has_attempts != self._defined:
                with self._lock:
                    for each in views.definitions(dict(self._segments), bool(self._has_attempts)):
                        self._connection.execute(each)
                self._defined = self._has_attempts
        with self.cursor() as cursor:
            try:
                if not is_checked:
                    _check(cursor, query, parameters)
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                yield cursor
            except duckdb.Error as error:
                raise QueryError(str(error)) from None

    def unreadable(self, table: str, paths: Sequence[Path]) -> dict[Path, str]:
        """Which of some segments are no Parquet files with the columns of their table, and why."""
        import duckdb

        found: dict[Path, str] = {}
        for start in range(0, len(paths), _FILES):
            some = list(paths[start : start + _FILES])
            try:
                columns = self._columns_of(some)
            except duckdb.Error as error:
                if len(some) == 1:
                    found[some[0]] = f"it is no Parquet file ({str(error).splitlines()[0]})"
                for path in some if len(some) > 1 else ():
                    found |= self.unreadable(table, [path])
                continue
            for path in some:
                own = columns.get(str(path.absolute()), {})
                wrong = [c for c, t in SCHEMAS[table].items() if own.get(c) != _CLASSES[t]]
                if wrong:
                    found[path] = f"it has no column {wrong[0]} as a segment of {table} has"
        return found

    def _columns_of(self, paths: Sequence[Path]) -> dict[str, dict[str, str]]:
        files = ", ".join(literal(str(path.absolute())) for path in paths)
        query = (
            "SELECT file_name, name, type, converted_type "
            f"FROM parquet_schema([{files}]) WHERE repetition_type <> 'REPEATED'"
        )
        found: dict[str, dict[str, str]] = {}
        with self.cursor() as cursor:
            for file, name, *types in cursor.execute(query).fetchall():
                found.setdefault(file, {})[name] = _CLASSES_IN_PARQUET.get(tuple(types), "other")
        return found

    def close(self) -> None:
        """Free the memory; running queries of other threads end with an error."""
        with self._lock:
            self._connection.close()

    def _replace(self, table: str, rows: Columns) -> None:
        names = ", ".join(map(quoted, _TABLES[table]))
        with self._lock:
            self._connection.execute("BEGIN")
            self._connection.execute(f"DELETE FROM {table}")
            if len(next(iter(rows.values()))):
                self._connection.register("_given", rows)
                self._connection.execute(f"INSERT INTO {table} SELECT {names} FROM _given")
                self._connection.unregister("_given")
            self._connection.execute("COMMIT")


def count_rows(paths: Sequence[Path]) -> Iterator[int | None]:
    """The number of rows of each Parquet file; None for one that DuckDB cannot read."""
    if not paths:
        return
    import duckdb

    database = Database({**dict.fromkeys(SCHEMAS, ()), "summaries": paths})
    try:
        for path in paths:
            query = f"SELECT count(*) AS n FROM {views.parquet([path.absolute()])}"
            try:
                yield int(database.fetch(query)["n"][0])
            except duckdb.Error:
                yield None
    finally:
        database.close()


def _check(cursor: DuckDBPyConnection, query: str, parameters: Sequence[Any]) -> None:
    """Refuse everything but one SELECT statement."""
    import duckdb

    statements = cursor.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError(f"A query is one SELECT statement. Received: {query!r}")
    # A COPY or DELETE may hide in the WITH clause of what counts as a SELECT, though
    # only at the top: inside another query DuckDB refuses it.
    explain = f"EXPLAIN (FORMAT json) SELECT * FROM (\n{query.rstrip().rstrip(';')}\n)"
    plan = cursor.execute(explain, list(parameters)).fetchall()[0][1]
    for operator in _operators(json.loads(plan)):
        if operator.strip() in _SECRETS:
            raise QueryError(
                f"A query sees no secrets; this one calls {operator.strip()}: {query!r}"
            )
        if any(word in operator for word in _WRITING):
            raise QueryError(f"A query reads only; this one has a {operator}: {query!r}")


def _filled(values: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if np.issubdtype(values.dtype, np.floating):
        return np.asarray(values.filled(np.nan))
    if np.issubdtype(values.dtype, np.integer):
        return np.asarray(values.filled(NO_MICRO_BATCH))
    return np.asarray(values.filled(None))


def _column(values: list[Any]) -> NDArray[Any]:
    is_text = any(isinstance(value, str) or value is None for value in values)
    return np.array(values, object) if is_text else np.array(values)


def _operators(plan: Any) -> Iterator[str]:
    for node in plan if isinstance(plan, list) else [plan]:
        yield str(node.get("name", "")).upper()
        yield from _operators(node.get("children", []))
