"""What is in a run's directory, found without the reader: by the rule in the store's README."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import google_crc32c

from gradwatch.store.journal import Journal
from gradwatch.util.files import checked_json


@dataclass
class Written:
    """All rows of a run: (kind, path, group, step, micro_batch, attempt, the ten numbers)."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    cells: list[tuple[Any, ...]] = field(default_factory=list)
    pictures: list[tuple[Any, ...]] = field(default_factory=list)
    lost_rows: int = 0
    attempts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ended: dict[str, Any] = field(default_factory=dict)
    sealed: list[tuple[str, int]] = field(default_factory=list)
    journals: list[Path] = field(default_factory=list)

    @property
    def steps(self) -> list[int]:
        return sorted({row[3] for row in self.rows})


FIELDS = "count, nan, posinf, neginf, zeros, sum, sum_abs, sum_squares, min, max"
NAMES = 'kind, path, "group", step, micro_batch, attempt'
SELECTED = {"summaries": FIELDS, "histograms": "cell, cell_count", "pictures": "png"}


def written(directory: Path) -> Written:
    """All that a reader can find there; fails on any damage."""
    while True:
        before = _state(directory)
        try:
            found = _found(directory)
        except FileNotFoundError:
            if _state(directory) == before:
                raise
            continue
        # Else a journal was sealed meanwhile, and counts twice or not at all.
        if _state(directory) == before:
            return found


def _state(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("*-*") if path.suffix in (".gwj", ".json")}


def _found(directory: Path) -> Written:
    found = Written()
    for path in sorted(directory.glob("manifest-*.json")):
        manifest = checked_json.read(path)
        found.attempts[manifest["writer"]] = manifest["attempts"]
        found.ended[manifest["writer"]] = manifest["ended"]
        for entry in manifest["segments"]:
            found.sealed.append((manifest["writer"], entry["number"]))
            found.lost_rows += entry["lost_rows"]
            for table, about in entry["tables"].items():
                _take_segment(found, directory / "segments", table, about)
    for path in sorted(directory.glob("journal-*.gwj")):
        journal = Journal(path)
        journal.advance()
        assert not journal.damage, journal.damage
        if not journal.writer:
            continue
        if (journal.writer["writer"], journal.writer["number"]) not in found.sealed:
            found.journals.append(path)
            _take_journal(found, journal)
    return found


def _take_segment(found: Written, folder: Path, table: str, about: dict[str, Any]) -> None:
    path = folder / about["file"]
    data = path.read_bytes()
    assert len(data) == about["bytes"]
    assert f"{google_crc32c.value(data):08x}" == about["crc32c"] == path.name.split(".")[2]
    names = NAMES.replace("micro_batch", "NULL") if table == "pictures" else NAMES
    rows = duckdb.execute(
        f"SELECT {names}, {SELECTED[table]} FROM read_parquet(?)", [str(path)]
    ).fetchall()
    assert len(rows) == about["rows"]
    _list(found, table).extend(rows)


def _take_journal(found: Written, journal: Journal) -> None:
    found.attempts[journal.writer["writer"]] = journal.attempts
    found.ended[journal.writer["writer"]] = journal.end
    for block in journal.readings:
        about, columns = block.facts, block.arrays
        found.lost_rows += about["lost_rows"]
        names = [
            (*journal.sites[i], about["step"], about["micro_batch"], about["attempt"])
            for i in columns["site"]
        ]
        numbers = zip(*(columns[name.strip()] for name in FIELDS.split(",")), strict=True)
        found.rows += [(*name, *n) for name, n in zip(names, numbers, strict=True)]
        cells = zip(columns["cell_row"], columns["cell"], columns["cell_count"], strict=True)
        found.cells += [(*names[row], cell, count) for row, cell, count in cells]
    for block in journal.pictures:
        about = block.facts
        names = (*journal.sites[about["site"]], about["step"], None, about["attempt"])
        found.pictures.append((*names, block.arrays["png"].tobytes()))
    found.lost_rows += (journal.end or {}).get("lost_rows", 0)


def _list(found: Written, table: str) -> list[tuple[Any, ...]]:
    return {"summaries": found.rows, "histograms": found.cells, "pictures": found.pictures}[table]
