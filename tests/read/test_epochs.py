"""Where epochs begin, also when few steps are measured."""

import numpy as np

import gradwatch
from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.store.writer import StoreWriter

GRADIENT = Site(Kind.GRADIENT, "dense/kernel")
VAL_LOSS = Site(Kind.EPOCH_METRIC, "val_loss")
ONE = Summary.unpack(np.array([Summary.of(np.ones(1)).pack()]))


def epochs_of(place, moments):
    """The epochs of a run of readings, each of a step, an epoch and a site."""
    writer = StoreWriter(place, first_step=1)
    for step, epoch, site in moments:
        writer.write(Reading(step, epoch, 1.7e9 + step, [site], ONE))
    writer.close()
    with gradwatch.open(place) as run:
        return [(e.number, e.first_step, e.last_step, e.is_exact) for e in run.epochs]


def test_an_epoch_begins_after_the_last_step_of_the_one_before(tmp_path):
    """Steps 10, 20, 30 are measured, and epochs of 13 steps report at their ends."""
    moments = [(step, 1 + (step - 1) // 13, GRADIENT) for step in (1, 10, 20, 30)]
    moments += [(13, 1, VAL_LOSS), (26, 2, VAL_LOSS)]
    found = epochs_of(tmp_path / "a", sorted(moments, key=lambda moment: moment[0]))
    assert found == [(1, 1, 13, True), (2, 14, 26, True), (3, 27, 30, True)]


def test_where_an_epoch_begins_is_not_guessed(tmp_path):
    moments = [(step, 1 + (step - 1) // 13, GRADIENT) for step in (10, 20, 30)]
    assert epochs_of(tmp_path / "a", moments) == [
        (1, 10, 10, False),
        (2, 20, 20, False),
        (3, 30, 30, False),
    ]


def test_the_epochs_of_a_second_fit_are_its_own(tmp_path):
    moments = [(step, 1 + (step - 1) // 3 % 2, GRADIENT) for step in range(1, 13)]
    assert epochs_of(tmp_path / "a", moments) == [
        (1, 1, 3, True),
        (2, 4, 6, True),
        (1, 7, 9, True),
        (2, 10, 12, True),
    ]
