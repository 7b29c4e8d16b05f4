"""A sink that is slow or hangs: training goes on, memory is bounded, each loss is counted."""

from __future__ import annotations

import json

import pytest

from tests.faults import truth
from tests.variants import rarely

STEPS = 150


@pytest.mark.parametrize("seconds", [0.02, 1e9, *rarely(1.0, 30.0)])
def test_a_slow_sink_costs_its_own_record_only(nursery, tmp_path, seconds):
    output = nursery.run("programs.train_with_a_slow_sink", tmp_path, 4, STEPS, seconds)
    told = json.loads(output.splitlines()[-1])
    # Each reading was written or is counted; one that was under way at the end, and given up,
    # may have been written after all.
    assert told["written"] + told["lost"] in (STEPS, STEPS + 1)
    # On a busy machine one that is only a little slow may keep up.
    assert told["lost"] > 0 or seconds < 1.0
    assert len(told["said"]) == (told["lost"] > 0), told  # The account at the end.
    assert truth.steps_shown(tmp_path, 4) == list(range(1, STEPS + 1))
    print(f"{seconds} s: {told}")


def test_what_waits_for_sinks_that_hang_holds_at_most_64_mb(nursery, tmp_path):
    readings, sites = 120, 20_000
    output = nursery.run("programs.flood", tmp_path, readings, sites)
    told = json.loads(output.splitlines()[-1])
    assert readings * told["one"] > 150_000_000
    # One more is in the hands of each sink, and one on its way to them.
    assert told["most"] <= 64_000_000 + 5 * told["one"], told
    assert told["now"] > 20_000_000, told
    (account,) = told["said"]
    assert account.count(f"lost {readings} readings ({readings * sites} rows)") == 3, account
    print(f"at most {told['most'] / 1e6:.0f} MB")
