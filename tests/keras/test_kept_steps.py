"""What is kept of a training's steps: bounded, and only what continues."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from gradwatch.capture.keras.again import LossBreaks, is_harmed, kept_steps
from gradwatch.capture.keras.again.kept_steps import KeptSteps
from gradwatch.core import Kind, Moment, Site, Summary


class Training:
    """Steps of a second each, with a copy of the state wherever one is wanted."""

    def __init__(self, cost: float = 0.0) -> None:
        self.now = 0.0
        self.cost = cost
        self.kept = KeptSteps(lambda: self.now)
        self.is_finite = True

    def step(self, step: int, batch: Any) -> None:
        self.now += 1
        self.kept.begin([Moment(step)])
        if self.kept.wants_state():
            finite = (self.is_finite,)
            self.kept.add_state(f"state {step}", lambda: finite, 0, self.cost, "cpu")
        self.kept.note(batch)
        self.kept.finite_until = step


def steps(training: Training) -> list[int]:
    return [each.moment.step for each in training.kept.batches]


def test_two_states_are_kept_and_all_batches_since_the_older() -> None:
    training = Training()
    for step in range(1, 41):
        training.step(step, np.zeros(step))
    states = [each.step for each in training.kept.states]
    assert len(states) == 2
    assert steps(training) == list(range(states[0], 41))


def test_the_state_is_copied_as_rarely_as_it_is_costly() -> None:
    training = Training(cost=100 * kept_steps.SHARE)
    for step in range(1, 151):
        training.step(step, np.zeros(step))
    assert [each.step for each in training.kept.states] == [1, 101]


def test_batches_take_no_more_than_their_room(monkeypatch: Any) -> None:
    monkeypatch.setattr(kept_steps, "MOST_BATCHES", 10_000)
    training = Training(cost=1000.0)
    for step in range(1, 60):
        training.step(step, np.zeros(100))
        assert sum(each.size for each in training.kept.batches) <= 10_000


def test_a_step_that_was_not_noted_ends_what_can_be_continued() -> None:
    training = Training(cost=1000.0)
    for step in range(1, 5):
        training.step(step, np.zeros(step))
    training.kept.begin([Moment(5)])
    training.kept.begin([Moment(6)])
    assert training.kept.up_to(4) == ([], [])


def test_arrays_that_are_filled_again_are_copied() -> None:
    training, array = Training(), np.zeros(3)
    for step in range(1, 10):
        array[:] = step
        training.step(step, array)
    kept = {each.moment.step: each.batch[0] for each in training.kept.batches}
    assert kept
    assert kept == {step: step for step in kept}


def test_a_loss_breaks_once_until_it_is_finite_again() -> None:
    breaks, nan = LossBreaks(), float("nan")
    assert [breaks.begins(i, x) for i, x in enumerate([1.0, nan, nan, 1.0, nan])] == [
        False, True, False, False, True,
    ]  # fmt: skip


def test_a_measured_step_shows_harm_that_the_loss_hides() -> None:
    breaks = LossBreaks()
    breaks.add_measured(2, lambda: True)
    assert [breaks.begins(step, 1.0) for step in (1, 2, 3)] == [False, True, False]
    assert breaks.finite_until == 1


def test_copies_of_the_state_show_harm_that_the_loss_hides() -> None:
    training = Training()
    training.step(1, np.zeros(1))
    assert training.kept.harmed_before() is None
    training.is_finite = False
    for step in range(2, 12):
        training.step(step, np.zeros(step))
    assert training.kept.harmed_before() == 9
    breaks = LossBreaks()
    assert [breaks.harm(), breaks.harm()] == [True, False]


def test_gradients_that_are_not_finite_do_harm_unless_such_steps_are_skipped() -> None:
    kinds = [Kind.OUTPUT, Kind.GRADIENT]
    rows = np.stack([Summary.of(np.array([np.nan])).pack() for _ in kinds])
    table = SimpleNamespace(rows=[(i, Site(kind, "a")) for i, kind in enumerate(kinds)])
    tables: Any = SimpleNamespace(numbered=lambda number: table)
    arrays = {"rows": rows, "table": 0}
    assert is_harmed(arrays, tables, may_skip=False)
    assert not is_harmed(arrays, tables, may_skip=True)
    assert not is_harmed({**arrays, "rows": rows[:1]}, tables, may_skip=False)
