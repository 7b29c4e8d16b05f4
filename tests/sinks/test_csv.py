from __future__ import annotations

import ast
import csv
import io
import math
import shutil
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwatch.core import COUNTS, KINDS, STATISTICS, Kind, Site
from gradwatch.sinks import CSV, RunInfo
from gradwatch.sinks.csv import columns, rows, safe

SITE = Site(Kind.WEIGHT, "net/dense/kernel")


def write(directory, readings, **options):
    sink = CSV(**options)
    sink.open(RunInfo(directory))
    for reading in readings:
        sink.write(reading)
    sink.close()


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def test_the_table_has_one_row_per_step_and_site_with_every_statistic(tmp_path, make_reading):
    random = np.random.default_rng(0)
    arrays = {
        Site(kind, f"net/{name}"): random.normal(size=50)
        for kind in KINDS.values()
        for name in ("kernel", "bias")
    }
    readings = [make_reading(step, arrays, epoch=step, time=step / 3) for step in (1, 2)]
    write(tmp_path, readings)
    table = read(tmp_path / "summaries.csv")
    assert list(table[0]) == ["step", "epoch", "time", "kind", "path", *STATISTICS, "update_ratio"]
    assert len(table) == 2 * len(arrays)
    for row, (reading, i) in zip(
        table, [(r, i) for r in readings for i in range(len(arrays))], strict=True
    ):
        site = reading.sites[i]
        assert (int(row["step"]), int(row["epoch"])) == (reading.step, reading.epoch)
        assert float(row["time"]) == reading.time
        assert (row["kind"], row["path"]) == (str(site.kind), site.path)
        for name in STATISTICS:
            assert float(row[name]) == reading.statistic(name)[i]
            assert ("." not in row[name]) == (name in COUNTS)
        weight = arrays[Site(Kind.WEIGHT, site.path)]
        if site.kind is Kind.UPDATE:
            ratio = np.linalg.norm(arrays[site]) / np.linalg.norm(weight)
            np.testing.assert_allclose(float(row["update_ratio"]), ratio, rtol=1e-12)
        else:
            assert row["update_ratio"] == ""


def test_values_that_are_not_finite_are_written_as_such(tmp_path, make_reading):
    write(tmp_path, [make_reading(1, {SITE: [np.nan]}), make_reading(2, {SITE: [1e200, -1e200]})])
    undefined, huge = read(tmp_path / "summaries.csv")
    assert (undefined["mean"], undefined["nan"], undefined["min"]) == ("nan", "1", "nan")
    assert (huge["l2"], huge["max"]) == ("inf", "1e+200")
    assert math.isnan(float(undefined["mean"]))


def test_counts_beyond_float32_are_written_exactly(make_reading):
    reading = make_reading(1, {SITE: [1.0]})
    reading.summary.count[0] = 2.0**53 - 1
    assert "9007199254740991" in rows(reading).split(",")


def test_a_resumed_run_goes_on_in_the_same_table(tmp_path, make_reading):
    for step in (1, 2):
        write(tmp_path, [make_reading(step, {SITE: [1.0]})])
    assert [row["step"] for row in read(tmp_path / "summaries.csv")] == ["1", "2"]
    assert [path.name for path in tmp_path.iterdir()] == ["summaries.csv"]


def test_a_table_with_other_columns_is_left_alone_and_the_next_name_taken(tmp_path, make_reading):
    (tmp_path / "summaries.csv").write_text("step,loss\n1,0.5\n")
    (tmp_path / "summaries-2.csv").write_text("something else entirely")
    for step in (1, 2):
        write(tmp_path, [make_reading(step, {SITE: [1.0]})])
    assert (tmp_path / "summaries.csv").read_text() == "step,loss\n1,0.5\n"
    assert (tmp_path / "summaries-2.csv").read_text() == "something else entirely"
    assert [row["step"] for row in read(tmp_path / "summaries-3.csv")] == ["1", "2"]


def test_after_a_crash_at_any_byte_the_table_goes_on_whole(tmp_path, make_reading):
    path = tmp_path / "summaries.csv"
    write(
        tmp_path,
        [make_reading(step, {SITE: [0.5], Site(Kind.UPDATE, "u"): [1]}) for step in (1, 2)],
    )
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        write(tmp_path, [make_reading(9, {SITE: [0.5]})])
        table = read(path)
        complete = sum(end <= size for end in ends[1:])
        assert [row["step"] for row in table] == [*["1", "1", "2", "2"][:complete], "9"]
        assert all(len(row) == len(columns()) and None not in row.values() for row in table)
    assert [p.name for p in tmp_path.iterdir()] == ["summaries.csv"]


def test_a_torn_line_longer_than_a_block_is_cut_off(tmp_path, make_reading):
    path = tmp_path / "summaries.csv"
    header = (",".join(columns()) + "\n").encode()
    path.write_bytes(header + b"1,torn" + b"\0" * 200_000)
    write(tmp_path, [make_reading(1, {SITE: [1.0]})])
    assert len(path.read_bytes().splitlines()) == 2
    assert len(read(path)) == 1


HOSTILE = [
    "nul\0",
    "new\nline",
    "cr\rlf\r\n",
    'quote"comma,',
    "lone\ud800",
    "日本🙂",
    "\u2028",
    "a\\nb",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_line_and_can_be_read_back(tmp_path, make_reading, name):
    write(tmp_path, [make_reading(1, {Site(Kind.WEIGHT, name): [1.0]})])
    text = (tmp_path / "summaries.csv").read_text(encoding="utf-8")
    assert len(text.splitlines()) == 2
    (row,) = read(tmp_path / "summaries.csv")
    assert unescape(row["path"]) == name


def unescape(text):
    quoted = text.replace('"', '\\"')
    return ast.literal_eval(f'"{quoted}"')


@settings(deadline=None)
@given(st.text(st.characters(codec=None)))
def test_every_name_survives_the_csv_module_and_can_be_told_from_every_other(name):
    text = io.StringIO()
    csv.writer(text).writerow([safe(name), "x"])
    text.seek(0)
    (row,) = csv.reader(text, strict=True)
    assert row == [safe(name), "x"]
    row[0].encode("utf-8")
    guarded = name[:1] in ("=", "+", "-", "@", "\t", "\r") and name != ""
    assert row[0].startswith("'") == (guarded or name.startswith("'"))
    assert unescape(row[0][1:] if guarded else row[0]) == name


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_name_that_looks_like_a_formula_is_quoted(start):
    assert safe(f"{start}cmd|' /C calc'!A0").startswith("'")
    assert safe(f"a{start}") == "a" + start.replace("\t", "\\t").replace("\r", "\\r")


def test_a_deleted_directory_is_made_anew_with_a_header(tmp_path, make_reading):
    directory = tmp_path / "run"
    sink = CSV()
    sink.open(RunInfo(directory))
    sink.write(make_reading(1, {SITE: [1.0]}))
    shutil.rmtree(directory)
    sink.write(make_reading(2, {SITE: [1.0]}))
    sink.close()
    assert [row["step"] for row in read(directory / "summaries.csv")] == ["2"]


def test_on_a_full_disk_the_table_stays_whole_and_writing_resumes(small_disk, make_reading):
    arrays = {Site(Kind.GRADIENT, f"layer{i}/k"): [0.1, 0.2] for i in range(60)}
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 30_000)
    sink = CSV()
    sink.open(RunInfo(small_disk))
    written = []
    for step in range(1, 30):
        if step == 10:
            ballast.unlink()
        try:
            sink.write(make_reading(step, arrays))
            written.append(step)
        except OSError as fault:
            assert "No space" in str(fault)  # noqa: PT017
    sink.close()
    table = read(small_disk / "summaries.csv")
    assert [int(row["step"]) for row in table] == [step for step in written for _ in range(60)]
    assert 1 in written
    assert 9 not in written
    assert 10 in written
    assert 29 not in written


def test_two_writers_of_one_table_interleave_whole_rows(tmp_path, make_reading):
    reading = {
        name: make_reading(1, {Site(Kind.WEIGHT, f"{name}/{i}"): [1.0] for i in range(9)})
        for name in "ab"
    }
    sinks = {name: CSV() for name in "ab"}
    for sink in sinks.values():
        sink.open(RunInfo(tmp_path))
        sink.write(make_reading(0, {SITE: [1.0]}))

    def work(name):
        for _ in range(50):
            sinks[name].write(reading[name])

    threads = [threading.Thread(target=work, args=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sink in sinks.values():
        sink.close()
    table = read(tmp_path / "summaries.csv")
    assert len(table) == 2 + 2 * 50 * 9
    assert all(None not in row and None not in row.values() for row in table)


def test_the_file_name_can_be_chosen(tmp_path, make_reading):
    write(tmp_path, [make_reading(1, {SITE: [1.0]})], filename="table.csv")
    assert len(read(tmp_path / "table.csv")) == 1
