"""Heatmaps are the true summaries merged over steps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradwatch
from gradwatch.core import STATISTICS, Kind, Site
from gradwatch.read import by_width
from tests.statistics_truth import TRUTH
from tests.store.recorded import SITES, Recorder, array

GRADIENTS = [site for site in SITES if site.kind is Kind.GRADIENT]
PER_STEP = {"count", "nan", "posinf", "neginf", "zeros", "sum", "l1"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    recorder = Recorder(place, rows_a_journal=300).write(range(1, 50))
    with gradwatch.open(place) as run:
        assert run.sql("select count(*) from _tail_summaries").fetchall()[0][0] > 0
        yield run
    recorder.close()


def truth(statistic, site, steps):
    """Of the steps' tensors laid side by side; what adds up, for the average step."""
    together = np.concatenate([array(site, step) for step in steps])
    value = TRUTH[statistic](together)
    if statistic in PER_STEP:
        return value / len(steps)
    return value / np.sqrt(len(steps)) if statistic == "l2" else value


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("max_cells", [10**6, 60, 1])
def test_a_heatmap_is_the_merge_of_the_true_tensors(run, statistic, max_cells):
    heatmap = run.heatmap("gradient", statistic, max_cells=max_cells)
    assert list(heatmap.sites) == GRADIENTS
    assert heatmap.values.shape == (len(GRADIENTS), heatmap.first.size)
    assert heatmap.values.size <= max(max_cells, len(GRADIENTS))
    stretches = [range(a, b + 1) for a, b in zip(heatmap.first, heatmap.last, strict=True)]
    assert [step for stretch in stretches for step in stretch] == list(range(1, 50))
    for i, site in enumerate(GRADIENTS):
        true = [truth(statistic, site, steps) for steps in stretches]
        assert_allclose(heatmap.values[i], true, rtol=1e-6, atol=1e-6)
        together = [np.concatenate([array(site, step) for step in steps]) for steps in stretches]
        nonfinite = [(~np.isfinite(each)).sum() for each in together]
        assert_array_equal(heatmap.nonfinite[i], nonfinite)
        assert_array_equal(heatmap.steps[i], [len(steps) for steps in stretches])


def test_a_heatmap_of_update_ratios_is_the_quotient_of_the_average_steps(run):
    heatmap = run.heatmap("update", "update_ratio", max_cells=60)
    for i, site in enumerate(heatmap.sites):
        for j, (first, last) in enumerate(zip(heatmap.first, heatmap.last, strict=True)):
            steps = range(first, last + 1)
            true = truth("l2", site, steps) / truth("l2", Site(Kind.WEIGHT, site.path), steps)
            assert_allclose(heatmap.values[i, j], true, rtol=1e-6)


def test_a_part_of_it_by_sites_and_by_steps(run):
    whole = run.heatmap("gradient")
    part = run.heatmap("gradient", pattern="conv*/kernel", steps=(10, 19))
    assert [site.path for site in part.sites] == ["net/conv1/kernel", "net/conv2/kernel"]
    assert_array_equal(part.first, range(10, 20))
    assert_array_equal(part.values, whole.values[[0, 2]][:, 9:19])


def test_what_was_not_measured_is_nan_and_empty_columns_are_left_out(tmp_path):
    often = Recorder(tmp_path, sites=[Site(Kind.GRADIENT, "a/kernel")])
    often.write([10, 30])
    often.sites = [Site(Kind.GRADIENT, "a/kernel"), Site(Kind.GRADIENT, "b/kernel")]
    often.write([50]).close()
    heatmap = gradwatch.open(tmp_path).heatmap("gradient")
    assert heatmap.first.tolist() == [10, 30, 50]
    assert np.isnan(heatmap.values[1]).tolist() == [True, True, False]
    assert heatmap.steps[1].tolist() == [0, 0, 1]


def test_it_grows_with_the_run_and_is_the_same_whether_sealed_or_not(tmp_path):
    recorder = Recorder(tmp_path, rows_a_journal=100)
    run, seen = None, []
    for start in range(1, 41, 8):
        recorder.write(range(start, start + 8))
        run = run or gradwatch.open(tmp_path)
        run.refresh()
        seen.append(run.heatmap("gradient", "l2", max_cells=10**6).values)
    recorder.close()
    run.refresh()
    seen.append(run.heatmap("gradient", "l2", max_cells=10**6).values)
    true = [[truth("l2", site, [step]) for step in range(1, 41)] for site in GRADIENTS]
    for found in seen:
        assert_allclose(found, np.array(true)[:, : found.shape[1]], rtol=1e-6)
    assert [found.shape[1] for found in seen] == [8, 16, 24, 32, 40, 40]


def test_columns_are_as_many_as_allowed_and_stay_where_they_are_while_a_run_grows():
    for count in (1, 5, 17, 100, 1000):
        for most in (1, 2, 7, 20, 5000):
            steps = np.arange(1, count + 1) * 3
            columns = np.unique(by_width(steps, most).of(steps)).size
            assert columns <= most
            assert columns >= min(count, most) / 3
    narrow, wide = by_width(np.arange(1, 900), 20), by_width(np.arange(1, 950), 20)
    assert narrow == wide
