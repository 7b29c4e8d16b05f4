"""Event files are read record by record, and what is damaged is told, never shown."""

import random

import pytest

from gradwatch.sinks.event_file import record
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
