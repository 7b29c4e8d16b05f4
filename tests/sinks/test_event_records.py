"""Event files are read record by record, and what is damaged is told, never shown."""

import random

import pytest

from gradwatch.sinks.event_file import masked_crc, record
from gradwatch.sinks.event_records import (
    DamagedBytes,
    EventRecord,
    read_records,
)

PAYLOADS = [bytes([i]) * (5 + 7 * i) for i in range(1, 9)]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "events"
    path.write_bytes(b"".join(map(record, PAYLOADS)))
    return path


def found(path):
    return [each.data for each in read_records(path) if isinstance(each, EventRecord)]


def test_a_whole_file_comes_back_whole(path):
    assert found(path) == PAYLOADS
    assert not any(isinstance(each, DamagedBytes) for each in read_records(path))


def test_an_empty_file_has_no_records(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert list(read_records(tmp_path / "a")) == []


def test_every_bit_flip_loses_one_record_and_says_where(path):
    data = path.read_bytes()
    starts = [sum(len(record(p)) for p in PAYLOADS[:i]) for i in range(len(PAYLOADS) + 1)]
    rng = random.Random(0)
    for position in rng.sample(range(len(data)), 100):
        flipped = bytearray(data)
        flipped[position] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        hit = max(i for i, start in enumerate(starts) if start <= position)
        assert found(path) == PAYLOADS[:hit] + PAYLOADS[hit + 1 :]
        (gap,) = (each for each in read_records(path) if isinstance(each, DamagedBytes))
        assert (gap.start, gap.end) == (starts[hit], starts[hit + 1])
        assert not gap.at_end


def test_a_file_that_was_cut_off_gives_all_its_whole_records(path):
    data = path.read_bytes()
    ends = [sum(len(record(p)) for p in PAYLOADS[: i + 1]) for i in range(len(PAYLOADS))]
    for size in range(len(data)):
        path.write_bytes(data[:size])
        whole = sum(end <= size for end in ends)
        assert found(path) == PAYLOADS[:whole]
        gaps = [each for each in read_records(path) if isinstance(each, DamagedBytes)]
        assert [gap.at_end for gap in gaps] == [True] * (size not in (0, *ends))


@pytest.mark.parametrize(
    "damage",
    [
        bytes(200 << 20),
        b"\x00" * 8 + b"\x01",
        random.Random(1).randbytes(3 << 20),
        bytes(11),
        bytes((1 << 20) - 5) + b"x" + bytes(2 << 20),
    ],
    ids=["zeros", "few", "noise", "short", "over-a-border"],
)
def test_records_behind_a_long_stretch_of_damage_are_found(path, damage):
    path.write_bytes(record(b"a") + damage + path.read_bytes())
    assert found(path) == [b"a", *PAYLOADS]
    (gap,) = (each for each in read_records(path) if isinstance(each, DamagedBytes))
    assert (gap.start, gap.end) == (len(record(b"a")), len(record(b"a")) + len(damage))
    assert not gap.at_end


def test_a_hole_in_a_file_is_passed_over(path):
    whole = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(whole + (20 << 30))
    assert found(path) == PAYLOADS
    with path.open("ab") as file:
        file.write(record(b"end"))
    assert found(path) == [*PAYLOADS, b"end"]


def test_a_record_that_is_far_too_large_is_skipped(path):
    length = (4 << 30).to_bytes(8, "little")
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(length + masked_crc(length))
        file.truncate(whole + 12 + (4 << 30) + 4)
    with path.open("ab") as file:
        file.write(record(b"end"))
    assert found(path) == [*PAYLOADS, b"end"]
