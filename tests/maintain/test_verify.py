"""Checking a run and putting it in order."""

import shutil

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gradwatch
from tests.maintain.damaged import check, files
from tests.store.recorded import SITES, Recorder


def flip(path, at=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 8
    path.write_bytes(data)


def all_rows(place):
    query = "select * exclude (part_of) from summaries order by all"
    with gradwatch.open(place) as run:
        return str(run.sql(query).fetchall()), str(
            run.sql("from histograms order by all").fetchall()
        )


def test_a_whole_run_is_whole(place):
    told = []
    report = gradwatch.maintain.verify(place, lambda *progress: told.append(progress))
    assert report.is_whole
    assert report.rows == 30 * (len(SITES) + 1)
    assert report.frames == 10 + 3
    assert report.files == 1 + 1 + 1 + len(list(place.glob("segments/*")))
    assert [path.suffix for path in report.leftovers] == [".gwj"]
    assert [done for done, _, _ in told] == list(range(told[0][1] + 1))
    assert "whole" in str(report)


@pytest.mark.parametrize(
    "pattern", ["segments/*.summaries.*", "segments/*.histograms.*", "manifest-*", "run.json"]
)
def test_damage_is_named(place, pattern):
    path = files(place, pattern)[0]
    flip(path)
    report = gradwatch.maintain.verify(place)
    assert [damage.file.name for damage in report.damage] == [path.name]
    assert f"damaged: {path.name}" in str(report)


def test_a_torn_end_is_no_damage_and_is_told(place):
    path = files(place, "journal-*")[0]
    path.write_bytes(path.read_bytes()[:-5])
    report = gradwatch.maintain.verify(place)
    assert report.is_whole
    assert list(report.torn) == [path]


def test_event_files_are_checked_too(tmp_path):
    with gradwatch.Monitor(tmp_path, sinks=[gradwatch.TensorBoard()]) as monitor:
        monitor.record(gradients={"a": np.ones(3)})
    (path,) = tmp_path.glob("events.out.tfevents.*")
    data = path.read_bytes()
    assert gradwatch.maintain.verify(tmp_path).is_whole
    for at in range(0, len(data), 7):
        flip(path, at)
        report = gradwatch.maintain.verify(tmp_path)
        assert report.damage, at
        path.write_bytes(data)
    path.write_bytes(data[:-3])
    assert list(gradwatch.maintain.verify(tmp_path).torn) == [path]


def test_repair_seals_what_a_dead_process_left_and_changes_no_number(place):
    before = all_rows(place)
    done = gradwatch.maintain.repair(place)
    assert len(done.sealed) == 1
    assert not done.quarantined
    assert not list(place.glob("journal-*"))
    assert all_rows(place) == before
    report = gradwatch.maintain.verify(place)
    assert report.is_whole
    assert not report.leftovers
    again = gradwatch.maintain.repair(place)
    assert str(again) == f"{place}: nothing to do"


def test_repair_rebuilds_manifests_from_the_segments(place):
    before = all_rows(place)
    flip(files(place, "manifest-*.json")[0])
    assert gradwatch.open(place).damage
    done = gradwatch.maintain.repair(place)
    assert len(done.rebuilt) == 1
    assert [name.startswith("quarantine/manifest-") for name in done.quarantined] == [True]
    assert all_rows(place) == before
    assert gradwatch.maintain.verify(place).is_whole


def test_repair_moves_damaged_files_aside_and_never_deletes_them(place):
    broken = [files(place, p)[0] for p in ("segments/*.summaries.*", "run.json", "journal-*")]
    for path in broken:
        flip(path)
    contents = [path.read_bytes() for path in broken]
    rows, damage = check(place)
    assert len(damage) == 3
    done = gradwatch.maintain.repair(place)
    moved = [place / "quarantine" / path.relative_to(place) for path in broken]
    assert sorted(done.quarantined) == sorted(str(path.relative_to(place)) for path in moved)
    assert [path.read_bytes() for path in moved] == contents
    assert check(place) == (rows, [])
    assert gradwatch.maintain.verify(place).is_whole


def test_repair_rebuilds_a_run_whose_manifests_are_gone(place):
    before = all_rows(place)
    for path in files(place, "manifest-*.json"):
        path.unlink()
    done = gradwatch.maintain.repair(place)
    assert done.rebuilt
    assert all_rows(place) == before
    assert gradwatch.maintain.verify(place).is_whole


def test_repair_keeps_attempts_apart(tmp_path):
    Recorder(tmp_path).write(range(1, 11)).close()
    Recorder(tmp_path, first_step=5, attempt=1).write(range(5, 8)).close()
    before = all_rows(tmp_path)
    flip(files(tmp_path, "manifest-*.json")[1])
    gradwatch.maintain.repair(tmp_path)
    assert all_rows(tmp_path) == before
    assert_array_equal(gradwatch.open(tmp_path).steps(), range(1, 8))


def test_a_second_damaged_file_of_the_same_name_replaces_none(place):
    facts = (place / "run.json").read_bytes()
    for _ in range(2):
        (place / "run.json").write_bytes(facts[:-20])
        gradwatch.maintain.repair(place)
    assert sorted(p.name for p in (place / "quarantine").iterdir()) == ["run.json", "run.json.2"]
    shutil.rmtree(place / "quarantine")
