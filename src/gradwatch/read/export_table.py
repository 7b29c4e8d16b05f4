"""Writing the rows of a query to a file, with DuckDB's `COPY`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradwatch.read.run import Run
from gradwatch.store import literal
from gradwatch.util.files import atomic

FORMATS = {
    "csv": "FORMAT csv, HEADER",
    "json": "FORMAT json, ARRAY true",
    "jsonl": "FORMAT json",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
"""The options of `COPY` for each format; `jsonl` has one object a line."""


def export_table(
    run: Run, query: str, path: str | Path, format: str, parameters: Sequence[Any] = ()
) -> int:
    """Write the rows of a query to a CSV, JSON or Parquet file; returns the number of rows.

    DuckDB writes rows as it reads them, so memory does not grow with the run unless the query
    sorts or groups. It can write this file and no other, and read nothing but the run. The
    file appears, or replaces an older one, when it is complete.

    Numbers are as DuckDB writes them: NaN is `nan` in CSV and `NaN` in JSON. Convert in the
    query where another program expects something else.

    Args:
        run: the run.
        query: one SELECT statement, as for `Run.sql`.
        path: the file.
        format: `"csv"`, `"json"` (one array), `"jsonl"` (one object a line) or `"parquet"`.
        parameters: a value for each `?` in the query.

    Raises:
        ValueError: the format is unknown.
        QueryError: the query is wrong, or not a SELECT statement.
        OSError: the file cannot be written.

    Example:

    >>> import pathlib, tempfile
    >>> import gradwatch, numpy as np
    >>> from gradwatch.read import export_table
    >>> directory = tempfile.mkdtemp()
    >>> with gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()]) as monitor:
    ...     monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0])})
    >>> file = f"{directory}/norms.csv"
    >>> export_table(gradwatch.open(directory), "select path, l2 from summaries", file, "csv")
    1
    >>> pathlib.Path(file).read_text()
    'path,l2\\ndense/kernel,5.0\\n'
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}. Received: {format!r}")
    target = Path(path).absolute()
    temporary = atomic.beside(target)
    select = query.rstrip().rstrip(";")
    copy = f"COPY (\n{select}\n) TO {literal(str(temporary))} ({FORMATS[format]})"
    try:
        with (
            run.database_writing(temporary) as database,
            database.user_query(query, parameters) as cursor,
        ):
            [(rows,)] = cursor.execute(copy, list(parameters)).fetchall()
        atomic.publish(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return int(rows)
