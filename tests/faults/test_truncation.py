"""A journal that is cut anywhere: every frame that is complete comes back, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import gradwatch
from gradwatch.store import frames
from gradwatch.store.writer import StoreWriter
from tests.faults import programs, truth
from tests.store.written import written

SEED, STEPS = 3, range(1, 61)
TRUE = np.array([truth.fields(x) for s in STEPS for x in truth.gradients(SEED, s).values()])


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """The journal of a process that did not end its record."""
    place = tmp_path_factory.mktemp("whole")
    writer = StoreWriter(place)
    for step in STEPS:
        writer.write(programs.reading(SEED, step))
    (path,) = place.glob("journal-*.gwj")
    return path


def readings_before(data, end):
    whole = [f for f in frames.scan_all(data) if isinstance(f, frames.Frame)]
    return sum(frame.kind == "R" and frame.end <= end for frame in whole)


def check(journal, place, data, end, with_reader):
    place.mkdir(exist_ok=True)
    path = place / journal.name
    path.write_bytes(data[:end])
    expected = list(range(1, readings_before(data, end) + 1))
    found = written(place)
    assert found.steps == expected, end
    rows = np.array([row[6:] for row in found.rows], float).reshape(-1, 10)
    np.testing.assert_allclose(rows, TRUE[: len(rows)], rtol=1e-12)
    if with_reader:
        assert truth.steps_shown(place, SEED) == expected, end
        assert gradwatch.maintain.verify(place).is_whole


def test_cut_at_every_byte_of_the_last_three_frames(journal, tmp_path, count):
    data = journal.read_bytes()
    last = [f for f in frames.scan_all(data) if isinstance(f, frames.Frame)][-3:]
    ends = range(last[0].start, len(data) + 1, count(13, 1))
    for n, end in enumerate(ends):
        check(journal, tmp_path / "cut", data, end, with_reader=n % 20 == 0)
    print(f"{len(ends)} cuts")


def test_cut_at_random_offsets(journal, tmp_path, count):
    data = journal.read_bytes()
    rng = np.random.default_rng(4)
    ends = rng.integers(0, len(data) + 1, count(40, 1000))
    for n, end in enumerate(ends.tolist()):
        # A run that has not come to its first frame has nothing to open.
        has_begun = readings_before(data, end) > 0
        check(journal, tmp_path / "cut", data, end, with_reader=has_begun and n % 10 == 0)
    print(f"{len(ends)} cuts")
