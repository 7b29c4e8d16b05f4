"""The formats that `export` writes; each takes rows in chunks."""

import csv
import io
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gradwatch.core import STATISTICS
from gradwatch.sinks import safe
from gradwatch.store import literal, quoted
from gradwatch.util import printable
from gradwatch.view.data import jsonable

Rows = Sequence[tuple[Any, ...]]
Columns = Mapping[str, str]

SUFFIXES = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def cell(text: str) -> str:
    """A text in a CSV file: as in the CSV sink, with direction marks and the like escaped."""
    return printable(safe(text))


class Csv:
    """As the CSV sink: names are safe for spreadsheets, numbers read back the same."""

    def __init__(self, out: BinaryIO, columns: Columns, directory: Path | None) -> None:
        self._text = io.TextIOWrapper(out, "utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._writer.writerow(columns)
        self._is_text = [type_ == "VARCHAR" for type_ in columns.values()]
        # As in the sink, an undefined statistic is nan; other missing values are empty.
        self._missing = ["nan" if name in STATISTICS else "" for name in columns]

    def write(self, rows: Rows) -> None:
        about = list(zip(self._is_text, self._missing, strict=True))
        self._writer.writerows(
            [
                missing if value is None else cell(value) if is_text else value
                for value, (is_text, missing) in zip(row, about, strict=True)
            ]
            for row in rows
        )

    def end(self) -> None:
        self._text.detach()


class JsonLines:
    """One JSON object a line."""

    def __init__(self, out: BinaryIO, columns: Columns, directory: Path | None) -> None:
        self._out, self._names = out, list(columns)

    def write(self, rows: Rows) -> None:
        self._out.write(b"".join(line + b"\n" for line in self._lines(rows)))

    def end(self) -> None:
        """All rows are written."""

    def _lines(self, rows: Rows) -> list[bytes]:
        named = (zip(self._names, map(jsonable, row), strict=True) for row in rows)
        return [json.dumps(dict(row), allow_nan=False).encode("ascii") for row in named]


class Json(JsonLines):
    """One JSON array of objects."""

    def __init__(self, out: BinaryIO, columns: Columns, directory: Path | None) -> None:
        super().__init__(out, columns, directory)
        self._start = b"[\n"

    def write(self, rows: Rows) -> None:
        if rows:
            self._out.write(self._start + b",\n".join(self._lines(rows)))
            self._start = b",\n"

    def end(self) -> None:
        self._out.write(b"[]\n" if self._start == b"[\n" else b"\n]\n")


class Parquet:
    """A Parquet file, through a database on disk, so that memory does not grow."""

    def __init__(self, out: BinaryIO, columns: Columns, directory: Path | None) -> None:
        import tempfile

        import duckdb

        self._out, self._columns = out, dict(columns)
        self._folder = tempfile.TemporaryDirectory(prefix=".gradwatch-export-", dir=directory)
        self._database = duckdb.connect(str(Path(self._folder.name, "rows.duckdb")))
        self._database.execute("SET memory_limit = '512MB'")
        types = ", ".join(f"{quoted(name)} {type_}" for name, type_ in columns.items())
        self._database.execute(f"CREATE TABLE rows ({types})")

    def write(self, rows: Rows) -> None:
        if not rows:
            return
        given: dict[str, Any] = {}
        for i, type_ in enumerate(self._columns.values()):
            values = [row[i] for row in rows]
            kind, nothing = {"VARCHAR": (object, ""), "DOUBLE": (np.float64, 0.0)}.get(
                type_, (np.int64, 0)
            )
            given[f"v{i}"] = np.array([nothing if v is None else v for v in values], kind)
            given[f"m{i}"] = np.array([v is None for v in values])
        cells = ", ".join(f"CASE WHEN m{i} THEN NULL ELSE v{i} END" for i in range(len(given) // 2))
        self._database.register("given", given)
        self._database.execute(f"INSERT INTO rows SELECT {cells} FROM given")
        self._database.unregister("given")

    def end(self) -> None:
        path = Path(self._folder.name, "rows.parquet")
        self._database.execute(
            f"COPY rows TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)"
        )
        with path.open("rb") as file:
            shutil.copyfileobj(file, self._out)
        self.close()

    def close(self) -> None:
        """Remove the temporary files."""
        self._database.close()
        self._folder.cleanup()


FORMATS: dict[str, Callable[[BinaryIO, Columns, Path | None], Any]] = {
    "csv": Csv,
    "json": Json,
    "jsonl": JsonLines,
    "parquet": Parquet,
}
