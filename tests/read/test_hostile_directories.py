"""Directories that nobody's training has made: what is wrong is in `run.damage`, in words."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess

import google_crc32c
import numpy as np
import pytest

import gradwatch
from gradwatch.core import FIELDS
from gradwatch.store import columns, frames
from gradwatch.store import file_names as names
from gradwatch.util.files import checked_json
from tests.cli.support import invoke
from tests.store.recorded import Recorder

WRITER = "20261116T100000000-r0000-0123abcd"
ABOUT = {
    "format": 1, "writer": WRITER, "rank": 0, "host": "x", "pid": 1, "process_start": 1,
    "started": 1.7e9, "number": 0,
}  # fmt: skip
SITES = {"first": 0, "sites": [["gradient", "a/kernel", ""]]}
WHEN = {"step": 1, "epoch": 1, "time": 1.7e9, "micro_batch": None, "attempt": 1, "lost_rows": 0}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("whole")
    for name in ("a", "b"):
        Recorder(place / name).write(range(1, 11)).close()
        (place / name / "run.json").write_bytes(checked_json.dumps({"format": 2}))
    # Not closed, which would seal it a little later.
    Recorder(place / "a", first_step=11).write(range(11, 16))
    return place


@pytest.fixture
def place(whole, tmp_path):
    """A run of two writers, one sealed, in a folder with another that is whole."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return tmp_path / "a"


def damage(place):
    """What is wrong with a run; it is listed and shown, and so is the one beside it."""
    listed = json.loads(invoke("ls", place.parent, "--json", code=1).output)
    assert [(e["name"], e["status"] == "broken") for e in listed] == [("a", False), ("b", False)]
    assert listed[1]["damage"] == []
    with gradwatch.open(place) as run:
        assert [each["what"] for each in listed[0]["damage"]] == [d.what for d in run.damage]
        run.sql("select * from all_summaries").fetchall()
        return run.damage


def file_of(place, which):
    found = sorted(place.glob(which))
    return found[0] if found else place / which


def put(path, what):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            folder = os.open(path.parent, os.O_RDONLY)
            made.bind(f"/proc/self/fd/{folder}/s")  # Paths of sockets must be short.
            os.close(folder)
        (path.parent / "s").rename(path)
    elif what == "directory":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "loop": path.name, "nothing": "nowhere"}[what])


@pytest.mark.parametrize("what", ["pipe", "socket", "directory", "device", "loop", "nothing"])
@pytest.mark.parametrize(
    "which", ["run.json", "manifest-*", "journal-*", "segments/*", "segments", "findings.jsonl"]
)
def test_what_is_no_file_is_named_and_not_waited_for(place, which, what):
    path = file_of(place, which)
    put(path, what)
    if (which, what) in (("findings.jsonl", "nothing"), ("segments", "directory")):
        return
    found = damage(place)
    assert any(d.file.name == path.name or d.file.parent == path for d in found)
    if what in ("pipe", "socket", "directory", "device") and which != "segments":
        assert any(f"it is a {what}, not a file" in each.what for each in found)


@pytest.mark.parametrize("which", ["run.json", "manifest-*", "journal-*", "segments/*"])
def test_a_file_of_terabytes_is_named_and_not_read(place, which):
    path = file_of(place, which)
    os.truncate(path, 4 << 40)
    assert any(d.file.name == path.name and "bytes" in d.what for d in damage(place))


def test_a_segment_without_a_manifest_that_is_far_too_large_is_not_read(place):
    os.truncate(file_of(place, "segments/*"), 4 << 40)
    file_of(place, "manifest-*").unlink()
    assert any("4,398,046,511,104 bytes" in d.what for d in damage(place))


def test_a_folder_named_as_a_description_hides_no_runs(place):
    (place.parent / "run.json").mkdir()
    assert gradwatch.open(place.parent).names == ["a", "b"]


def test_directories_that_are_nested_a_thousand_times_hide_no_runs(place, monkeypatch):
    monkeypatch.chdir(place)
    for _ in range(1500):
        os.mkdir("x")  # noqa: PTH102 - its path is too long for any other way
        os.chdir("x")
    (place.parent / "y").symlink_to(place.parent)
    try:
        assert gradwatch.open(place.parent).names == ["a", "b"]
        assert [each["name"] for each in json.loads(invoke("ls", place.parent, "--json").output)]
    finally:
        subprocess.run(["rm", "-rf", place / "x"], check=True, timeout=60)


def with_manifest(place, **changes):
    path = file_of(place, "manifest-*")
    path.write_bytes(checked_json.dumps({**checked_json.read(path), **changes}))
    return damage(place)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"newest": 10**7}, "newest: 10000000"),
        ({"newest": "x"}, "newest: 'x' is no whole number"),
        ({"sites": 5}, "sites: 5 is no list"),
        ({"sites": [["gradient", 3, ""]]}, "3 is no text"),
        ({"sites": [["gradient"]]}, "is no site"),
        ({"sites": [["gradient", "a", ""]] * 2}, "one site has two numbers"),
        ({"attempts": "x"}, "attempts: 'x' is no list"),
        ({"attempts": [{"attempt": 1, "first_step": 10**400}]}, "is too large"),
        ({"groups": {"g": ["x"]}}, "groups: 'x' is no whole number"),
        ({"segments": [3]}, "3 is no mapping"),
        ({"writer": "../../x"}, "it is of '../../x'"),
        ({"rank": 10**9}, "rank 1000000000"),
        ({"started": "x"}, "started: 'x' is no time"),
        ({"format": "x"}, "'x' is no whole number"),
    ],
)
def test_a_manifest_that_no_writer_writes_is_damage(place, changes, what):
    (found,) = with_manifest(place, **changes)
    assert what in found.what
    with gradwatch.open(place) as run:
        assert run.steps().tolist() == list(range(1, 16))  # The segments have their names.


def test_a_thousand_million_missing_journals_are_one_sentence(place):
    path = file_of(place, "manifest-*")
    entry = {"number": 10**9, "lost_rows": 0, "tables": {}}
    file_of(place, "journal-*").unlink()  # Of this process, which runs.
    segments = [*checked_json.read(path)["segments"], entry]
    (found,) = with_manifest(place, newest=10**9, segments=segments)
    assert "journals after it are missing" in found.what
    done = gradwatch.maintain.repair(place)
    assert done.rebuilt
    assert len(checked_json.read(path)["segments"]) < 20_000


def written(place, *records):
    """A journal of these records, whose checksums are right, and what is wrong with it."""
    path = names.journal(place, WRITER, 0)
    path.write_bytes(b"".join(frames.encode(k, i, data) for i, (k, data) in enumerate(records)))
    return [each.what for each in damage(place)]


def packed(facts, *arrays):
    """A payload: of each array its name, form, length, type and bytes."""
    text = json.dumps([facts, [array[:4] for array in arrays]]).encode()
    return struct.pack("<I", len(text)) + text + b"".join(array[4] for array in arrays)


def constant(name, size, dtype="<f8"):
    return [name, "=", size, dtype, np.zeros(min(size, 1), dtype).tobytes()]


HEAD = [("W", columns.pack(ABOUT, {})), ("S", columns.pack(SITES, {}))]
CELLS = ("cell_row", "cell", "cell_count")


def reading(rows, cells):
    return packed(
        WHEN,
        constant("site", rows, "<i8"),
        *(constant(name, rows) for name in FIELDS),
        *(constant(name, cells, "<i8") for name in CELLS),
    )


@pytest.mark.parametrize(("rows", "cells"), [(10**8, 0), (1, 10**8), (1 << 31, 1 << 31)])
def test_a_small_journal_that_asks_for_gigabytes_gets_none(place, rows, cells):
    assert written(place, *HEAD, ("R", reading(rows, cells))) == [
        "record 2 cannot be understood: one site several times"
    ]


@pytest.mark.parametrize(
    ("kind", "payload", "what"),
    [
        ("S", columns.pack({**SITES, "first": 10**9}, {}), "1000000000 is too large"),
        ("S", columns.pack({**SITES, "sites": [[1, 2, 3]]}, {}), "1 is no text"),
        ("S", columns.pack({**SITES, "first": 1}, {}), "one site has two numbers"),
        ("A", columns.pack({"attempt": 1, "first_step": None}, {}), "first_step"),
        ("F", columns.pack({"groups": [1]}, {}), "[1] is no mapping"),
        ("E", columns.pack({"time": "x"}, {}), "'x' is no time"),
        ("P", columns.pack({**WHEN, "site": 0}, {"png": np.zeros(3)}), "picture"),
        ("R", packed({**WHEN, "time": 1e300}), "1e+300 is no time"),
        ("R", packed({**WHEN, "step": 1 << 60}), "is too large"),
        ("R", packed(WHEN, ["site", "<f8", -1, "<f8", b""]), "an impossible length"),
        ("R", packed([1]), "no mapping"),
        ("R", b"\x10\x00\x00\x00[[[", "JSON"),
        ("W", columns.pack({**ABOUT, "writer": "../../x"}, {}), "it is of '../../x'"),
        ("W", columns.pack({**ABOUT, "rank": "0"}, {}), "rank: '0'"),
    ],
)
def test_a_record_that_no_writer_writes_is_damage(place, kind, payload, what):
    (found,) = written(place, *HEAD, (kind, payload))
    assert "record 2 cannot be understood" in found
    assert what in found


def test_deep_json_is_damage(place):
    (place / "run.json").write_bytes(b'{"a":' + b"[" * 10**6)
    assert any("run.json" in str(each) for each in damage(place))
    text = b"[" * 10**6
    assert written(place, *HEAD, ("R", struct.pack("<I", len(text)) + text))


def test_a_journal_full_of_damage_is_told_in_few_words(place):
    found = written(place, *HEAD, *[("?", b"")] * 1000)
    assert len(found) == 21
    assert found[-1] == "980 more places like these"


def test_a_journal_of_a_million_beginnings_is_not_searched_for_ever(place):
    path = names.journal(place, WRITER, 0)
    header = struct.pack("<4sBxxxIII", frames.MAGIC, ord("R"), 9, 1 << 20, 5)
    path.write_bytes(header * 500_000)
    assert any("are damaged" in each.what for each in damage(place))


def test_a_segment_with_the_right_checksum_that_is_no_table_is_damage(place, tmp_path):
    import duckdb

    other = tmp_path / "x.parquet"
    duckdb.execute(f"COPY (SELECT 1 AS a) TO '{other}' (FORMAT parquet)")
    for number, data in enumerate((b"PAR1 hello PAR1", other.read_bytes())):
        checksum = f"{google_crc32c.value(data):08x}"
        name = names.segment(WRITER, number, "summaries", checksum)
        (place / "segments" / name).write_bytes(data)
    other.unlink()
    found = [each.what for each in damage(place)]
    assert ["it is no Parquet file" in found[0], "no column" in found[1]] == [True, True]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"fits": 3}, "fits is 3, not a list"),
        ({"fits": [{"ranks": 10**9}]}, "fits[0].ranks is 1000000000, not a possible number"),
        ({"fits": [{"environment": [], "meaning": 3}]}, "fits[0].environment is []"),
        ({"model": {"layers": [{"path": 3}]}}, "model.layers[0].path is 3, not a text"),
        ({"diagnose": {"silences": [{"rule": "x"}]}}, "not what has a where"),
        ({"sites": [{"kind": "gradient", "path": 7}]}, "sites[0].path is 7"),
        ({"cost": {"fraction": "x"}}, "cost.fraction is 'x', not a number"),
        ({"fit_count": -1}, "fit_count is -1"),
        ({"tags": "x", "note": 5, "config": []}, "tags is 'x', not a list"),
    ],
)
def test_a_description_of_other_types_is_damage_and_the_rest_of_it_counts(place, content, what):
    (place / "run.json").write_bytes(checked_json.dumps({"format": 2, "ended": "now", **content}))
    (found,) = damage(place)
    assert what in found.what
    with gradwatch.open(place) as run:
        assert run.facts["ended"] == "now"


@pytest.mark.parametrize("line", [{}, {"event": "found"}, {"diagnosis": 3, "event": "ended"}])
def test_a_line_of_findings_that_is_none_is_damage(place, line):
    data = json.dumps(json.loads(checked_json.dumps(line))).encode()
    (place / "findings.jsonl").write_bytes(data + b"\n")
    (found,) = damage(place)
    assert "line 1 cannot be read" in found.what


@pytest.mark.parametrize("what", ["pipe", "directory", "device", "loop"])
@pytest.mark.parametrize("which", ["run.json", "findings.jsonl", "segments"])
def test_a_training_into_such_a_directory_is_recorded(tmp_path, which, what):
    put(tmp_path / which, what)
    with gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.Store()]) as monitor:
        for _ in range(3):
            monitor.record(gradients={"a/kernel": np.full(3, np.nan)})
    with gradwatch.open(monitor.directory) as run:
        assert run.steps("gradient").tolist() == [1, 2, 3]
