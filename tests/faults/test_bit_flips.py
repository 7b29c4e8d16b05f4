"""A flipped bit in any file of a run is detected or guarded, and no number is ever wrong."""

from __future__ import annotations

import time

import numpy as np
import pytest

import gradwatch
from gradwatch.store import sealing
from tests.faults import programs, truth

SEED = 7
PATTERNS = {
    "journal-*.gwj": 300,
    "segments/*.parquet": 300,
    "manifest-*.json": 150,
    "run.json": 100,
    "events.out.tfevents.*": 150,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run with files of every kind: steps 1 to 16 sealed, 17 to 24 in a journal."""
    place = tmp_path_factory.mktemp("runs") / "a"
    with programs.monitor_of(
        place, programs.SmallStore(rows_a_journal=24), gradwatch.TensorBoard()
    ) as monitor:
        programs.record(monitor, SEED, range(1, 17), pause=0.005)
    deadline = time.monotonic() + 60
    assert sealing.sealer.finish(deadline)
    journals = gradwatch.store.writer.StoreWriter(place, first_step=17)
    for step in range(17, 25):
        journals.write(programs.reading(SEED, step))
    assert truth.steps_shown(place, SEED) == list(range(1, 25))
    yield place
    journals.close()


def true_rows(run):
    """How many rows the run shows; each of them is true."""
    rows = run.sql(f"select path, step, {truth.SHOWN} from summaries").fetchall()
    assert len({row[:2] for row in rows}) == len(rows)
    for path, step, *numbers in rows:
        true = truth.summary(truth.gradients(SEED, step)[path])
        np.testing.assert_allclose(np.array(numbers, float), true, rtol=1e-12)
    return len(rows)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_flipped_bit_is_detected_or_harmless(place, pattern, count):
    rng = np.random.default_rng(11)
    flips = count(6, PATTERNS[pattern])
    files = sorted(place.glob(pattern))
    assert files
    detected = 0
    for _ in range(flips):
        path = files[rng.integers(len(files))]
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            with gradwatch.open(place) as run:
                rows, damage = true_rows(run), run.damage
            if pattern.startswith("events"):
                # Not read by the reader: checked by `verify`, which has their checksums.
                assert rows == 24 * len(truth.PATHS)
                report = gradwatch.maintain.verify(place)
                damage = [*report.damage, *report.torn]
                assert damage
            # What is not reported has cost nothing: some bytes say nothing.
            assert damage or rows == 24 * len(truth.PATHS)
            detected += bool(damage)
        finally:
            path.write_bytes(whole)
    print(f"{pattern}: {flips} flips, {detected} detected")
    assert detected > flips // 2
    assert truth.steps_shown(place, SEED) == list(range(1, 25))
