"""The tables that a query sees, in SQL.

`_rows_of_<table>` is what the files hold, sealed and not, and `_<table>` what of it no
later attempt has superseded. The views without an underscore are for users: their
`part_of` is the column `group`, which must be quoted in SQL, `replica` follows from it, and they
have every statistic of `gradwatch.core.STATISTICS` as a column, NULL where it is not defined.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gradwatch.core import STATISTICS, VALUE
from gradwatch.read import replica_rows as replicas
from gradwatch.store import SCHEMAS, literal, quoted

TABLES = tuple(SCHEMAS)

_WHERE = f'rank, {replicas.SQL}, kind, path, "group" AS part_of, step, epoch, time'
_WHENCE = "attempt, writer"


def definitions(segments: dict[str, Sequence[Path]], has_attempts: bool) -> Iterator[str]:
    """The statements that make the views; if no row is superseded, they need no join."""
    for table in TABLES:
        yield f"CREATE OR REPLACE VIEW _rows_of_{table} AS {rows(table, segments[table])}"
        marked = with_superseded(f"_rows_of_{table}", has_attempts)
        yield f"CREATE OR REPLACE VIEW _all_{table} AS {marked}"
        yield (
            f"CREATE OR REPLACE VIEW _{table} AS "
            f"SELECT * EXCLUDE (superseded) FROM _all_{table} WHERE NOT superseded"
        )
    statistics = ", ".join(f"{each.sql} AS {each.name}" for each in STATISTICS.values())
    columns = f"{_WHERE}, micro_batch, {statistics}, {_WHENCE}"
    yield f"CREATE OR REPLACE VIEW summaries AS SELECT {columns} FROM _summaries"
    yield (
        f"CREATE OR REPLACE VIEW all_summaries AS SELECT {columns}, superseded FROM _all_summaries"
    )
    yield (
        f"CREATE OR REPLACE VIEW histograms AS SELECT {_WHERE}, micro_batch, cell, cell_count, "
        f"{_WHENCE} FROM _histograms"
    )
    yield f"CREATE OR REPLACE VIEW pictures AS SELECT {_WHERE}, png, {_WHENCE} FROM _pictures"
    yield (
        f"CREATE OR REPLACE VIEW losses AS SELECT {_WHERE}, micro_batch, {VALUE.sql} AS value, "
        f"{_WHENCE} FROM _summaries WHERE kind = 'loss'"
    )
    yield (
        f"CREATE OR REPLACE VIEW metrics AS SELECT {_WHERE}, micro_batch, {VALUE.sql} AS value, "
        f"{_WHENCE} FROM _summaries WHERE kind IN ('metric', 'epoch_metric')"
    )


def with_superseded(source: str, has_attempts: bool) -> str:
    """Rows with the column `superseded`: whether a later attempt has replaced them."""
    if not has_attempts:
        return f"SELECT *, false AS superseded FROM {source}"
    return (
        f"SELECT r.*, coalesce(r.step >= b.until, false) AS superseded FROM {source} r "
        "LEFT JOIN _bounds b ON r.writer = b.writer AND r.attempt = b.attempt "
        'AND r."group" = b."group"'
    )


def parquet(paths: Sequence[Path], with_filename: bool = False) -> str:
    """SQL for the rows of Parquet files, with the column `filename` if it is asked for."""
    option = ", filename = true" if with_filename else ""
    return f"read_parquet([{', '.join(literal(str(path)) for path in paths)}]{option})"


def rows(table: str, segments: Sequence[Path], with_path: bool = True) -> str:
    """SQL for the rows of some sealed files and of all journals.

    `with_path` adds the column `path`; rows of journals are joined for it.
    """
    names = [name for name in SCHEMAS[table] if with_path or name != "path"]
    columns = ", ".join(f"{'n' if c == 'path' else 't'}.{quoted(c)}" for c in names)
    tail = f"SELECT {columns} FROM _tail_{table} t"
    if with_path:
        tail += " JOIN _paths n ON t.writer = n.writer AND t.site = n.site"
    if not segments:
        return tail
    columns = ", ".join(map(quoted, names))
    return f"SELECT {columns} FROM {parquet(segments)} UNION ALL {tail}"
