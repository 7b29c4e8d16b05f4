"""Readings that are written in one go: all of them or none, in the attempts they belong to."""

from __future__ import annotations

import errno
import os
import time

import numpy as np
import pytest

from gradwatch import Kind, Reading, Site, Summary
from gradwatch.store import columns, sealing
from gradwatch.store.writer import StoreWriter
from tests.store.written import written

SITES = (Site(Kind.GRADIENT, "a"), Site(Kind.WEIGHT, "b"))


def reading(step, group="", sites=SITES):
    rows = Summary.unpack(np.full((len(sites), 10), float(step)))
    return Reading(step, 1, float(step), sites, rows, group=group)


def attempts(directory):
    """The attempt of each row, by step, in the order written."""
    rows = written(directory).rows
    return [(step, attempt) for _, path, _, step, _, attempt, *_ in rows if path == "a"]


@pytest.fixture
def writer(tmp_path):
    made = StoreWriter(tmp_path, flush=1e6)
    yield made
    made.close()


@pytest.fixture
def full_disk(monkeypatch):
    """Switches a full disk on and off."""
    write, is_full = os.write, []

    def failing(*args):
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*args)

    monkeypatch.setattr(os, "write", failing)
    return is_full


def test_a_training_that_goes_back_among_them_begins_an_attempt(writer, tmp_path):
    writer.write_many([reading(step) for step in (1, 2, 3, 2, 3, 4)])
    writer.write_many([reading(step) for step in (4, 5)])
    assert attempts(tmp_path) == [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (4, 2), (4, 3), (5, 3)]


def test_of_many_that_cannot_be_written_none_is_and_nothing_counts_as_lost(
    writer, tmp_path, full_disk
):
    writer.write_many([reading(1), reading(2)])
    full_disk.append(True)
    with pytest.raises(OSError, match="No space"):
        writer.write_many([reading(3), reading(4)])
    full_disk.clear()
    for step in (3, 4):
        writer.write(reading(step))
    found = written(tmp_path)
    assert found.lost_rows == 0
    # Not a second time: what was not written has not been.
    assert attempts(tmp_path) == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_a_training_that_went_back_in_vain_is_in_its_attempt_when_tried_again(
    writer, tmp_path, full_disk
):
    writer.write_many([reading(step) for step in (1, 2, 3)])
    writer.write_many([reading(step, "other") for step in (1, 2)])
    full_disk.append(True)
    with pytest.raises(OSError, match="No space"):
        writer.write_many([reading(2), reading(3), reading(3, "other")])
    full_disk.clear()
    for each in (reading(2), reading(3), reading(3, "other")):
        writer.write(each)
    assert attempts(tmp_path) == [(1, 1), (2, 1), (3, 1), (1, 1), (2, 1), (2, 2), (3, 2), (3, 1)]


def test_rows_lost_before_are_told_once(writer, tmp_path, full_disk):
    writer.write(reading(1))
    full_disk.append(True)
    with pytest.raises(OSError, match="No space"):
        writer.write(reading(2))
    full_disk.clear()
    writer.write_many([reading(3), reading(4)])
    assert written(tmp_path).lost_rows == 2


def test_what_is_written_in_quick_succession_is_synced_all_the_same(writer, monkeypatch):
    asked = []
    later = sealing.syncer.later

    def noting(key, delay, call):
        asked.append((key, delay))
        later(key, delay, call)

    monkeypatch.setattr(sealing.syncer, "later", noting)
    for step in range(1, 11):
        writer.write(reading(step))
    # Asked for anew each time, it would be put off each time.
    assert asked == [(writer._journal.path, 1e6)]
    assert not writer._journal.is_synced
    assert sealing.syncer.finish(time.monotonic() + 60.0)
    assert writer._journal.is_synced
    writer.write_many([reading(11), reading(12)])
    assert len(asked) == 2


def test_many_columns_are_encoded_as_each_by_itself():
    rng = np.random.default_rng(0)
    table = np.stack([
        np.zeros(6), np.full(6, np.nan), np.arange(6.0), np.arange(6.0) * 1e5,
        rng.normal(size=6).astype(np.float32), rng.normal(size=6), np.array([0.0, -0.0] * 3),
        np.array([np.nan, np.inf, -np.inf, 1, 2, 3]), np.arange(6.0) * 1e300,
    ])  # fmt: skip
    names = [f"column {i}" for i in range(len(table))]
    together = columns.join({"a": 1}, columns.many(names, table))
    facts, found = columns.unpack(together)
    assert facts == {"a": 1}
    for name, row in zip(names, table, strict=True):
        assert found[name].tobytes() == row.tobytes()
    assert together == columns.pack({"a": 1}, dict(zip(names, table, strict=True)))
    assert [len(each.data) for each in columns.many(names, table)] == [
        8, 8, 12, 24, 24, 48, 24, 24, 48,
    ]  # fmt: skip


def test_readings_without_sites_are_written_too(writer, tmp_path):
    writer.write_many([reading(1), reading(2, sites=()), reading(3)])
    assert attempts(tmp_path) == [(1, 1), (3, 1)]
