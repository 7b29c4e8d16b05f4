"""The tables of a journal: what a segment holds, and what a reader sees of an unsealed one."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import COUNTS, FIELDS
from gradwatch.store.journal import Journal, JournalBlock

Table = dict[str, NDArray[Any]]

NO_MICRO_BATCH = -1
"""Stands for NULL, which a NumPy column of whole numbers cannot hold."""

KEYS = {
    "writer": "VARCHAR",
    "rank": "INTEGER",
    "attempt": "INTEGER",
    "site": "INTEGER",
    "kind": "VARCHAR",
    "path": "VARCHAR",
    "group": "VARCHAR",
    "step": "BIGINT",
    "epoch": "BIGINT",
    "time": "DOUBLE",
}
SCHEMAS: dict[str, dict[str, str]] = {
    "summaries": {
        **KEYS,
        "micro_batch": "INTEGER",
        **{name: "BIGINT" if name in COUNTS else "DOUBLE" for name in FIELDS},
    },
    "histograms": {**KEYS, "micro_batch": "INTEGER", "cell": "SMALLINT", "cell_count": "BIGINT"},
    "pictures": {**KEYS, "png": "BLOB"},
}
ORDER = {
    "summaries": "site, step, micro_batch, attempt",
    "histograms": "site, step, micro_batch, attempt, cell",
    "pictures": "site, step, attempt",
}


def tables(journal: Journal) -> dict[str, Table]:
    """The journal's rows by table, in the order written, without `kind`, `path` and `group`.

    Those follow from `site`: join `sites(journal)`. Rows of a site whose name was
    damaged are left out, as they cannot be shown; the journal's damage says so.
    """
    return {table: rows_of(journal, table) for table in SCHEMAS}


def rows_of(journal: Journal, table: str) -> Table:
    """The journal's rows of one table, as in `tables`; empty if there are none."""
    if table == "pictures":
        return _stack(journal, journal.pictures, _picture_rows)
    return _stack(journal, journal.readings, _ROWS[table])


def sites(journal: Journal) -> Table:
    """The journal's sites: `site`, `kind`, `path`, `group`."""
    known = [(number, *entry) for number, entry in enumerate(journal.sites) if entry is not None]
    numbers, *names = zip(*known, strict=True) if known else ((), (), (), ())
    table: Table = {"site": np.array(numbers, np.int32)}
    for name, values in zip(("kind", "path", "group"), names, strict=True):
        table[name] = np.array([encodable(value) for value in values], object)
    return table


def encodable(text: str) -> str:
    """The text with half surrogate pairs spelled out, which databases do not take."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _summary_rows(block: JournalBlock) -> Table:
    rows = {"site": block.arrays["site"]}
    for name in FIELDS:
        values = block.arrays[name]
        rows[name] = values.astype(np.int64) if name in COUNTS else values
    return rows


def _cell_rows(block: JournalBlock) -> Table:
    return {
        "site": block.arrays["site"][block.arrays["cell_row"]],
        "cell": block.arrays["cell"].astype(np.int16),
        "cell_count": block.arrays["cell_count"].astype(np.int64),
    }


def _picture_rows(block: JournalBlock) -> Table:
    png = np.empty(1, object)
    png[0] = block.arrays["png"].tobytes()
    return {"site": np.array([block.facts["site"]]), "png": png}


_ROWS = {"summaries": _summary_rows, "histograms": _cell_rows}


def _stack(
    journal: Journal, blocks: Sequence[JournalBlock], take: Callable[[JournalBlock], Table]
) -> Table:
    parts: list[Table] = []
    for block in blocks:
        rows = take(block)
        size = rows["site"].size
        micro_batch = block.facts.get("micro_batch")
        facts = {
            "attempt": np.int32(block.facts["attempt"]),
            "step": np.int64(block.facts["step"]),
            "epoch": np.int64(block.facts["epoch"]),
            "time": np.float64(block.facts["time"]),
            "micro_batch": np.int32(NO_MICRO_BATCH if micro_batch is None else micro_batch),
        }
        parts.append({n: np.full(size, value) for n, value in facts.items()} | rows)
    if not parts:
        return {}
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    table["site"] = table["site"].astype(np.int32)
    named = np.array([entry is not None for entry in journal.sites], bool)
    known = (
        (table["site"] < named.size) & named[np.minimum(table["site"], named.size - 1)]
        if (named.size)
        else np.zeros(table["site"].size, bool)
    )
    if not known.all():
        table = {name: values[known] for name, values in table.items()}
    return table if table["site"].size else {}
