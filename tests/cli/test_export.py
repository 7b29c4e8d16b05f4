"""`export` and `sql`: every row, in every format, and nothing half done."""

import csv
import io
import json

import duckdb
import numpy as np
import pytest

from gradwatch import CSV, Kind, Reading, Site, Summary
from gradwatch.core import Histogram
from gradwatch.sinks import RunInfo
from gradwatch.sinks.csv import columns
from gradwatch.store.writer import StoreWriter
from tests.cli.support import STEPS, arrays, invoke, make_run, spawn, strict


def sink_lines(directory, truth):
    """The table that the CSV sink writes of the same readings."""
    sink = CSV()
    sink.open(RunInfo(directory))
    for step in STEPS:
        rows = np.stack([Summary.of(series[step]).pack() for series in truth.values()])
        epoch = 1 + (step - 1) // 10
        sink.write(Reading(step, epoch, 1e9 + step, list(truth), Summary.unpack(rows)))
    sink.close()
    return (directory / "summaries.csv").read_text().splitlines()


def test_the_csv_is_the_csv_sinks_table_with_rank_replica_and_micro_batch(run, truth, tmp_path):
    invoke("export", run, "-o", tmp_path / "a.csv")
    exported = (tmp_path / "a.csv").read_text().splitlines()
    expected = sink_lines(tmp_path, truth)
    assert exported[0] == ",".join([*columns(), "rank", "replica", "micro_batch"])
    assert len(exported) == len(expected) == 1 + len(truth) * len(STEPS)
    for mine, sinks in zip(csv.reader(exported[1:]), csv.reader(expected[1:]), strict=True):
        assert mine[:5] == sinks[:5]
        assert mine[-3:] == ["0", "", ""]
        for name, cell, other in zip(columns()[5:], mine[5:-3], sinks[5:], strict=True):
            if "" in (cell, other):
                assert cell == other, name
            else:
                np.testing.assert_allclose(float(cell), float(other), rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("suffix", ["parquet", "json", "jsonl"])
def test_every_format_has_the_same_rows(run, truth, tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    invoke("export", run, "-o", path, "--kind", "update")
    if suffix == "parquet":
        result = duckdb.sql(f"select * from '{path}'")
        rows = [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]
    else:
        text = path.read_text()
        rows = strict(text) if suffix == "json" else [strict(line) for line in text.splitlines()]
    sites = [site for site in truth if site.kind is Kind.UPDATE]
    assert len(rows) == len(sites) * len(STEPS)
    assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)
    for row in rows:
        update = truth[Site(Kind.UPDATE, row["path"])][row["step"]]
        weight = truth[Site(Kind.WEIGHT, row["path"])][row["step"]]
        assert row["l2"] == pytest.approx(np.linalg.norm(update), rel=1e-12)
        ratio = np.linalg.norm(update) / np.linalg.norm(weight)
        assert row["update_ratio"] == pytest.approx(ratio, rel=1e-12)
        assert (row["rank"], row["replica"], row["micro_batch"]) == (0, None, None)


def test_a_selection_of_sites_and_steps_is_exported_alone(run):
    arguments = ("export", run, "--format", "jsonl", "--sites", "conv", "--kind", "gradient")
    lines = invoke(*arguments, "--steps", "38:").stdout.splitlines()
    rows = [strict(line) for line in lines]
    assert {row["path"] for row in rows} == {"net/conv/kernel", "net/conv/bias"}
    assert sorted({row["step"] for row in rows}) == [38, 39, 40]
    assert len(rows) == 6


def test_pieces_join_without_gap_or_repetition(run, truth, monkeypatch):
    whole = invoke("export", run).stdout
    monkeypatch.setattr("gradwatch.cli.export_rows.CHUNK_ROWS", 3 * len(truth))
    assert invoke("export", run).stdout == whole


def test_losses_are_a_table_of_their_own(tmp_path):
    truth = arrays()
    truth[Site(Kind.LOSS, "loss")][5][:] = float("inf")
    truth[Site(Kind.LOSS, "loss")][6][:] = float("nan")
    make_run(tmp_path / "a", truth)
    table = invoke("export", tmp_path / "a", "--table", "losses").stdout
    rows = list(csv.DictReader(io.StringIO(table)))
    for row in rows:
        expected = float(truth[Site(Kind.LOSS, "loss")][int(row["step"])][0])
        np.testing.assert_equal(float(row["value"]), expected)
    assert len(rows) == len(STEPS)
    lines = invoke("export", tmp_path / "a", "--table", "numbers", "--format", "jsonl").stdout
    values = [strict(line)["value"] for line in lines.splitlines()]
    assert values[4:6] == ["inf", "nan"]


def test_histograms_have_the_edges_of_their_cells(tmp_path):
    rng = np.random.default_rng(0)
    tensor = np.append(rng.normal(size=500), [0.0, 0.0, np.nan])
    site, taken = Site(Kind.GRADIENT, "a/kernel"), Histogram.of(tensor)
    writer = StoreWriter(tmp_path / "a")
    rows = Summary.unpack(taken.summary.pack()[None])
    writer.write(Reading(1, 1, 0.0, [site], rows, cells={0: taken.cells}))
    writer.close()
    table = invoke("export", tmp_path / "a", "--table", "histograms").stdout
    cells = list(csv.DictReader(io.StringIO(table)))
    assert sum(int(cell["elements"]) for cell in cells) == tensor.size
    for cell in cells:
        if cell["lower"] == "":
            inside = ~np.isfinite(tensor)
        elif float(cell["lower"]) == float(cell["upper"]):
            inside = tensor == float(cell["lower"])
        elif float(cell["upper"]) > 0:
            inside = (tensor >= float(cell["lower"])) & (tensor < float(cell["upper"]))
        else:
            inside = (tensor > float(cell["lower"])) & (tensor <= float(cell["upper"]))
        assert int(cell["elements"]) == inside.sum()


def test_a_file_is_replaced_only_when_that_is_asked_for(run, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("mine")
    message = invoke("export", run, "-o", path, code=2).stderr
    assert f"{path} exists" in message
    assert path.read_text() == "mine"
    invoke("export", run, "-o", path, "--force")
    assert path.read_text().startswith("step,")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_export_that_fails_leaves_nothing_behind(run, tmp_path, monkeypatch, suffix):
    def failing(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gradwatch.cli.export.row_chunks", failing)
    message = invoke("export", run, "-o", tmp_path / f"a.{suffix}", code=2).stderr
    assert "No space left on device" in message
    assert list(tmp_path.iterdir()) == []


def test_a_format_that_is_not_known_is_asked_for(run, tmp_path):
    message = invoke("export", run, "-o", tmp_path / "a.xls", code=2).stderr
    assert ".parquet" in message
    assert "--format" in message


def test_parquet_goes_to_a_pipe_too(run, tmp_path):
    with (tmp_path / "a.parquet").open("wb") as out:
        assert spawn("export", run, "--format", "parquet", stdout=out).wait() == 0
    ((rows,),) = duckdb.sql(f"select count(*) from '{tmp_path}/a.parquet'").fetchall()
    assert rows == len(arrays()) * len(STEPS)


def test_sql_answers_as_a_table_as_csv_and_as_json(run, truth):
    query = "select path, max(l2) as peak from summaries where kind = 'weight' group by path"
    rows = strict(invoke("sql", run, query, "--json").stdout)
    assert len(rows) == 4
    for row in rows:
        series = truth[Site(Kind.WEIGHT, row["path"])].values()
        assert row["peak"] == pytest.approx(max(map(np.linalg.norm, series)), rel=1e-12)
    table = invoke("sql", run, query, "--csv").stdout
    read = {row["path"]: float(row["peak"]) for row in csv.DictReader(io.StringIO(table))}
    assert read == {row["path"]: row["peak"] for row in rows}
    assert "net/conv/kernel" in invoke("sql", run, query).stdout
    assert "update_ratio" not in invoke("sql", run, "describe losses").stdout


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "copy summaries to '/tmp/x.csv'",
        "drop view summaries",
        "select 1; select 2",
        "selekt",
    ],
)
def test_sql_refuses_what_is_no_question_about_the_run(run, query):
    result = invoke("sql", run, query, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("gradwatch: ")
    assert result.stderr.count("\n") == 1


def test_json_of_sql_is_strict_whatever_the_numbers_are(run):
    query = "select 'nan'::double a, '-inf'::double b, null c, 'x'::blob d, date '2026-01-01' e"
    text = invoke("sql", run, query, "--json").stdout
    assert strict(text) == [{"a": "nan", "b": "-inf", "c": None, "d": "78", "e": "2026-01-01"}]
    assert json.loads(text)


def test_micro_batches_are_rows_of_their_own_and_merge_where_one_number_is_shown(tmp_path):
    rng = np.random.default_rng(0)
    site = Site(Kind.GRADIENT, "a/kernel")
    tensors = {(step, part): rng.normal(size=6) for step in (1, 2) for part in (0, 1)}
    writer = StoreWriter(tmp_path / "a")
    for (step, part), tensor in tensors.items():
        rows = Summary.unpack(Summary.of(tensor).pack()[None])
        writer.write(Reading(step, 1, 0.0, [site], rows, micro_batch=part))
    writer.close()
    lines = invoke("export", tmp_path / "a", "--format", "jsonl").stdout.splitlines()
    found = {(r["step"], r["micro_batch"]): r["l2"] for r in map(strict, lines)}
    assert found == pytest.approx({key: np.linalg.norm(t) for key, t in tensors.items()})
    both = np.linalg.norm(np.concatenate([tensors[2, 0], tensors[2, 1]]))
    facts = strict(invoke("show", tmp_path / "a", "--json").stdout)
    assert facts["layers"][0]["gradient_l2"] == pytest.approx(both, rel=1e-12)
    (entry,) = strict(invoke("show", tmp_path / "a", "--statistic", "l2", "--json").stdout)["sites"]
    assert (entry["steps"], entry["last"]) == (2, pytest.approx(both, rel=1e-12))
    last = strict(invoke("tail", tmp_path / "a", "--json").stdout.splitlines()[-1])
    assert last["gradient_l2"] == pytest.approx(both, rel=1e-12)
