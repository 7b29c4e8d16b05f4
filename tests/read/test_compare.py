"""Two runs side by side."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradwatch
from gradwatch.core import Kind, Site
from gradwatch.read import NotRecordedError
from tests.statistics_truth import shown_truth
from tests.store.recorded import SITES, Recorder, array

GRADIENTS = [site for site in SITES if site.kind is Kind.GRADIENT]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    Recorder(place / "short").write(range(1, 21)).close()
    Recorder(place / "long", attempt=1, sites=[*SITES, Site(Kind.GRADIENT, "more/kernel")]).write(
        range(1, 41)
    ).close()
    with gradwatch.open(place) as runs:
        yield runs


def norms(site, steps, attempt):
    squares = [shown_truth("l2", array(site, step, attempt)) ** 2 for step in steps]
    return np.sqrt(np.mean(squares))


def test_runs_align_by_step(runs):
    found = runs.compare("short", "long", kind="gradient", statistic="l2")
    assert found.names == ("short", "long")
    assert list(found.sites) == GRADIENTS
    assert found.only == {"short": [], "long": [Site(Kind.GRADIENT, "more/kernel")]}
    assert found.position.tolist() == list(range(1, 41))
    for i, site in enumerate(GRADIENTS):
        short = [norms(site, [s], 0) if s <= 20 else np.nan for s in range(1, 41)]
        long = [norms(site, [s], 1) for s in range(1, 41)]
        assert_allclose(found.values[0, i], short, rtol=1e-6)
        assert_allclose(found.values[1, i], long, rtol=1e-6)
        assert_allclose(found.difference()[i], np.subtract(long, short), rtol=1e-5, atol=1e-6)
        with np.errstate(all="ignore"):
            ratio = np.where(np.array(short) == 0, np.nan, np.divide(long, short))
        assert_allclose(found.ratio()[i], ratio, rtol=1e-6)


def test_runs_align_by_the_share_of_training(runs):
    cells = 10 * len(GRADIENTS)
    found = gradwatch.compare(runs["short"], runs["long"], align="fraction", max_cells=cells)
    assert_allclose(found.position, np.arange(10) / 10)
    for i, site in enumerate(GRADIENTS):
        for j in range(10):
            assert_allclose(
                found.values[0, i, j], norms(site, [2 * j + 1, 2 * j + 2], 0), rtol=1e-6
            )
            four = range(4 * j + 1, 4 * j + 5)
            assert_allclose(found.values[1, i, j], norms(site, four, 1), rtol=1e-6)


def test_a_run_does_not_differ_from_itself(runs):
    found = gradwatch.compare(runs["short"], runs["short"])
    assert found.names == (str(runs["short"].path),) * 2
    assert [share for _, share in found.most_different()] == [0.0] * len(GRADIENTS)


def test_the_sites_that_differ_most_come_first(runs):
    found = runs.compare("short", "long")
    order = [share for _, share in found.most_different()]
    assert order == sorted(order, reverse=True)
    a, b = np.abs(found.values[0]), np.abs(found.values[1])
    with np.errstate(all="ignore"):
        assert_allclose(order[0], np.nanmax(np.abs(a - b) / (a + b)))


def test_what_cannot_be_compared_is_refused(runs):
    with pytest.raises(ValueError, match="two runs or more"):
        gradwatch.compare(runs["short"])
    with pytest.raises(ValueError, match="align"):
        gradwatch.compare(runs["short"], runs["long"], align="time")
    with pytest.raises(NotRecordedError, match="no output in common"):
        gradwatch.compare(runs["short"], runs["long"], kind="output")
