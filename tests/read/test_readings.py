"""All readings of a run at once are those of its steps, one after the other."""

import numpy as np
import pytest

import gradwatch
from gradwatch.core.reference import count_cells
from gradwatch.read import recorded_readings as readings
from tests.store.recorded import SITES, Recorder, array


@pytest.fixture(scope="module", params=[True, False], ids=["sealed", "not sealed"])
def run(tmp_path_factory, request):
    """Two parts of a training, micro-batches, histograms, a second attempt, named groups."""
    place = tmp_path_factory.mktemp("runs") / "a"
    first = Recorder(place, rows_a_journal=90)
    first.write(range(1, 9), histograms=True, members={"some": [0, 3]})
    first.write(range(5, 12), micro_batch=1)
    first.close(seal=request.param)
    second = Recorder(place, rows_a_journal=90, first_step=7, attempt=1)
    second.sites = SITES[:7]
    second.write(range(7, 15), group="critic")
    second.close(seal=request.param)
    with gradwatch.open(place) as run:
        yield run


@pytest.mark.parametrize("rows", [1, 60, 10**6])
def test_many_steps_read_at_once_are_those_read_one_by_one(run, monkeypatch, rows):
    monkeypatch.setattr(readings, "_ROWS", rows)
    one_by_one = [reading for step in run.steps() for reading in run.at(step)]
    at_once = list(run.readings())
    assert len(at_once) == len(one_by_one) > 14
    for found, true in zip(at_once, one_by_one, strict=True):
        for name in ("step", "epoch", "time", "sites", "group", "micro_batch", "members"):
            assert getattr(found, name) == getattr(true, name)
        np.testing.assert_array_equal(found.summary.pack(), true.summary.pack())
        assert found.cells.keys() == true.cells.keys()
        for i, cells in found.cells.items():
            np.testing.assert_array_equal(cells, true.cells[i])


def test_histograms_of_readings_are_those_of_the_arrays(run):
    [reading] = [r for r in run.readings() if r.step == 3]
    assert len(reading.cells) == len(SITES)
    for i, cells in reading.cells.items():
        np.testing.assert_array_equal(cells, count_cells(array(reading.sites[i], 3)))
