"""Exporting a query to a file, with DuckDB's COPY."""

import json

import duckdb
import pytest

import gradwatch
from gradwatch.read import QueryError, export_table


@pytest.fixture
def run(tmp_path):
    with gradwatch.Monitor(tmp_path / "run", every=1, sinks=[gradwatch.Store()]) as monitor:
        for step in range(1, 4):
            monitor.record(step=step, loss=0.5 * step)
    return gradwatch.open(tmp_path / "run")


QUERY = "SELECT step, path, value FROM losses WHERE step >= ? ORDER BY step"
ROWS = [(2, "loss", 1.0), (3, "loss", 1.5)]


def test_every_format_holds_the_rows_of_the_query(run, tmp_path):
    for format in ("csv", "json", "jsonl", "parquet"):
        file = tmp_path / f"out.{format}"
        assert export_table(run, QUERY, file, format, [2]) == 2
        if format in ("json", "jsonl"):
            text = file.read_text()
            found = json.loads(text) if format == "json" else map(json.loads, text.splitlines())
            assert [tuple(row.values()) for row in found] == ROWS
        else:
            assert duckdb.sql(f"SELECT * FROM '{file}'").fetchall() == ROWS
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "out.csv",
        "out.json",
        "out.jsonl",
        "out.parquet",
        "run",
    ]


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO '{other}'",
        "WITH a AS (COPY (SELECT 1) TO '{other}') SELECT * FROM a",
        "SELECT * FROM '{other}'",
        "SELECT * FROM read_csv('{other}')",
        "SELECT 1) TO '{other}' (FORMAT csv); COPY (SELECT 1",
        "SELECT nothing",
    ],
)
def test_an_export_reads_and_writes_no_other_file(run, tmp_path, query):
    other, file = tmp_path / "other.csv", tmp_path / "out.csv"
    other.write_text("secret\n1\n")
    file.write_text("old")
    with pytest.raises(QueryError):
        export_table(run, query.format(other=other), file, "csv")
    assert other.read_text() == "secret\n1\n"
    assert file.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.csv", "out.csv", "run"]


def test_an_unknown_format_is_refused(run, tmp_path):
    with pytest.raises(ValueError, match="csv, json, jsonl, parquet"):
        export_table(run, "SELECT 1", tmp_path / "out.xml", "xml")
