"""A run in a list: last numbers, the course of its loss, its settings."""

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, Site
from gradwatch.read import outline_of, settings_of
from tests.cli.support import make_run
from tests.view.data.made_metrics import metric_run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    config = {"lr": 0.1, "net": {"units": [8, 4], "bias": True}}
    truth = metric_run(place / "a", config=config, tags=["x", "y"], note="a try")
    metric_run(place / "b", 1)
    return place, truth


def test_an_outline_has_the_last_of_each_number(made):
    place, truth = made
    with gradwatch.open(place / "a") as run:
        found = outline_of(run)
    last = {(site.kind, site.path): list(series.values()) for site, series in truth.items()}
    # What was reported of the epoch counts, not the loss of its last batch.
    assert found.losses == {"loss": pytest.approx(last["epoch_metric", "loss"][-1], rel=1e-12)}
    assert found.metrics == {
        "accuracy": pytest.approx(last["metric", "accuracy"][-1], rel=1e-12),
        "val_loss": pytest.approx(last["epoch_metric", "val_loss"][-1], rel=1e-12),
        "val_accuracy": pytest.approx(last["epoch_metric", "val_accuracy"][-1], rel=1e-12),
    }
    np.testing.assert_allclose(found.course, last["loss", "loss"], rtol=1e-12)
    assert found.config == {"lr": 0.1, "net.units": "[8, 4]", "net.bias": True}
    assert (found.tags, found.note) == (("x", "y"), "a try")


def test_a_loss_that_is_only_reported_has_a_course(tmp_path):
    site = Site(Kind.EPOCH_METRIC, "val_loss")
    make_run(tmp_path / "run", {site: {step: np.array([1.0 / step]) for step in (5, 10)}})
    found = outline_of(gradwatch.open(tmp_path / "run"))
    assert found.course == (0.2, 0.1)
    assert found.metrics == {"val_loss": 0.1}
    assert found.losses == {}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, 0.5),
        ({Kind.METRIC: {6: 0.6}}, 0.6),
        ({Kind.METRIC: {6: 0.6}, Kind.EPOCH_METRIC: {5: 0.7}}, 0.7),
    ],
)
@pytest.mark.parametrize("path", ["loss", "critic/loss"])
def test_the_loss_is_of_the_epoch_or_as_reported_or_of_the_step(tmp_path, reported, expected, path):
    truth = {
        Site(kind, path): {step: np.array([value]) for step, value in series.items()}
        for kind, series in {Kind.LOSS: {7: 0.5}, **reported}.items()
    }
    make_run(tmp_path / "run", truth)
    found = outline_of(gradwatch.open(tmp_path / "run"))
    assert found.losses == {path: expected}
    assert found.metrics == {}


def test_a_loss_that_is_only_reported_is_the_loss(tmp_path):
    truth = {Site(Kind.METRIC, name): {7: np.array([0.5])} for name in ("accuracy", "loss")}
    make_run(tmp_path / "run", truth)
    found = outline_of(gradwatch.open(tmp_path / "run"))
    assert (found.losses, found.metrics) == ({"loss": 0.5}, {"accuracy": 0.5})


def test_a_loss_that_became_nan_is_nan(tmp_path):
    values = {1: np.array([1.0]), 2: np.array([np.nan])}
    make_run(tmp_path / "run", {Site(Kind.LOSS, "loss"): values})
    found = outline_of(gradwatch.open(tmp_path / "run"))
    assert np.isnan(found.losses["loss"])
    assert np.isnan(found.course[-1])


@pytest.mark.parametrize("config", [None, 3, "x", ["a"], {}])
def test_settings_that_are_none_are_no_settings(config):
    assert settings_of({"config": config}) == {}


def test_settings_of_any_depth_and_number_are_bounded():
    many = {str(i): i for i in range(9000)}
    found = settings_of({"config": {"deep": {"d": {"e": 1}}, "many": many}})
    assert len(found) <= 500
    assert found["deep.d.e"] == 1
    assert len(settings_of({"config": {"text": "x" * 10_000}})["text"]) <= 500
    deep: dict = {"end": 1}
    for _ in range(100):
        deep = {"d": deep}
    ((name, value),) = settings_of({"config": deep}).items()
    assert name.count("d") < 10
    assert '"end": 1' in value or len(value) == 500


def test_runs_as_rows(made):
    place, _ = made
    rows = gradwatch.open(place).rows()
    assert [row["name"] for row in rows] == ["a", "b"]
    assert rows[0]["config.lr"] == 0.1
    assert rows[0]["val_accuracy"] == pytest.approx(0.9)
    assert "config.lr" not in rows[1]
    pandas = pytest.importorskip("pandas")
    frame = gradwatch.open(place).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["config.lr"].tolist()[0] == 0.1
