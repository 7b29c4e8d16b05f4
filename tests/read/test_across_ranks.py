"""One thing on all ranks, side by side, against NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradwatch
from gradwatch import Kind, Site
from gradwatch.core import Reading, Summary
from gradwatch.core.reference import summarize
from gradwatch.store.writer import StoreWriter
from tests.statistics_truth import TRUTH
from tests.store.recorded import Recorder, array

KERNEL = Site(Kind.GRADIENT, "net/conv1/kernel")
BIAS = Site(Kind.GRADIENT, "net/conv1/bias")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Rank 0 measures ten steps; rank 2 is late and was resumed; rank 1 measured micro-batches."""
    place = tmp_path_factory.mktemp("ranks")
    Recorder(place, rank=0, rows_a_journal=60).write(range(1, 11)).close()
    parts = Recorder(place, rank=1)
    for part in (0, 1):
        parts.write([2, 4], micro_batch=part)
    parts.close(seal=False)
    Recorder(place, rank=2, first_step=5).write(range(5, 10)).close()
    Recorder(place, rank=2, first_step=8, attempt=1).write([8]).close(seal=False)
    return place


def tensors(site, rank, step):
    """What that rank has of that site at that step; several are its micro-batches."""
    if rank == 0:
        return [array(site, step)]
    if rank == 1:
        return [array(site, step, 0, 1, part) for part in (1, 2)] if step in (2, 4) else []
    if step == 8:
        return [array(site, step, 1, 2)]
    return [array(site, step, 0, 2)] if 5 <= step < 8 else []


def truth(statistic, sites, steps):
    table = np.full((3, len(steps)), np.nan)
    for rank in range(3):
        for column, step in enumerate(steps):
            found = [t for site in sites for t in tensors(site, rank, step)]
            if found:
                table[rank, column] = TRUTH[statistic](np.concatenate(found))
    return table


@pytest.mark.parametrize("statistic", TRUTH)
def test_every_statistic_of_every_rank_is_numpys(place, statistic):
    found = gradwatch.open(place).across_ranks("gradient", KERNEL.path, statistic)
    assert_array_equal(found.steps, range(1, 11))
    assert found.ranks == (0, 1, 2)
    assert_allclose(found.values, truth(statistic, [KERNEL], range(1, 11)), rtol=1e-6, atol=1e-9)


def test_what_a_layer_stands_for_is_merged_on_each_rank_by_itself(place):
    found = gradwatch.open(place).across_ranks("gradient", "net/conv1")
    assert_allclose(found.values, truth("l2", [KERNEL, BIAS], range(1, 11)), rtol=1e-6)


def test_only_the_steps_that_were_asked_for_and_the_ranks_that_have_any(place):
    run = gradwatch.open(place)
    found = run.across_ranks("gradient", KERNEL.path, steps=(5, 7))
    assert found.steps.tolist() == [5, 6, 7]
    assert found.ranks == (0, 2)
    assert_allclose(found.values, truth("l2", [KERNEL], [5, 6, 7])[[0, 2]], rtol=1e-6)
    none = run.across_ranks("gradient", KERNEL.path, steps=(50, 70))
    assert (none.steps.size, none.ranks, none.values.shape) == (0, (), (0, 0))


def test_an_updates_norm_is_relative_to_the_same_ranks_weight(place):
    run = gradwatch.open(place)
    found = run.across_ranks("update", "net/conv1/kernel", "update_ratio")
    update, weight = (Site(kind, "net/conv1/kernel") for kind in (Kind.UPDATE, Kind.WEIGHT))
    with np.errstate(invalid="ignore"):
        true = truth("l2", [update], found.steps) / truth("l2", [weight], found.steps)
    assert_allclose(found.values, true, rtol=1e-6)


def test_each_ranks_own_row_is_what_series_says_of_that_rank(place):
    run = gradwatch.open(place)
    for kind, path, statistic in (
        ("gradient", "model", "l2"),
        ("loss", "loss", "value"),
        ("weight", "net/dense", "std"),
    ):
        found = run.across_ranks(kind, path, statistic)
        for row, rank in enumerate(found.ranks):
            steps, values = run.series(kind, path, statistic, rank=rank)
            own = np.isin(found.steps, steps)
            assert own.sum() == steps.size
            assert_allclose(found.values[row, own], values, rtol=1e-12)
            assert np.isnan(found.values[row, ~own]).all()


def test_a_loss_that_is_not_finite_on_one_rank_is_so_there_alone(tmp_path):
    truth = np.array([[1.0, 2.0, 3.0], [1.5, np.inf, np.nan], [0.5, -np.inf, 4.0]])
    for rank, losses in enumerate(truth):
        writer = StoreWriter(tmp_path, 1, rank)
        for step, loss in enumerate(losses, start=1):
            rows = Summary.unpack(summarize(np.array(loss))[None])
            writer.write(Reading(step, 1, 1.7e9, [Site(Kind.LOSS, "loss")], rows))
        writer.close()
    found = gradwatch.open(tmp_path).across_ranks("loss", "loss", "value")
    assert_array_equal(found.values, truth)


def test_what_does_not_exist_is_refused_in_words(place):
    run = gradwatch.open(place)
    with pytest.raises(gradwatch.read.NotRecordedError, match="conv1"):
        run.across_ranks("gradient", "net/conv9")
    with pytest.raises(ValueError, match="no statistic 'l3'"):
        run.across_ranks("gradient", KERNEL.path, "l3")
