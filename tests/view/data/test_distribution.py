"""Distributions, against NumPy on the elements."""

import ml_dtypes
import numpy as np
import pytest

import gradwatch
from gradwatch.core import Histogram
from gradwatch.read import NotRecordedError
from gradwatch.view.data import RunView, Window, distribution, picture, pictures
from gradwatch.view.data.distribution import edges_for, shares
from tests.view.data.made import doubles

DTYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def unpacked(answer):
    steps, levels = len(answer["steps"]), len(answer["levels"])
    edges = doubles(answer["edges"])
    return (
        doubles(answer["quantiles"], steps, levels),
        edges,
        doubles(answer["shares"], steps, max(edges.size - 1, 0)),
    )


@pytest.fixture
def recorded(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {step: rng.normal(0, step, 5000) for step in range(1, 13)}
    arrays[4][:1000] = 0.0
    arrays[5][:10] = np.nan
    arrays[6][0] = 1e6
    watch = [gradwatch.gradients(every=1, histogram=True)]
    with gradwatch.Monitor(tmp_path / "a", watch=watch, sinks=[gradwatch.Store()]) as monitor:
        for step in range(1, 13):
            monitor.record(gradients={"a/kernel": arrays[step]})
    return RunView(gradwatch.open(tmp_path / "a")), arrays


def test_quantiles_and_shares_are_those_of_the_elements(recorded):
    shown, arrays = recorded
    answer = distribution(shown, "gradient", "a/kernel", Window(100))
    quantiles, edges, found = unpacked(answer)
    assert answer["steps"] == list(range(1, 13))
    assert (np.diff(edges) > 0).all()
    for i, step in enumerate(answer["steps"]):
        values = arrays[step][np.isfinite(arrays[step])]
        true = np.quantile(values, answer["levels"])
        # A cell of a histogram is up to a quarter of its value wide.
        np.testing.assert_allclose(quantiles[i], true, rtol=0.25, atol=0.03 * step)
        assert quantiles[i, 0] == values.min()
        assert quantiles[i, -1] == values.max()
        assert found[i].sum() == pytest.approx(1.0)
        counted, _ = np.histogram(values, edges)
        np.testing.assert_allclose(found[i], counted / values.size, atol=0.06)
        # Over all smaller values together the spread within a cell evens out.
        np.testing.assert_allclose(found[i].cumsum(), counted.cumsum() / values.size, atol=0.05)


def test_casts_are_those_of_the_last_step_in_the_window(tmp_path):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=3000) * 10.0 ** rng.uniform(-10, 6, 3000) for _ in range(3)]
    watch = [gradwatch.gradients(every=1, histogram=True)]
    with gradwatch.Monitor(tmp_path / "a", watch=watch, sinks=[gradwatch.Store()]) as monitor:
        for step, array in enumerate([*arrays, np.zeros(3)], 1):
            monitor.record(gradients={"a/kernel": array}, step=step)
    shown = RunView(gradwatch.open(tmp_path / "a"))
    for window, step in ((Window(100, (1, 3)), 3), (Window(1, (1, 2)), 2)):
        casts = distribution(shown, "gradient", "a/kernel", window)["casts"]
        assert [each["format"] for each in casts] == list(DTYPES)
        for each in casts:
            with np.errstate(over="ignore"):
                cast = arrays[step - 1].astype(DTYPES[each["format"]]).astype(float)
            for outcome, is_so in (("zero", cast == 0), ("overflow", ~np.isfinite(cast))):
                low, high = each[outcome]
                assert low <= is_so.mean() <= high < low + 0.02
    assert distribution(shown, "gradient", "a/kernel", Window(100))["casts"] == []


def test_one_outlier_does_not_squeeze_all_else_into_one_bin(recorded):
    shown, _ = recorded
    _, edges, found = unpacked(distribution(shown, "gradient", "a/kernel", Window(100)))
    assert edges[-1] == 1e6
    assert edges[-2] < 100
    assert (found.max(axis=1) < 0.5).all()


def test_more_histograms_than_columns_are_merged(recorded):
    shown, arrays = recorded
    answer = distribution(shown, "gradient", "a/kernel", Window(3))
    quantiles, edges, found = unpacked(answer)
    assert answer["steps"] == [5, 11, 12]
    values = np.concatenate([arrays[step] for step in range(1, 6)])
    values = values[np.isfinite(values)]
    true, _ = np.histogram(values, edges)
    np.testing.assert_allclose(found[0], true / values.size, atol=0.06)
    assert (quantiles[0, 0], quantiles[0, -1]) == (values.min(), values.max())
    zoomed = distribution(shown, "gradient", "a/kernel", Window(100, (3, 5)))
    assert zoomed["steps"] == [3, 4, 5]


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        ([2.0, 2.0], [1.0, 3.0]),
        ([0.0], [-0.5, 0.5]),
        ([np.nan, np.inf], []),
        ([], []),
    ],
)
def test_a_distribution_of_one_value_or_none_has_a_bin_or_none(values, edges):
    histogram = Histogram.of(np.array(values))
    found = edges_for([histogram])
    assert found.tolist() == edges
    assert shares(histogram, found).tolist() == [1.0] * bool(edges)


def test_what_is_on_an_edge_is_in_the_bin_above_it_and_at_the_end_below():
    histogram = Histogram.of(np.array([0.0, 0.0, 0.0, 1.0]))
    assert shares(histogram, np.array([-1.0, 0.0, 0.5, 1.0])).tolist() == [0.0, 0.75, 0.25]


def test_without_histograms_there_is_nothing_to_show(tmp_path):
    watch = [gradwatch.gradients(every=1, histogram=False)]
    with gradwatch.Monitor(tmp_path / "a", watch=watch, sinks=[gradwatch.Store()]) as monitor:
        monitor.record(gradients={"a/kernel": np.ones(2)})
    shown = RunView(gradwatch.open(tmp_path / "a"))
    answer = distribution(shown, "gradient", "a/kernel", Window(100))
    assert (answer["steps"], answer["shares"], answer["edges"]) == ([], "", "")
    with pytest.raises(NotRecordedError, match="Nothing was drawn"):
        pictures(shown, "a/kernel")


def test_a_picture_is_the_file_that_was_drawn_at_its_step(tmp_path):
    with gradwatch.Monitor(
        tmp_path / "a",
        watch=[gradwatch.weights(every=1), gradwatch.pictures("a/kernel", every=1)],
        sinks=[gradwatch.Store()],
    ) as monitor:
        for step in range(3):
            monitor.record(variables={"a/kernel": np.full((3, 3, 1, 2), float(step))})
    shown = RunView(gradwatch.open(tmp_path / "a"))
    steps, files = shown.run.pictures("a/kernel")
    assert pictures(shown, "a/kernel") == {"path": "a/kernel", "steps": steps.tolist()}
    assert shown.run.pictured() == ["a/kernel"]
    assert picture(shown, "a/kernel", int(steps[1])) == files[1]
    with pytest.raises(NotRecordedError, match="of step 99"):
        picture(shown, "a/kernel", 99)
