"""SIGKILL at any moment: the run opens, at most the last second is missing, no number is wrong."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

import gradwatch
from tests.faults import truth
from tests.faults.programs import MARK

AT_ONCE = 4
PAUSE = 0.004
"""Of the training, after each step."""


def noted(black_box):
    """When each step was handed to the monitor, step 1 first."""
    data = black_box.read_bytes()
    whole = data[: len(data) // MARK.size * MARK.size]
    return [when for _, when in MARK.iter_unpack(whole)]


def segments(folder, seed):
    return (folder / str(seed)).glob("segments/*.parquet")


def test_a_kill_at_any_moment_costs_at_most_the_last_second(nursery, tmp_path, count):
    rng = np.random.default_rng(20)
    kills = count(8, 200)
    sealed = missing = 0
    for first in range(0, kills, AT_ONCE):
        living = []
        for seed in range(first, min(first + AT_ONCE, kills)):
            black_box = tmp_path / f"{seed}.box"
            child = nursery.start(
                "programs.train_until_killed", tmp_path / str(seed), seed, str(black_box)
            )
            living.append((rng.uniform(0.0, 2.0), seed, child, black_box))
        while not all(box.exists() and box.stat().st_size for *_, box in living):
            time.sleep(0.01)
        # Every other one is killed at work on segments.
        while not all(any(segments(tmp_path, seed)) for _, seed, *_ in living if seed % 2):
            time.sleep(0.01)
        begun = time.monotonic()
        for moment, seed, child, black_box in sorted(living):
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            os.kill(child, signal.SIGKILL)
            died = time.monotonic()
            assert nursery.wait(child) == -signal.SIGKILL, nursery.output(child)
            handed_over = noted(black_box)
            # Where the machine stood still, so did the thread that writes.
            stood_still = 10 * max(np.diff([*handed_over, died]).max() - PAUSE, 0)
            latest = died - 1.0 - stood_still
            due = [step for step, when in enumerate(handed_over, 1) if when < latest]
            steps = truth.steps_shown(tmp_path / str(seed), seed)
            assert steps == list(range(1, len(steps) + 1))
            assert len(due) <= len(steps) <= len(handed_over) + 1
            missing = max(missing, len(handed_over) - len(steps))
            sealed += any(segments(tmp_path, seed))
            if seed % 5 == 0:
                report = gradwatch.maintain.verify(tmp_path / str(seed))
                assert report.is_whole, str(report)
                gradwatch.maintain.repair(tmp_path / str(seed))
                assert truth.steps_shown(tmp_path / str(seed), seed) == steps
    print(f"{kills} kills, {sealed} of runs with segments; at most {missing} steps missing")
    assert sealed >= kills // 2
