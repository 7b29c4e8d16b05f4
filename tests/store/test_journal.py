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


def reading(facts=None, number=0, **arrays):
    """The bytes of a reading of three sites, with other facts or columns."""
    when = {"step": 1, "epoch": 1, "time": 1.7e9, "attempt": 1, "micro_batch": None, "lost_rows": 0}
    cells = {name: np.zeros(0, np.int64) for name in ("cell_row", "cell", "cell_count")}
    rows = {"site": np.arange(3), **{name: np.zeros(3) for name in FIELDS}, **cells}
    return frames.encode("R", number, columns.pack({**when, **(facts or {})}, {**rows, **arrays}))


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


def test_a_last_record_of_full_length_that_is_damaged_is_reported(journal):
    content = journal.read_bytes()
    last = list(frames.scan(content))[-1]
    for position in range(last.start, last.end):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            journal.write_bytes(damaged)
            found = opened(journal)
            if 5 <= position - last.start < 8:
                assert steps(found) == [1, 2, 3, 4, 5]  # These bytes say nothing.
                continue
            assert steps(found) == [1, 2, 3, 4]
            assert "damaged, record 7 on" in found.damage[0].what, position


@pytest.mark.parametrize("more", [b"x", bytes(4096), b"\xf5GW2" + bytes(40), b"\xf5GW1" * 50])
def test_bytes_at_the_end_that_no_process_writes_are_damage(journal, more):
    whole = journal.stat().st_size
    with journal.open("ab") as file:
        file.write(more)
    found = opened(journal)
    assert steps(found) == [1, 2, 3, 4, 5]
    assert f"its last {len(more):,} bytes are damaged" in found.damage[0].what
    # What was no record when it was read may be one later: it is read again.
    content = journal.read_bytes()[:whole]
    journal.write_bytes(content + reading({"step": 6}, number=found.frame_count))
    found.advance()
    assert steps(found) == [1, 2, 3, 4, 5, 6]
    assert found.damage == []


def test_a_damaged_record_before_one_that_is_cut_off_is_damage_and_the_other_is_not(journal):
    content = bytearray(journal.read_bytes())
    fourth, fifth = list(frames.scan(bytes(content)))[-2:]
    content[fourth.start + 40] ^= 1
    for end in range(fifth.start + 1, fifth.end):
        journal.write_bytes(content[:end])
        found = opened(journal)
        assert steps(found) == [1, 2, 3]
        assert found.torn == end - fifth.start
        assert "damaged, record 6 on" in found.damage[0].what


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
    path = tmp_path / "journal"
    path.write_bytes(reading(max=np.zeros(2)))
    assert "different lengths" in opened(path).damage[0].what
