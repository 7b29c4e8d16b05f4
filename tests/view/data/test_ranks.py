"""What is shown of the processes of a parallel training, against NumPy."""

import base64

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradwatch
import gradwatch.view.data as data
from gradwatch import Kind, Site
from gradwatch.core import Reading, Summary
from gradwatch.core.reference import summarize
from gradwatch.read import RankTable
from gradwatch.store import description
from gradwatch.store.writer import StoreWriter
from gradwatch.view.data.rank_data import merged_rows
from gradwatch.view.data.rank_spread import spread

RANKS, STEPS = 7, range(1, 13)
LOSS, WEIGHT = Site(Kind.LOSS, "loss"), Site(Kind.WEIGHT, "net/kernel")


def loss(rank, step):
    if (rank, step) == (5, 6):
        return np.nan
    return rank + 1 / step


def decoded(text):
    return np.frombuffer(base64.b64decode(text), "<f8")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Rank 3 has stopped after step 4; an eighth is expected and never came."""
    place = tmp_path_factory.mktemp("ranks")
    about = description.Description(place)
    about.begin({"first_step": 1, "ranks": RANKS + 1})
    about.write()
    for rank in range(RANKS):
        writer = StoreWriter(place, 1, rank)
        sites = [LOSS, *[WEIGHT] * (rank == 0)]
        for step in STEPS[: 4 if rank == 3 else None]:
            arrays = [np.array(loss(rank, step)), *[np.ones(3)] * (rank == 0)]
            rows = Summary.unpack(np.array([summarize(array) for array in arrays]))
            writer.write(Reading(step, 1, 1.7e9 + step, sites, rows))
        writer.close()
    return data.RunView(gradwatch.open(place))


def table(steps=STEPS):
    """Ranks by steps."""
    of = np.array([[loss(rank, step) for step in steps] for rank in range(RANKS)])
    of[3, [step > 4 for step in steps]] = np.nan
    return of


def test_the_overview_has_every_process_also_the_missing_one(shown):
    found = data.overview(shown, [])["processes"]
    assert found["rank"] == list(range(RANKS + 1))
    assert found["status"] == ["finished"] * RANKS + ["empty"]
    assert found["last_step"] == [12, 12, 12, 4, 12, 12, 12, None]
    assert found["first_step"] == [1] * RANKS + [None]
    assert found["last_time"][3] == 1.7e9 + 4
    assert found["numbers"] == [{"kind": "loss", "path": "loss"}]


def test_a_number_of_all_ranks_has_a_row_each(shown):
    found = data.ranks(shown, "loss", "loss", data.Window(500), max_rows=10)
    assert found["ranks"] == list(range(RANKS))
    assert (found["together"], found["width"]) == (1, 1)
    assert found["first"] == list(STEPS)
    values = decoded(found["values"]).reshape(RANKS, len(STEPS))
    assert_allclose(values, table(), rtol=1e-12)
    assert found["nonfinite"] == [[5, 5, 1]]
    finite = np.where(np.isfinite(table()), table(), np.nan)
    for name, of in (("low", np.nanmin), ("median", np.nanmedian), ("high", np.nanmax)):
        assert_allclose(decoded(found[name]), of(finite, axis=0), rtol=1e-12)


def test_columns_of_several_steps_are_averages(shown):
    found = data.ranks(shown, "loss", "loss", data.Window(3, stretch=(1, 4)), max_rows=10)
    assert (found["first"], found["last"]) == ([1, 2, 4], [1, 3, 4])
    values = decoded(found["values"]).reshape(RANKS, 3)
    true = table()
    assert_allclose(values[:, 1], true[:, 1:3].mean(axis=1), rtol=1e-12)


def test_of_ranks_that_share_a_row_the_one_shows_that_is_unlike_the_others():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1003, 20)) * 0.01 + 5
    values[314, 7], values[601, 3] = 9.0, 1.0
    values[40:44, 2] = np.nan
    nonfinite = np.isnan(values).astype(float)
    steps = np.arange(20)
    of = RankTable(steps, steps, steps, tuple(range(1003)), values, nonfinite)
    shown, bad, together = merged_rows(of, 250)
    assert (together, shown.shape) == (5, (201, 20))
    assert shown[314 // 5, 7] == 9.0
    assert shown[601 // 5, 3] == 1.0
    median = np.nanmedian(values, axis=0)
    for row in range(201):
        own = values[row * 5 : row * 5 + 5]
        for column in range(20):
            if np.isnan(own[:, column]).all():
                assert np.isnan(shown[row, column])
                continue
            away = np.nan_to_num(np.abs(own[:, column] - median[column]), nan=-1)
            assert shown[row, column] == own[away.argmax(), column]
    assert bad.sum() == 4


def test_a_column_without_a_finite_value_has_no_spread():
    values = np.array([[1.0, np.nan, np.inf], [3.0, np.nan, np.nan]])
    low, median, high = spread(values).values()
    assert_array_equal(low, [1.0, np.nan, np.nan])
    assert_array_equal(median, [2.0, np.nan, np.nan])
    assert_array_equal(high, [3.0, np.nan, np.nan])


def test_numbers_tell_how_far_ranks_are_apart_in_the_same_columns(shown):
    (found,) = data.numbers(shown, data.Window(500))["numbers"]
    assert found["first"] == list(STEPS)
    finite = np.where(np.isfinite(table()), table(), np.nan)
    assert_allclose(decoded(found["values"]), table()[0], rtol=1e-12)
    assert_allclose(decoded(found["ranks"]["low"]), np.nanmin(finite, axis=0), rtol=1e-12)
    assert_allclose(decoded(found["ranks"]["high"]), np.nanmax(finite, axis=0), rtol=1e-12)
    (part,) = data.numbers(shown.with_rank(3), data.Window(500, since=3, width=1))["numbers"]
    assert part["first"] == [3, 4]
    assert_allclose(decoded(part["ranks"]["low"]), np.nanmin(finite, axis=0)[2:4], rtol=1e-12)


def test_the_rank_that_is_asked_for_is_shown(shown):
    (of_three,) = data.numbers(shown.with_rank(3), data.Window(500))["numbers"]
    assert_allclose(decoded(of_three["values"]), table()[3, :4], rtol=1e-12)
    (of_all,) = data.numbers(shown.with_rank("all"), data.Window(500))["numbers"]
    true = table()
    true[5, 5] = np.nan
    mean = np.array([column[~np.isnan(column)].mean() for column in true.T])
    mean[5] = np.nan
    assert_allclose(decoded(of_all["values"]), mean, rtol=1e-12)
    with pytest.raises(gradwatch.read.NotRecordedError, match="no rank 9"):
        shown.with_rank(9)
    assert shown.rank is None


def test_a_run_of_one_process_has_no_processes(tmp_path):
    with gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.Store()]) as monitor:
        monitor.record(gradients={"a": np.ones(2)}, loss=1.0)
    shown = data.RunView(gradwatch.open(tmp_path))
    assert data.overview(shown, [])["processes"] is None
    (number, *_) = data.numbers(shown, data.Window(10))["numbers"]
    assert number["ranks"] is None
