"""Journals become segments without a row ever missing or counting twice."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gradwatch.core import Kind, Site
from gradwatch.store import segments
from gradwatch.store.sealing import Sealer, seal
from gradwatch.store.segments import Interrupted, Stopper
from gradwatch.store.writer import StoreWriter
from gradwatch.util.files import checked_json
from tests.store.written import written

W = Site(Kind.WEIGHT, "w")
STEPS = list(range(1, 6))


@pytest.fixture
def journal(tmp_path, make_reading):
    """A journal of five steps with histograms, which nobody writes to."""
    writer = StoreWriter(tmp_path)
    for step in STEPS:
        writer.write(make_reading(step, {W: np.arange(step)}, histograms=True))
    (path,) = tmp_path.glob("*.gwj")
    return path


def assert_whole(directory):
    found = written(directory)
    assert Counter((row[3], row[6]) for row in found.rows) == Counter((s, s) for s in STEPS)
    counted = Counter()
    for row in found.cells:
        counted[row[3]] += row[7]
    assert counted == {step: step for step in STEPS}
    return found


def leftovers(directory):
    return list(directory.rglob("*.tmp"))


def test_a_sealed_journal_is_replaced_by_its_segments(journal, tmp_path):
    assert seal(journal)
    assert not journal.exists()
    assert len(assert_whole(tmp_path).sealed) == 1
    assert leftovers(tmp_path) == []
    assert len(list((tmp_path / "segments").iterdir())) == 2


SEAL_AND_DIE = """
    import os, sys
    from pathlib import Path
    import duckdb
    from gradwatch.store.sealing import seal
    when, *journals = sys.argv[1:]

    def die_at(number):
        calls = 0
        def deadly(owner, name):
            original = getattr(owner, name)
            def call(*args, **kwargs):
                nonlocal calls
                calls += 1
                if calls == number and when == "before":
                    os._exit(3)
                result = original(*args, **kwargs)
                if calls == number and when == "after":
                    os._exit(3)
                return result
            setattr(owner, name, call)
        deadly(os, "fsync")
        deadly(os, "open")
        deadly(Path, "replace")
        deadly(Path, "unlink")
        deadly(Path, "mkdir")

    for number, journal in enumerate(journals, 1):
        if os.fork() == 0:
            die_at(number)
            os._exit(0 if seal(Path(journal)) else 1)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.slow)])
def test_sealing_that_is_killed_at_any_step_leaves_every_row_once(
    journal, tmp_path, run_script, when
):
    content = journal.read_bytes()
    copies = [tmp_path / "copies" / str(number) / journal.name for number in range(40)]
    for each in copies:
        each.parent.mkdir(parents=True)
        each.write_bytes(content)
    done = run_script(SEAL_AND_DIE, when, *copies)
    ends = [int(line) for line in done.stdout.split()]
    deaths = ends.index(0)
    assert deaths > 10
    assert ends == [3] * deaths + [0] * (len(copies) - deaths), done.stderr
    for each in copies[: deaths + 1]:
        assert_whole(each.parent)
        # And what a killed sealing left does not disturb the next.
        if not each.exists():
            each.write_bytes(content)
            assert_whole(each.parent)
        assert seal(each)
        assert assert_whole(each.parent).journals == []


def test_a_journal_that_counts_already_is_not_counted_twice_when_sealed_again(journal, tmp_path):
    content = journal.read_bytes()
    assert seal(journal)
    journal.write_bytes(content)
    assert seal(journal)
    assert len(assert_whole(tmp_path).sealed) == 1


@pytest.mark.parametrize("where", [0.2, 0.5, 0.95])
def test_a_damaged_journal_is_left_as_it_is(journal, tmp_path, where):
    content = bytearray(journal.read_bytes())
    content[int(where * len(content))] ^= 4
    journal.write_bytes(content)
    # How many frames there must be: damage to the last of them looks like a torn end.
    frames = 2 + 1 + len(STEPS)
    assert not seal(journal, frames)
    assert journal.read_bytes() == content
    assert sorted(tmp_path.iterdir()) == [journal]


def test_a_torn_end_does_not_keep_whole_frames_from_being_sealed(journal, tmp_path):
    with journal.open("ab") as file:
        file.write(b"\xf5GW1 torn")
    assert seal(journal, 2 + 1 + len(STEPS))
    assert_whole(tmp_path)


def test_beside_a_damaged_manifest_nothing_is_sealed(journal, tmp_path):
    name = journal.name.removeprefix("journal-").rpartition("-")[0]
    manifest = tmp_path / f"manifest-{name}.json"
    manifest.write_text("{ torn")
    assert not seal(journal)
    assert journal.exists()
    assert manifest.read_text() == "{ torn"
    assert not (tmp_path / "segments").exists()


def test_a_full_disk_leaves_the_journal_and_no_temporary_file(small_disk, make_reading):
    writer = StoreWriter(small_disk)
    rng = np.random.default_rng(0)
    sites = [Site(Kind.WEIGHT, f"w{i}") for i in range(60)]
    for step in range(1, 6):
        writer.write(make_reading(step, {site: rng.normal(size=9) for site in sites}))
    (journal,) = small_disk.glob("*.gwj")
    before = journal.read_bytes()
    (small_disk / "filler").write_bytes(bytes(65536 - 2 * 4096 - len(before)))
    for reserve in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not reserve:  # as if the space went while it was being written
                free = lambda _: type("Usage", (), {"free": 1 << 30})  # noqa: E731
                patch.setattr("shutil.disk_usage", free)
            with pytest.raises(OSError, match=r"[Ss]pace"):
                seal(journal)
        assert journal.read_bytes() == before
        assert leftovers(small_disk) == []
    (small_disk / "filler").unlink()
    assert seal(journal)
    assert len(written(small_disk).rows) == 300


def test_after_a_fault_of_the_disk_it_is_tried_again_but_not_at_once(journal, monkeypatch):
    tries = []

    def fails(*_):
        tries.append(time.monotonic())
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("gradwatch.store.sealing.seal", fails)
    sealer = Sealer()
    sealer.submit(journal, 3, delay=60.0)  # not before it is asked to finish
    # Also in the hurry of the process's end: it is not tried over and over.
    assert sealer.finish(time.monotonic() + 60)
    assert len(tries) == 1
    assert sealer.finish(time.monotonic() + 60)
    assert len(tries) == 2


def test_a_journal_deleted_meanwhile_is_forgotten(tmp_path, caplog):
    sealer = Sealer()
    sealer.submit(tmp_path / "journal.gwj", 3)
    assert sealer.finish(time.monotonic() + 60)
    assert caplog.text == ""


def test_sealing_that_is_stopped_leaves_the_journal(journal, tmp_path):
    stopper = Stopper()
    stopper.stop()
    with pytest.raises(Interrupted):
        seal(journal, stopper=stopper)
    assert journal.exists()
    assert leftovers(tmp_path) == []
    assert_whole(tmp_path)


def test_a_query_under_way_is_stopped_by_the_deadline(journal, tmp_path, monkeypatch):
    begun = threading.Event()
    write_table = segments._write_table

    def slow(*args):
        stopper = args[-1]
        with segments._database(tmp_path / "x", stopper) as database:
            begun.set()
            database.execute("SELECT count(*) FROM range(1000000000000) AS a").fetchall()
        return write_table(*args)

    monkeypatch.setattr(segments, "_write_table", slow)
    sealer = Sealer()
    sealer.submit(journal, 2 + 1 + len(STEPS))
    assert begun.wait(60)
    assert not sealer.finish(time.monotonic() + 0.4)
    assert sealer._background.finish(time.monotonic() + 60)
    assert_whole(tmp_path)
    assert journal.exists()


def test_the_database_can_touch_only_the_file_it_writes(tmp_path):
    import duckdb

    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with segments._database(tmp_path / "out", Stopper()) as database:
        for query in (
            f"SELECT * FROM read_csv('{secret}')",
            f"COPY (SELECT 1) TO '{secret}'",
            f"COPY (SELECT 1) TO '{tmp_path / 'out2'}'",
            f"ATTACH '{tmp_path / 'db'}'",
            "SET enable_external_access = true",
            "INSTALL httpfs",
        ):
            with pytest.raises(duckdb.Error):
                database.execute(query)
    assert secret.read_text() == "a\n1\n"
    assert list(tmp_path.iterdir()) == [secret]


def test_a_manifest_knows_what_the_newest_journal_said(tmp_path, make_reading):
    writer = StoreWriter(tmp_path, rows_a_journal=1)
    for step in (1, 2, 1):
        writer.write(make_reading(step, {Site(Kind.WEIGHT, f"w{step}"): np.ones(step)}))
    writer.close()
    deadline = time.monotonic() + 60
    from gradwatch.store.sealing import sealer

    assert sealer.finish(deadline)
    (path,) = tmp_path.glob("manifest-*.json")
    manifest = checked_json.read(path)
    assert manifest["sites"] == [["weight", "w1", ""], ["weight", "w2", ""]]
    assert [a["first_step"] for a in manifest["attempts"]] == [1, 1]
    assert [entry["number"] for entry in manifest["segments"]] == [0, 1, 2, 3]
    assert manifest["newest"] == 3
    assert manifest["ended"]["lost_rows"] == 0
    assert manifest["pid"] == os.getpid()
    assert manifest["writer"] == writer.name
    assert not list(Path(tmp_path).glob("*.gwj"))


BUSY_DATABASE = """
    import sys, threading, duckdb
    from gradwatch.store import sealing

    begun = threading.Event()

    def seal_for_ever():
        sealing.sealer._stopper.is_in_database = True
        database = duckdb.connect()
        begun.set()
        while True:
            database.execute("SELECT sum(range) FROM range(100_000)")

    sealing.sealer.later("journal", 0.0, seal_for_ever)
    begun.wait()
    print("flushed")
    sys.exit(7)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the C library of Linux")
def test_a_process_that_ends_in_the_midst_of_sealing_keeps_its_own_status(run_script):
    done = run_script(BUSY_DATABASE)
    assert (done.returncode, done.stdout) == (7, "flushed\n"), done.stderr
