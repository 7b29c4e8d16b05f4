"""What a StoreWriter writes is what was measured, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gradwatch.core import KINDS, Kind, Reading, Site, Summary
from gradwatch.core.reference import count_cells
from gradwatch.store import sealing
from gradwatch.store.journal import Journal
from gradwatch.store.writer import StoreWriter
from gradwatch.store.writers import writer_for
from gradwatch.watches.probes import png
from tests.store.written import written

A, B = Site(Kind.GRADIENT, "net/a/kernel"), Site(Kind.WEIGHT, "net/b/bias")


def values(step, site):
    seed = [step, len(site.path), list(KINDS).index(site.kind)]
    return np.random.default_rng(seed).normal(size=40).astype(np.float32)


def finish():
    """Have the background do now what it would do a little later."""
    deadline = time.monotonic() + 60
    assert sealing.syncer.finish(deadline)
    assert sealing.sealer.finish(deadline)


def grouped(reading, group="", micro_batch=None):
    return Reading(
        reading.step, reading.epoch, reading.time, reading.sites, reading.summary,
        reading.cells, group, micro_batch,
    )  # fmt: skip


@pytest.fixture
def step_of(make_reading):
    def make(step, sites=(A, B), **options):
        return make_reading(step, {site: values(step, site) for site in sites}, **options)

    return make


def expected_row(step, site, attempt=1, group=""):
    x = values(step, site).astype(np.float64)
    counts = (x.size, 0, 0, 0, int((x == 0).sum()))
    sums = (x.sum(), np.abs(x).sum(), np.square(x).sum(), x.min(), x.max())
    return (str(site.kind), site.path, group, step, None, attempt, *counts, *sums)


def assert_rows(rows, expected):
    """The same rows, in any order; sums to rounding, all else exactly."""
    key = lambda row: (row[0], row[1], row[3], row[5])  # noqa: E731
    rows, expected = sorted(rows, key=key), sorted(expected, key=key)
    assert [row[:11] for row in rows] == [row[:11] for row in expected]
    np.testing.assert_allclose([r[11:] for r in rows], [e[11:] for e in expected], rtol=1e-12)


@pytest.mark.parametrize("rows_a_journal", [1, 7, 1000])
def test_every_number_comes_back_from_journals_and_segments(tmp_path, step_of, rows_a_journal):
    writer = StoreWriter(tmp_path, rows_a_journal=rows_a_journal)
    for step in range(1, 11):
        writer.write(step_of(step))
    truth = [expected_row(step, site) for step in range(1, 11) for site in (A, B)]
    assert_rows(written(tmp_path).rows, truth)
    writer.close()
    finish()
    found = written(tmp_path)
    assert found.journals == []
    assert_rows(found.rows, truth)
    assert found.ended[writer.name] is not None


def test_histograms_come_back_cell_by_cell(tmp_path, step_of):
    writer = StoreWriter(tmp_path)
    writer.write(step_of(1, histograms=True))
    writer.write(step_of(2))
    writer.close()
    truth = Counter()
    for site in (A, B):
        cells = count_cells(values(1, site))
        truth.update({(site.path, cell): int(cells[cell]) for cell in np.flatnonzero(cells)})
    for _ in range(2):
        found = Counter({(row[1], row[6]): row[7] for row in written(tmp_path).cells})
        assert found == truth
        finish()
    assert written(tmp_path).journals == []


def test_pictures_come_back_as_png(tmp_path, step_of):
    image = np.random.default_rng(0).integers(0, 255, (5, 4, 3)).astype(np.uint8)
    reading = step_of(3)
    drawn = Site(Kind.WEIGHT, "net/drawn")
    writer = StoreWriter(tmp_path)
    writer.write(
        Reading(3, 1, 0.0, reading.sites, reading.summary, pictures={drawn: image, A: image})
    )
    writer.close()
    for _ in range(2):
        names = {(row[0], row[1], row[3], row[6]) for row in written(tmp_path).pictures}
        data = png.encode(image)
        assert names == {("weight", "net/drawn", 3, data), ("gradient", A.path, 3, data)}
        finish()


def test_special_numbers_are_kept_to_the_bit(tmp_path, make_reading):
    arrays = {
        Site(Kind.WEIGHT, "empty"): np.zeros(0),
        Site(Kind.WEIGHT, "nan"): np.array([np.nan, np.inf, -np.inf, np.inf]),
        Site(Kind.WEIGHT, "huge"): np.array([1e300, -1e300]),
        Site(Kind.WEIGHT, "tiny"): np.array([5e-324, -0.0]),
    }
    reading = make_reading(1, arrays)
    writer = StoreWriter(tmp_path)
    writer.write(reading)
    writer.close()
    finish()
    found = {row[1]: np.array(row[6:], float) for row in written(tmp_path).rows}
    truth = reading.summary.pack()
    for i, site in enumerate(arrays):
        np.testing.assert_array_equal(found[site.path].view(np.int64), truth[i].view(np.int64))


def test_hostile_names_come_back_and_nothing_is_written_outside(tmp_path, make_reading):
    names = ["../../up", "a\0b", "'; DROP TABLE row; --", '"', "\x1b[31m", "\u202e", "\u00e9",
             "e\u0301", "x" * 4096, "", "=cmd()", "A", "a", "\ud800"]  # fmt: skip
    sites = [Site(Kind.WEIGHT, name) for name in names]
    directory = tmp_path / "it's a [run] *" / "x"
    writer = StoreWriter(directory)
    writer.write(make_reading(1, dict.fromkeys(sites, np.ones(3))))
    writer.close()
    assert sorted(row[1] for row in written(directory).rows) == sorted(names)
    finish()
    assert not list(directory.glob("*.gwj"))
    (manifest,) = directory.glob("manifest-*")
    from gradwatch.util.files import checked_json

    assert [site[1] for site in checked_json.read(manifest)["sites"]] == names
    assert [path.name for path in tmp_path.iterdir()] == ["it's a [run] *"]


def test_the_sites_of_a_reading_are_numbered_by_their_first_appearance(tmp_path, step_of):
    writer = StoreWriter(tmp_path)
    writer.write(step_of(1, [B]))
    writer.write(step_of(2, [A, B]))
    writer.write(grouped(step_of(2, [A]), group="generator"))
    (path,) = tmp_path.glob("*.gwj")
    journal = Journal(path)
    journal.advance()
    assert journal.sites == [
        ("weight", B.path, ""),
        ("gradient", A.path, ""),
        ("gradient", A.path, "generator"),
    ]


def test_named_groups_are_told_when_they_change(tmp_path, step_of):
    writer = StoreWriter(tmp_path)
    for members in ({"all": [0]}, {"all": [0, 1]}, {"all": [1]}, {"all": [0], "b": [1]}):
        r = step_of(1 + writer._attempts.last_step)
        writer.write(Reading(r.step, 1, 0.0, r.sites, r.summary, members=members))
    (path,) = tmp_path.glob("*.gwj")
    journal = Journal(path)
    journal.advance()
    assert journal.groups == {"all": [0, 1], "b": [1]}
    told = path.read_bytes().count(b'"groups"')
    assert told == 3


def test_a_kill_at_any_moment_loses_nothing_that_was_written(tmp_path, run_script):
    code = """
        import os, sys, threading, time
        import numpy as np
        from gradwatch import Kind, Reading, Site, Summary
        from gradwatch.store.writer import StoreWriter
        from pathlib import Path
        writer = StoreWriter(Path(sys.argv[1]), rows_a_journal=40)
        threading.Timer(float(sys.argv[2]), lambda: os.kill(os.getpid(), 9)).start()
        sites = [Site(Kind.WEIGHT, f"w{i}") for i in range(10)]
        for step in range(1, 10**9):
            rows = np.full((10, 10), float(step))
            writer.write(Reading(step, 1, 0.0, sites, Summary.unpack(rows)))
            os.write(1, b"%d\\n" % step)
    """
    for attempt in range(4):
        directory = tmp_path / str(attempt)
        done = run_script(code, directory, 0.05 + 0.13 * attempt)
        assert done.returncode == -9, done.stderr
        said = [int(line) for line in done.stdout.splitlines()]
        found = written(directory)
        count = Counter(row[3] for row in found.rows)
        assert set(count.values()) <= {10}
        assert found.steps == list(range(1, len(found.steps) + 1))
        assert len(found.steps) in (len(said), len(said) + 1)
        assert all(set(row[6:]) == {row[3]} for row in found.rows)


def fill(path):
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1024))


def test_rows_lost_on_a_full_disk_are_counted_exactly(small_disk, step_of):
    sites = [Site(Kind.WEIGHT, f"w{i}") for i in range(50)]
    writer = StoreWriter(small_disk)
    kept, failed = [], 0
    for step in range(1, 21):
        if step == 5:
            fill(small_disk / "filler")
        if step == 12:
            (small_disk / "filler").unlink()
        try:
            writer.write(step_of(step, sites))
            kept.append(step)
        except OSError as fault:
            assert fault.errno == errno.ENOSPC  # noqa: PT017
            failed += 1
    assert failed > 4
    assert kept[-1] == 20
    found = written(small_disk)
    assert found.steps == kept
    assert len(found.rows) == 50 * len(kept)
    assert found.lost_rows == 50 * failed


def test_losses_at_the_end_are_told_by_the_end(tmp_path, step_of, monkeypatch):
    writer = StoreWriter(tmp_path)
    writer.write(step_of(1))

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for step in (2, 3):
            with pytest.raises(OSError, match="full"):
                writer.write(step_of(step))
    writer.close()
    assert written(tmp_path).lost_rows == 4
    finish()
    assert written(tmp_path).lost_rows == 4


@pytest.mark.usefixtures("unsealed")
def test_a_deleted_directory_is_followed_by_a_complete_journal(tmp_path, step_of):
    writer = StoreWriter(tmp_path / "run")
    for step in range(1, 6):
        writer.write(step_of(step))
    shutil.rmtree(tmp_path / "run")
    for step in range(6, 9):
        writer.write(step_of(step))
    writer.close()
    assert_rows(
        written(tmp_path / "run").rows,
        [expected_row(s, site) for s in (6, 7, 8) for site in (A, B)],
    )
    (journal,) = (tmp_path / "run").glob("*.gwj")
    assert journal.name.endswith("-000001.gwj")


def test_a_new_opening_is_an_attempt_of_its_own_writer(tmp_path, step_of):
    names = []
    for first in (1, 3):
        writer = StoreWriter(tmp_path, first)
        writer.write(step_of(first))
        writer.close()
        names.append(writer.name)
    found = written(tmp_path)
    assert names == sorted(names)
    assert [[a["first_step"] for a in found.attempts[name]] for name in names] == [[1], [3]]
    assert all(a["group"] is None for name in names for a in found.attempts[name])


def test_steps_that_go_back_begin_an_attempt_of_their_group(tmp_path, step_of):
    writer = StoreWriter(tmp_path)
    for step in (1, 2, 3, 4):
        writer.write(grouped(step_of(step, [A]), "g"))
        writer.write(grouped(step_of(step, [B]), "d"))
    for step in (3, 4):
        writer.write(grouped(step_of(step, [A]), "g"))
        writer.write(grouped(step_of(step + 2, [B]), "d"))
    found = written(tmp_path)
    attempts = found.attempts[writer.name]
    assert [(a["attempt"], a["first_step"], a["group"]) for a in attempts] == [
        (1, 1, None),
        (2, 3, "g"),
    ]
    of = {(row[2], row[3], row[5]) for row in found.rows}
    assert {e for e in of if e[0] == "g"} == {
        ("g", step, attempt) for step, attempt in [(1, 1), (2, 1), (3, 1), (4, 1), (3, 2), (4, 2)]
    }
    assert {attempt for group, _, attempt in of if group == "d"} == {1}


def test_a_step_that_is_measured_late_begins_no_attempt(tmp_path, step_of):
    writer = StoreWriter(tmp_path)
    for step in (1, 5):
        writer.write(step_of(step))
    writer.write(replace(step_of(3), is_late=True))
    writer.write(step_of(6))
    writer.close()
    assert len(written(tmp_path).attempts[writer.name]) == 1


def test_a_step_in_parts_is_one_attempt_and_a_repeated_one_another(tmp_path, step_of):
    writer = StoreWriter(tmp_path)
    writer.write(step_of(1, [A]))
    writer.write(step_of(1, [B]))
    assert len(written(tmp_path).attempts[writer.name]) == 1
    writer.write(step_of(1, [A]))
    writer.write(step_of(1, [B]))
    attempts = written(tmp_path).attempts[writer.name]
    assert [(a["first_step"], a["group"]) for a in attempts] == [(1, None), (1, "")]


def test_micro_batches_that_go_back_together_are_one_attempt(tmp_path, step_of):
    writer = StoreWriter(tmp_path)
    for step in (1, 2, 3, 2, 3):
        for micro_batch in (0, 1, None):
            writer.write(grouped(step_of(step), micro_batch=micro_batch))
    found = written(tmp_path)
    assert [a["first_step"] for a in found.attempts[writer.name]] == [1, 2]
    assert {(row[3], row[4]) for row in found.rows if row[5] == 2} == {
        (step, micro_batch) for step in (2, 3) for micro_batch in (0, 1, None)
    }


@pytest.mark.usefixtures("unsealed")
def test_a_thousand_openings_in_one_process_leave_few_files(tmp_path, step_of):
    for fit in range(1000):
        writer = writer_for(tmp_path, first_step=fit + 1)
        writer.write(step_of(fit + 1))
        writer.close()
    finish()
    found = written(tmp_path)
    assert len(found.rows) == 2000
    assert len(list(tmp_path.rglob("*.*"))) < 40
    assert len(found.attempts) == 1
    (attempts,) = found.attempts.values()
    assert len(attempts) == 1


def test_opening_again_at_an_earlier_step_is_an_attempt(tmp_path, step_of):
    for first in (1, 6, 4):
        writer = writer_for(tmp_path, first)
        for step in range(first, first + 5):
            writer.write(step_of(step))
        writer.close()
    (attempts,) = written(tmp_path).attempts.values()
    assert [a["first_step"] for a in attempts] == [1, 4]


def test_a_writer_does_not_go_on_after_another_has_begun(tmp_path, step_of):
    first = writer_for(tmp_path, 1)
    first.write(step_of(1))
    first.close()
    time.sleep(0.002)  # names have milliseconds
    other = StoreWriter(tmp_path, 2)
    other.write(step_of(2))
    other.close()
    assert writer_for(tmp_path, 3) is not first


def test_a_run_that_goes_on_has_not_ended(tmp_path, step_of):
    writer = writer_for(tmp_path, 1)
    writer.write(step_of(1))
    writer.close()
    assert written(tmp_path).ended[writer.name] is not None
    again = writer_for(tmp_path, 2)
    again.write(step_of(2))
    assert again is writer
    assert written(tmp_path).ended[writer.name] is None
    again.close()
    assert written(tmp_path).ended[writer.name] is not None


def test_what_was_written_is_synced_although_nothing_follows(tmp_path, step_of, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(descriptor))
    writer = StoreWriter(tmp_path, flush=0.0)
    writer.write(step_of(1))
    assert sealing.syncer.finish(time.monotonic() + 60)
    assert synced
    writer.close()


def test_a_disk_that_fails_to_sync_is_told_at_the_end(tmp_path, step_of, monkeypatch):
    def fails(_):
        raise OSError(errno.EIO, "worn out")

    writer = StoreWriter(tmp_path, flush=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        writer.write(step_of(1))
        assert sealing.syncer.finish(time.monotonic() + 60)
    with pytest.raises(OSError, match="worn out"):
        writer.close()


def test_writing_to_a_closed_writer_says_so(tmp_path, step_of):
    writer = StoreWriter(tmp_path)
    writer.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="closed"):
        writer.write(step_of(1))


def test_a_forked_child_writes_and_deletes_nothing(tmp_path, run_script):
    code = """
        import os, sys, time
        import numpy as np
        from pathlib import Path
        from gradwatch import Kind, Reading, Site, Summary
        from gradwatch.store.writer import StoreWriter
        directory = Path(sys.argv[1])
        writer = StoreWriter(directory, rows_a_journal=2)
        def write(step):
            rows = Summary.unpack(np.full((1, 10), float(step)))
            writer.write(Reading(step, 1, 0.0, [Site(Kind.WEIGHT, "w")], rows))
        for step in range(1, 8):
            write(step)
        child = os.fork()
        if child == 0:
            write(100)
            writer.close()
            own = StoreWriter(directory / "child")
            own.write(Reading(1, 1, 0.0, [Site(Kind.WEIGHT, "w")],
                              Summary.unpack(np.ones((1, 10)))))
            own.close()
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        write(8)
        writer.close()
    """
    done = run_script(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(row[3] for row in written(tmp_path).rows) == list(range(1, 9))
    assert [row[3] for row in written(tmp_path / "child").rows] == [1]


def test_summary_columns_are_in_order_of_site_and_step_in_a_segment(tmp_path, step_of):
    import duckdb

    writer = StoreWriter(tmp_path)
    for step in (5, 1, 9, 3):
        writer.write(step_of(step))
    writer.close()
    finish()
    (segment,) = (tmp_path / "segments").glob("*.summaries.*")
    rows = duckdb.execute("SELECT site, step FROM read_parquet(?)", [str(segment)]).fetchall()
    assert rows == sorted(rows)
    assert len(rows) == 8


def test_an_empty_reading_is_kept_too(tmp_path):
    writer = StoreWriter(tmp_path)
    writer.write(Reading(1, 1, 0.0, [], Summary.empty((0,))))
    writer.close()
    finish()
    assert written(tmp_path).rows == []
    assert len(written(tmp_path).sealed) == 1
