"""From a journal to Parquet files."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

from gradwatch.store import file_names as names
from gradwatch.store.journal import Journal
from gradwatch.store.locked_duckdb import duckdb as import_duckdb
from gradwatch.store.locked_duckdb import literal, lock_down, quoted
from gradwatch.store.tables import NO_MICRO_BATCH, ORDER, SCHEMAS, Table, rows_of, sites
from gradwatch.util import Json
from gradwatch.util.files import atomic

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROW_GROUP = 1 << 15
"""Rows in a row group. With fewer, a reader of one series reads more metadata than it saves.
With more, it reads more of the other series."""


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """Sealing was stopped; the journal is as it was."""


class Stopper:
    """Stops a writing of segments that is under way, from another thread."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.is_in_database = False
        self._connection: Callable[[], DuckDBPyConnection | None] = lambda: None

    def watch(self, connection: DuckDBPyConnection) -> None:
        # Weakly: a connection must not end in a forked child, where its threads are missing.
        self._connection = weakref.ref(connection)

    def stop(self) -> None:
        """Stop it; returns at once."""
        self.is_stopped = True
        connection = self._connection()
        if connection is not None:
            with contextlib.suppress(Exception):  # It may be closed by now.
                connection.interrupt()

    def check(self) -> None:
        """Raise `Interrupted` once stopped."""
        if self.is_stopped:
            raise Interrupted


def write(journal: Journal, directory: Path, stopper: Stopper | None = None) -> dict[str, Json]:
    """Write a journal's rows as segments, durably; returns the manifest's entry for them.

    The journal has been read to its end and found whole. On `OSError`, and on `Interrupted` by the
    stopper, nothing is left behind.
    """
    stopper = stopper or Stopper()
    folder = directory / names.SEGMENTS
    folder.mkdir(parents=True, exist_ok=True)
    number = int(journal.writer["number"])
    entry: dict[str, Json] = {
        "number": number,
        "lost_rows": sum(block.facts.get("lost_rows", 0) for block in journal.readings)
        + (journal.end or {}).get("lost_rows", 0),
        "tables": {},
    }
    for table in SCHEMAS:
        # One at a time, for the sake of memory.
        rows = rows_of(journal, table)
        if rows:
            temporary = atomic.beside(folder / f"{journal.writer['writer']}-{number:06d}.{table}")
            try:
                entry["tables"][table] = _write_table(journal, table, rows, temporary, stopper)
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
    return entry


def _write_table(
    journal: Journal, table: str, rows: Table, temporary: Path, stopper: Stopper
) -> dict[str, Json]:
    size = rows["site"].size
    order = np.lexsort([rows[name] for name in reversed(ORDER[table].split(", "))])
    for name in rows:  # one by one, so that not all are there twice
        rows[name] = rows[name][order]
    constants = {name: journal.writer[name] for name in ("writer", "rank")}
    with _database(temporary, stopper) as database:
        stopper.check()
        database.register("row", rows)
        database.register("name", sites(journal))
        columns = ", ".join(
            f"{_source(name, constants)}::{type_} AS {quoted(name)}"
            for name, type_ in SCHEMAS[table].items()
        )
        copied = database.execute(
            f"COPY (SELECT {columns} FROM row LEFT JOIN name ON row.site = name.site) "
            f"TO {literal(str(temporary))} (FORMAT parquet, COMPRESSION zstd, "
            f"PARQUET_VERSION v2, ROW_GROUP_SIZE {ROW_GROUP}, USE_TMP_FILE false)"
        ).fetchone()
    if copied != (size,):
        raise OSError(f"{temporary} should have {size} rows. Received: {copied}")
    return _publish(temporary, journal, table, size)


def _publish(temporary: Path, journal: Journal, table: str, rows: int) -> dict[str, Json]:
    """Sync the file and give it its name, which contains its checksum."""
    with temporary.open("r+b") as file:
        os.fsync(file.fileno())
        checksum, size = google_crc32c.Checksum(), 0
        while chunk := file.read(1 << 20):
            checksum.update(chunk)
            size += len(chunk)
    text = checksum.digest().hex()
    name = names.segment(journal.writer["writer"], int(journal.writer["number"]), table, text)
    atomic.publish(temporary, temporary.with_name(name))
    return {"file": name, "bytes": size, "rows": rows, "crc32c": text}


@contextlib.contextmanager
def _database(file: Path, stopper: Stopper) -> Iterator[DuckDBPyConnection]:
    """A DuckDB database that can write this file, and touch nothing else."""
    stopper.check()
    stopper.is_in_database = True
    try:
        duckdb = import_duckdb()
        stopper.check()
        # One thread, so that training keeps its cores.
        database = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "1GB"})
        try:
            database.execute("SET preserve_insertion_order = true")
            # The join must keep the order of the rows, and look up the sites.
            database.execute("SET disabled_optimizers = 'build_side_probe_side,join_order'")
            lock_down(database, [file])
            stopper.watch(database)
            stopper.check()
            yield database
        except duckdb.InterruptException:
            raise Interrupted from None
        except duckdb.IOException as error:
            raise OSError(str(error)) from error
        finally:
            database.close()
    finally:
        stopper.is_in_database = False


def _source(column: str, constants: dict[str, Json]) -> str:
    if column in constants:
        value = constants[column]
        return literal(value) if isinstance(value, str) else str(int(value))
    if column == "micro_batch":
        return f"nullif(row.micro_batch, {NO_MICRO_BATCH})"
    return f"{'name' if column in ('kind', 'path', 'group') else 'row'}.{quoted(column)}"
