"""What a journal says, also while it is being written, torn or damaged."""

from __future__ import annotations

import numpy as np
import pytest

from gradwatch.core import FIELDS, Kind, Site
from gradwatch.store import columns, frames
from gradwatch.store.journal import Journal
from gradwatch.store.tables import tables
from gradwatch.store.writer import StoreWriter

A, B = Site(Kind.WEIGHT, "a"), Site(Kind.WEIGHT, "b")


@pytest.fixture
def journal(tmp_path, make_reading):
    writer = StoreWriter(tmp_path)
    for step in range(1, 6):
        writer.write(make_reading(step, {A: np.arange(step), B: np.ones(step)}))
    (path,) = tmp_path.glob("*.gwj")
    return path


def opened(path):
    journal = Journal(path)
    journal.advance()
    return journal


def steps(journal):
    return [block.facts["step"] for block in journal.readings]


def test_it_is_read_on_as_it_grows(journal):
    content = journal.read_bytes()
    ends = [frame.end for frame in frames.scan(content)]
    journal.write_bytes(b"")
    growing = Journal(journal)
    for length in range(0, len(content) + 1, 7):
        journal.write_bytes(content[:length])
        growing.advance()
        whole = sum(end <= length for end in ends)
        assert len(growing.readings) == max(0, whole - 3)
        assert growing.torn == length - [0, *ends][whole]
        assert growing.damage == []
    journal.write_bytes(content)
    growing.advance()
    assert steps(growing) == [1, 2, 3, 4, 5]
    assert growing.advance() == 0
    assert growing.frame_count == 8


def test_a_damaged_record_is_reported_and_the_rest_is_read(journal):
    content = bytearray(journal.read_bytes())
    third = list(frames.scan(bytes(content)))[5]
    content[third.start + 40] ^= 1
    journal.write_bytes(content)
    found = opened(journal)
    assert steps(found) == [1, 2, 4, 5]
    assert [str(damage) for damage in found.damage] == [
        f"{journal.name}: 1 record damaged, number 5 on"
    ]


def test_rows_whose_names_are_damaged_are_left_out(journal):
    content = bytearray(journal.read_bytes())
    names = list(frames.scan(bytes(content)))[1]
    content[names.start + 40] ^= 1
    journal.write_bytes(content)
    found = opened(journal)
    assert found.damage
    assert tables(found)["summaries"] == {}


def test_a_journal_of_a_later_format_is_not_guessed_at(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(frames.encode("W", 0, columns.pack({"format": 99}, {})))
    (damage,) = opened(path).damage
    assert "format 99" in damage.what


def test_a_record_of_an_unknown_kind_is_damage(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(frames.encode("?", 0, columns.pack({}, {})))
    (damage,) = opened(path).damage
    assert "cannot be understood" in damage.what


def test_columns_of_different_lengths_are_damage(tmp_path):
    arrays = {"site": np.arange(3), **{name: np.zeros(3) for name in FIELDS}}
    path = tmp_path / "journal"
    path.write_bytes(frames.encode("R", 0, columns.pack({}, {**arrays, "max": np.zeros(2)})))
    assert "different lengths" in opened(path).damage[0].what
