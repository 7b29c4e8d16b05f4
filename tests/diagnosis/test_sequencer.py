"""Whatever the order in which readings come, the diagnosis is told the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwatch import Kind, Reading, Site, Summary
from gradwatch.core import ModelFacts
from gradwatch.diagnosis import Diagnosis
from gradwatch.diagnosis.sequencer import Sequencer
from tests.diagnosis.support import reading

PER_EPOCH = 8


class Told(Diagnosis):
    """Keeps what it is told, instead of asking rules."""

    def __init__(self) -> None:
        super().__init__(ModelFacts())
        self.calls: list[tuple[Any, ...]] = []

    def observe(self, reading):
        sites = sorted(map(str, reading.sites))
        self.calls.append(("measured", reading.group, reading.step, *sites))
        return []

    def observe_losses(self, losses, group=""):
        self.calls.append(("losses", group, *((step, round(x, 6)) for step, x in losses)))
        return []

    def observe_epoch(self, epoch, step, logs, group=""):
        self.calls.append(("epoch", epoch, step, dict(logs)))
        return []


def numbers(step: int, values: dict[tuple[Kind, str], float]) -> Reading:
    sites = [Site(kind, path) for kind, path in values]
    epoch = 1 + (step - 1) // PER_EPOCH
    return Reading(step, epoch, 0.0, sites, Summary.of_numbers(list(values.values())))


def fit(losses: list[float], every: int) -> tuple[list[Reading], list[Reading]]:
    """The measurements of a `fit`, and its reports; each in the order of the steps."""
    measured, reports = [], []
    for step, loss in enumerate(losses, 1):
        if step % every == 0:
            measured.append(reading(step, {(Kind.GRADIENT, "a/kernel"): [0.1, step]}, loss))
        first = (step - 1) // PER_EPOCH * PER_EPOCH
        mean = float(np.mean(losses[first:step]))
        reports.append(numbers(step, {(Kind.METRIC, "loss"): mean, (Kind.METRIC, "auc"): 0.5}))
        if step % PER_EPOCH == 0:
            logs = {(Kind.EPOCH_METRIC, "loss"): mean, (Kind.EPOCH_METRIC, "val_loss"): mean}
            reports.append(numbers(step, logs))
    return measured, reports


def together(*several: list[Reading]) -> Iterator[Reading]:
    """As a recorded run has them: one reading a step."""
    by_step: dict[int, list[Reading]] = {}
    for each in chain(*several):
        by_step.setdefault(each.step, []).append(each)
    for step in sorted(by_step):
        parts = by_step[step]
        rows = np.concatenate([part.summary.pack() for part in parts])
        sites = [site for part in parts for site in part.sites]
        yield Reading(step, max(x.epoch for x in parts), 0.0, sites, Summary.unpack(rows))


def _ends_epoch(reading: Reading) -> bool:
    return any(site.kind is Kind.EPOCH_METRIC for site in reading.sites)


def told(readings, **options) -> list[tuple[Any, ...]]:
    diagnosis = Told()
    sequencer = Sequencer(diagnosis, begins=[1], **options)
    for each in readings:
        sequencer.add(each)
    sequencer.finish()
    return diagnosis.calls


def losses_of(calls) -> dict[int, float]:
    return dict(pair for call in calls if call[0] == "losses" for pair in call[2:])


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_reports_may_be_as_late_as_they_like(data):
    every = data.draw(st.integers(1, 5))
    losses = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, math.nan]), max_size=24))
    measured, reports = fit(losses, every)
    truth = told(together(measured, reports))
    waiting, left, come = list(reports), list(measured), []
    while left or waiting:
        # A report comes after the measurement of its step; all of an epoch come before the next.
        may_report = waiting and (not left or waiting[0].step < left[0].step)
        must_report = not left or any(_ends_epoch(x) and x.step < left[0].step for x in waiting)
        if may_report and (must_report or data.draw(st.booleans())):
            come.append(waiting.pop(0))
        else:
            come.append(left.pop(0))
    # As text, in which NaN is equal to NaN.
    assert str(told(come, awaits_reports=True)) == str(truth)


def test_losses_of_unmeasured_steps_are_recovered_once_one_agrees_with_a_measured_one():
    losses = [3.0, 1.0, 2.0, 0.5, 0.25, 4.0, 1.5, 0.75, 9.0, 2.5]
    found = losses_of(told(together(*fit(losses, 2))))
    assert found == {step: losses[step - 1] for step in (3, 5, 7, 9)}


def test_a_fit_that_begins_anew_counts_its_epoch_from_its_first_step():
    diagnosis = Told()
    sequencer = Sequencer(diagnosis, begins=[1, 4])
    truth = [3.0, 1.0, 2.0, 8.0, 0.5, 0.25]
    for first, last in ((1, 3), (4, 6)):  # The first was interrupted in the same epoch.
        for step in range(first, last + 1):
            mean = float(np.mean(truth[first - 1 : step]))
            if step in (2, 5):
                sequencer.add(reading(step, {(Kind.WEIGHT, "a"): [1.0]}, truth[step - 1]))
            sequencer.add(numbers(step, {(Kind.METRIC, "loss"): mean}))
    sequencer.finish()
    assert losses_of(diagnosis.calls) == {3: 2.0, 4: 8.0, 6: 0.25}


def test_what_is_no_running_mean_is_not_believed():
    measured, _ = fit([3.0, 1.0, 2.0, 0.5], 2)
    own = [numbers(step, {(Kind.METRIC, "loss"): 0.1 * step}) for step in (1, 2, 3, 4)]
    assert losses_of(told(together(measured, own))) == {}


def test_a_report_that_is_not_finite_is_told_at_once_and_once_an_epoch():
    reports = [numbers(s, {(Kind.METRIC, "loss"): math.nan}) for s in range(1, 2 * PER_EPOCH + 1)]
    calls = told(reports, awaits_reports=True)
    assert [call[2][0] for call in calls] == [1, PER_EPOCH + 1]


def test_the_loss_of_a_step_may_come_after_its_tensors():
    tensors = [reading(step, {(Kind.WEIGHT, "a/kernel"): [1.0, step]}) for step in (1, 2, 3)]
    losses = [reading(step, {(Kind.LOSS, "loss"): [0.5]}) for step in (1, 2, 3, 4)]
    apart = [tensors[0], losses[0], tensors[1], losses[1], tensors[2], losses[2], losses[3]]
    assert told(apart) == told(together(tensors, losses))
    assert told(apart)[0] == ("measured", "", 1, "loss loss", "weight a/kernel")


@pytest.mark.parametrize("count", [3, 1000])
def test_rules_are_asked_about_losses_more_rarely_the_more_are_known(count):
    calls = told([numbers(s, {(Kind.LOSS, "loss"): 1.0}) for s in range(1, count + 1)])
    assert sum(len(call) - 2 for call in calls) == count
    assert max(len(call) - 2 for call in calls) == (1 if count == 3 else 64)


def test_a_report_that_never_comes_does_not_hold_measurements_up_for_ever():
    diagnosis = Told()
    sequencer = Sequencer(diagnosis, awaits_reports=True)
    for step in range(1, 300):
        sequencer.add(reading(step, {(Kind.WEIGHT, "a/kernel"): [1.0]}, 1.0))
    assert len(diagnosis.calls) == 300 - 1 - 256
    sequencer.flush()
    assert len(diagnosis.calls) == 299


def test_a_measurement_that_comes_late_is_told_before_what_it_explains() -> None:
    told = Told()
    sequencer = Sequencer(told, awaits_reports=True)
    sequencer.begin(1)
    for step in range(1, 4):
        sequencer.add(numbers(step, {(Kind.METRIC, "loss"): 1.0}))
    sequencer.add(reading(5, {(Kind.GRADIENT, "a/kernel"): [math.nan]}))
    late = reading(4, {(Kind.UPDATE, "a/kernel"): [math.nan]})
    sequencer.add(replace(late, is_late=True))
    sequencer.add(numbers(5, {(Kind.METRIC, "loss"): math.nan}))
    sequencer.finish()
    assert [call[2] for call in told.calls if call[0] == "measured"] == [4, 5]
