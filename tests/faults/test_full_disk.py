"""A disk that is full for a while: training ends, one warning, each lost row is counted."""

from __future__ import annotations

import re
import warnings

import pytest

import gradwatch
from gradwatch.util.reporter import GradwatchWarning
from tests.faults import programs, truth

SEED, STEPS = 5, 460


def rows_lost(message):
    return int(re.search(r"Store lost \d+ readings? \((\d+) rows?\)", message).group(1))


@pytest.mark.parametrize(
    "store", [pytest.param(gradwatch.Store, marks=pytest.mark.slow), programs.SmallStore]
)
def test_recording_resumes_when_there_is_space_again(disk, store):
    place, filler = disk(256) / "run", disk.place / "filler"
    filler.write_bytes(bytes(150_000))
    lost_before_space = None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with programs.monitor_of(place, store()) as monitor:
            for step in range(1, STEPS + 1):
                if step == STEPS - 60:
                    lost_before_space = len(list(place.glob("journal-*")))
                    filler.unlink()
                programs.record(monitor, SEED, [step])
                programs.drain(monitor)
    messages = [str(w.message) for w in said if issubclass(w.category, GradwatchWarning)]
    assert lost_before_space
    assert len(messages) == 2, messages  # The fault, and at the end what it has cost.
    assert "No space left on device" in messages[0]
    lost = rows_lost(messages[1])
    assert lost > 0
    with gradwatch.open(place) as run:
        assert not run.damage
        steps = truth.steps_in(run, SEED)
        assert run.lost_rows == lost
        assert len(steps) * len(truth.PATHS) + lost == STEPS * len(truth.PATHS)
    assert steps[-50:] == list(range(STEPS - 49, STEPS + 1))
    assert steps[0] == 1
    print(f"{store.__name__}: {lost} of {STEPS * len(truth.PATHS)} rows lost and counted")


def test_a_disk_without_any_space_loses_all_rows_and_says_how_many(disk):
    disk(256)
    (disk.place / "run").mkdir()
    with pytest.raises(OSError, match="No space left"):
        (disk.place / "filler").write_bytes(bytes(1 << 20))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with programs.monitor_of(disk.place / "run", gradwatch.Store()) as monitor:
            for step in range(1, 31):
                programs.record(monitor, SEED, [step])
                programs.drain(monitor)
    messages = [str(w.message) for w in said if issubclass(w.category, GradwatchWarning)]
    assert len(messages) == 2, messages
    assert rows_lost(messages[1]) == 30 * len(truth.PATHS)


def test_a_file_system_that_becomes_read_only_is_said_once(disk):
    """From the start: once a file is open for writing, no system lets this happen."""
    disk(256)
    (disk.place / "run").mkdir()
    disk.make_read_only()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with programs.monitor_of(disk.place / "run", gradwatch.Store()) as monitor:
            programs.record(monitor, SEED, range(1, 31))
    messages = [str(w.message) for w in said if issubclass(w.category, GradwatchWarning)]
    assert len(messages) == 1, messages
    assert "Read-only file system" in messages[0]
