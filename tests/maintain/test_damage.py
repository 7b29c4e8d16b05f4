"""No damaged number is ever returned: what is hurt is reported, and the rest served."""

import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gradwatch
from gradwatch.core import Kind, Site
from tests.maintain.damaged import ENVIRONMENT, check, files
from tests.statistics_truth import TRUTH
from tests.store.recorded import SITES, Recorder, array

KERNEL = Site(Kind.GRADIENT, "net/conv1/kernel")


PATTERNS = ["journal-*.gwj", "segments/*.parquet", "manifest-*.json", "run.json"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_flipped_bit_is_detected_or_harmless(whole, tmp_path, pattern):
    rng = np.random.default_rng(0)
    rows, damage = check(whole)
    assert rows == 30 * len(SITES)
    assert not damage
    detected = 0
    for trial in range(8):
        place = shutil.copytree(whole, tmp_path / str(trial))
        path = rng.choice(files(place, pattern))
        data = bytearray(path.read_bytes())
        at = int(rng.integers(len(data)))
        data[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        left, damage = check(place)
        detected += bool(damage)
        # What is not reported as damage has cost nothing but the journal's last record.
        assert damage or left >= rows - len(SITES)
        if pattern in ("manifest-*.json", "run.json"):
            assert left == rows
        shutil.rmtree(place)
    assert detected >= 5


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_truncated_or_missing_file_hurts_only_itself(whole, tmp_path, pattern):
    for trial, share in enumerate([None, 0.0, 0.3, 0.99]):
        place = shutil.copytree(whole, tmp_path / str(trial))
        path = files(place, pattern)[0]
        if share is None:
            path.unlink()
        else:
            data = path.read_bytes()
            path.write_bytes(data[: int(share * len(data))])
        left, damage = check(place)
        journal_rows, segment_rows = 10 * len(SITES), LAST_OF_FIRST * len(SITES)
        least = {"journal-*.gwj": journal_rows, "segments/*.parquet": segment_rows}
        assert left >= 30 * len(SITES) - least.get(pattern, 0)
        if pattern == "segments/*.parquet":
            assert damage[0].file == path
            assert "rows of" in str(damage[0])


LAST_OF_FIRST = 1  # The last step in the first segment: cells of histograms fill a journal.


def test_a_damaged_segment_is_not_shown_and_the_others_are(place):
    path = files(place, "segments/*.summaries.*.parquet")[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    rows, damage = check(place)
    steps = list(range(LAST_OF_FIRST + 1, 31))
    assert rows == len(steps) * len(SITES)
    assert [each.file.name for each in damage] == [path.name]
    assert "its checksum is" in damage[0].what
    hidden = LAST_OF_FIRST * (len(SITES) + 1)
    assert f"{hidden} rows of summaries are not shown" in damage[0].what
    with gradwatch.open(place) as run:
        assert run.status == "damaged"
        assert "1 damaged" in repr(run)
        assert_array_equal(run.series("gradient", KERNEL.path)[0], steps)


def test_a_file_that_is_damaged_while_the_run_is_open_is_noticed_by_refresh(place):
    with gradwatch.open(place) as run:
        assert not run.refresh()
        path = files(place, "segments/*.summaries.*.parquet")[1]
        data = bytearray(path.read_bytes())
        data[100] ^= 4
        path.write_bytes(data)
        assert run.refresh()
        assert [each.file.name for each in run.damage] == [path.name]


def test_a_run_without_manifests_is_served_from_the_names_of_its_segments(place):
    for path in files(place, "manifest-*.json"):
        path.unlink()
    rows, _ = check(place)
    assert rows == 30 * len(SITES)
    with gradwatch.open(place) as run:
        assert run.sites("gradient") == [site for site in SITES if site.kind is Kind.GRADIENT]


def test_a_manifest_that_names_a_file_elsewhere_is_not_followed(place):
    from gradwatch.util.files import checked_json

    path = files(place, "manifest-*.json")[0]
    content = checked_json.read(path)
    content["segments"][0]["tables"]["summaries"]["file"] = "../../secret.parquet"
    checked_json.write(path, content)
    rows, damage = check(place)
    assert rows == 30 * len(SITES)
    assert "is no segment's name" in str(damage[0])


def test_a_journal_that_vanishes_keeps_what_was_read_of_it(place):
    with gradwatch.open(place) as run:
        before = run.rows
        files(place, "journal-*.gwj")[0].unlink()
        assert run.refresh()
        assert run.rows == before
        assert "deleted and not sealed" in str(run.damage[0])


def test_an_old_run_json_without_a_checksum_is_read(place):
    (place / "run.json").write_text('{"format": 1, "fits": [{"meaning": {"gradient": "of it"}}]}')
    with gradwatch.open(place) as run:
        assert run.meaning == {"gradient": "of it"}
        assert not run.damage


def test_a_live_run_is_live_and_a_killed_one_has_crashed(tmp_path):
    code = (
        "import itertools, pathlib, sys, time\n"
        "from tests.store.recorded import Recorder\n"
        "recorder = Recorder(pathlib.Path(sys.argv[1]), rows_a_journal=60)\n"
        "for step in itertools.count(1):\n"
        "    recorder.write([step])\n"
        "    time.sleep(0.005)\n"
    )
    place = tmp_path / "a"
    child = subprocess.Popen([sys.executable, "-c", code, str(place)], env=ENVIRONMENT)
    try:
        while not list(place.glob("journal-*.gwj")):
            time.sleep(0.05)
            assert child.poll() is None
        run, rows, sealed, deadline = gradwatch.open(place), 0, 0, time.monotonic() + 300
        while sealed < 3 and time.monotonic() < deadline:
            run.refresh()
            assert run.rows >= rows
            assert not run.damage
            assert run.status == "live"
            if not run.rows:
                continue  # The journal is there before its first rows are.
            steps, values = run.series("gradient", KERNEL.path, "l1")
            assert_array_equal(steps, range(1, len(steps) + 1))
            assert abs(values[-1] - TRUTH["l1"](array(KERNEL, len(steps)))) < 1e-5
            rows, sealed = run.rows, len(list(place.glob("segments/*.summaries.*.parquet")))
        assert sealed >= 3
        with pytest.raises(RuntimeError, match="is being written by process"):
            gradwatch.maintain.repair(place)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    run.refresh()
    assert run.status == "crashed"
    assert run.rows >= rows
    assert gradwatch.maintain.verify(place).is_whole


def test_a_run_that_was_closed_is_finished_and_one_without_records_is_empty(tmp_path):
    Recorder(tmp_path / "a").write([1]).close()
    assert gradwatch.open(tmp_path / "a").status == "finished"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.json").write_text('{"format": 1, "fits": []}')
    run = gradwatch.open(tmp_path / "b")
    assert run.status == "empty"
    assert run.last_step is None
    assert run.steps().size == run.rows == 0
    assert run.duration == 0.0
    assert run.sites() == []
    assert repr(run).endswith("empty, 0 sites, no step)")
