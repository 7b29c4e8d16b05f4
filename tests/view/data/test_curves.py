"""Losses and metrics over steps, epochs and time are what was recorded."""

from itertools import pairwise

import numpy as np
import pytest

import gradwatch
from gradwatch.view.data import RunView, curves
from tests.view.data.made import doubles
from tests.view.data.made_metrics import EPOCH, STEPS, metric_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    truths = [metric_run(place / name, seed) for seed, name in enumerate("ab")]
    return [RunView(gradwatch.open(place / name), name) for name in "ab"], truths


def test_every_point_is_what_was_recorded(runs):
    views, truths = runs
    answer = curves(views, 500)
    assert [run["id"] for run in answer["runs"]] == ["a", "b"]
    for run, truth in zip(answer["runs"], truths, strict=True):
        assert run["has_epochs"]
        found = {(each["kind"], each["path"]): each for each in run["curves"]}
        assert set(found) == {(str(site.kind), site.path) for site in truth}
        for site, series in truth.items():
            own = found[str(site.kind), site.path]
            assert own["step"] == list(series)
            np.testing.assert_allclose(doubles(own["values"]), list(series.values()), rtol=1e-12)
            steps = np.array(own["step"])
            # A step of ten is a tenth of an epoch; the last one of an epoch ends it.
            np.testing.assert_allclose(doubles(own["epoch"]), steps / EPOCH, rtol=1e-12)
            seconds = doubles(own["time"])
            np.testing.assert_allclose(np.diff(seconds), np.diff(steps))


def test_more_points_than_asked_for_are_averaged_but_for_the_last_value(runs):
    views, (truth, _) = runs
    answer = curves(views[:1], 5)
    (metric,) = [
        each
        for each in answer["runs"][0]["curves"]
        if (each["kind"], each["path"]) == ("metric", "loss")
    ]
    series = next(
        values for site, values in truth.items() if (site.kind, site.path) == ("metric", "loss")
    )
    edges = [0, *metric["step"]]
    assert len(metric["step"]) <= 5
    assert metric["step"][-1] == STEPS
    true = [
        np.mean([series[s] for s in range(first + 1, last + 1)]) for first, last in pairwise(edges)
    ]
    true[-1] = series[STEPS]
    np.testing.assert_allclose(doubles(metric["values"]), true, rtol=1e-12)


def test_a_run_without_epochs_has_none(tmp_path):
    with gradwatch.Monitor(tmp_path / "run", every=1, sinks=[gradwatch.Store()]) as monitor:
        for step in range(3):
            monitor.record(loss=1.0 + step, epoch=0)
    (run,) = curves([RunView(gradwatch.open(tmp_path / "run"))], 10)["runs"]
    if not run["has_epochs"]:
        assert np.isnan(doubles(run["curves"][0]["epoch"])).all()
    assert doubles(run["curves"][0]["values"]).tolist() == [1.0, 2.0, 3.0]


def test_a_run_without_numbers_has_no_curves(tmp_path):
    with gradwatch.Monitor(tmp_path / "run", every=1, sinks=[gradwatch.Store()]) as monitor:
        monitor.record(gradients={"w": np.ones(2)})
    (run,) = curves([RunView(gradwatch.open(tmp_path / "run"))], 10)["runs"]
    assert run["curves"] == []
