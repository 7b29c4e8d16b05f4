"""However a training ends, no row is lost, and its end is not held up by what hangs."""

from __future__ import annotations

import signal
import time

import pytest

from tests.faults import truth
from tests.variants import rarely

STEPS = 60
ENDINGS = {
    "without close": 0,
    "sys.exit": 5,
    "exception": 1,
    "SIGTERM": -signal.SIGTERM,
    "SIGINT": -signal.SIGINT,
}


@pytest.mark.parametrize("sink", ["store only", *rarely("beside a sink that hangs")])
@pytest.mark.parametrize("how", ENDINGS)
def test_no_row_is_lost_and_the_end_is_not_held_up(nursery, tmp_path, count, how, sink):
    for seed in range(count(1, 5)):
        place, note = tmp_path / str(seed), tmp_path / f"{seed}.note"
        hangs = sink != "store only"
        child = nursery.start("programs.end_by", how, place, seed, STEPS, str(note), hangs)
        status = nursery.wait(child)
        delay = time.monotonic() - float(note.read_text())
        assert status == ENDINGS[how], nursery.output(child)
        assert truth.steps_shown(place, seed) == list(range(1, STEPS + 1))
        print(f"{how}, {sink}: {delay:.2f} s")
