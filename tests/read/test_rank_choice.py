"""Whose numbers `rank=` stands for, against NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradwatch
from gradwatch import Kind, Site
from gradwatch.core import Reading, Summary
from gradwatch.core.reference import count_cells, summarize
from gradwatch.store.writer import StoreWriter
from tests.statistics_truth import TRUTH
from tests.store.recorded import settle

STEPS = range(1, 7)
OUTPUT, ONLY_1 = Site(Kind.OUTPUT, "net/a"), Site(Kind.OUTPUT, "net/b")
WEIGHT, LOSS = Site(Kind.WEIGHT, "net/a/kernel"), Site(Kind.LOSS, "loss")
OWN = {0: [OUTPUT, WEIGHT, LOSS], 1: [OUTPUT, ONLY_1, WEIGHT, LOSS], 2: [OUTPUT, LOSS]}
"""Rank 2 is late: it begins with step 4; what rank 1 alone has, rank 0 has not."""


def tensor(site, rank, step):
    rng = np.random.default_rng([step, rank * (site is not WEIGHT), len(site.path)])
    return rng.normal(size=() if site is LOSS else (7,)) + 3


@pytest.fixture(scope="module", params=[True, False], ids=["sealed", "unsealed"])
def run(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("choice")
    for rank, sites in OWN.items():
        writer = StoreWriter(place, 1, rank, rows_a_journal=8)
        for step in STEPS:
            if rank == 2 and step < 4:
                continue
            arrays = [tensor(site, rank, step) for site in sites]
            rows = Summary.unpack(np.array([summarize(array) for array in arrays]))
            cells = {0: count_cells(arrays[0])}
            writer.write(Reading(step, 1, 1.7e9 + step, sites, rows, cells))
        writer.close()
    if request.param:
        settle()
    return gradwatch.open(place)


def of_all(site, step):
    having = [rank for rank in OWN if site in OWN[rank] and (rank < 2 or step >= 4)]
    return np.stack([tensor(site, rank, step) for rank in having])


def test_by_default_a_site_is_its_first_ranks(run):
    for site, rank in ((OUTPUT, 0), (ONLY_1, 1), (LOSS, 0)):
        statistic = "value" if site is LOSS else "mean"
        steps, values = run.series(site.kind, site.path, statistic)
        assert steps.tolist() == list(STEPS)
        assert_allclose(values, [tensor(site, rank, step).mean() for step in STEPS], rtol=1e-6)
    found = run.heatmap("output", "l2")
    true = [[np.linalg.norm(tensor(s, r, t)) for t in STEPS] for s, r in ((OUTPUT, 0), (ONLY_1, 1))]
    assert_allclose(found.values, true, rtol=1e-6)
    both = [np.concatenate([tensor(OUTPUT, 0, t), tensor(ONLY_1, 1, t)]) for t in STEPS]
    _, merged = run.series("output", "net", "l2")
    assert_allclose(merged, [np.linalg.norm(each) for each in both], rtol=1e-6)


@pytest.mark.parametrize("statistic", ["l2", "mean", "std", "count", "max"])
def test_all_ranks_outputs_merged_are_those_of_the_whole_batch(run, statistic):
    truth = [TRUTH[statistic](of_all(OUTPUT, step)) for step in STEPS]
    steps, values = run.series("output", "net/a", statistic, rank="all")
    assert steps.tolist() == list(STEPS)
    assert_allclose(values, truth, rtol=1e-6)
    assert_allclose(run.heatmap("output", statistic, rank="all").values[0], truth, rtol=1e-6)


def test_a_column_of_several_steps_counts_a_step_of_several_ranks_once(run):
    found = run.heatmap("output", "l2", rank="all", max_cells=2)
    squares = [(of_all(OUTPUT, step) ** 2).sum() for step in STEPS]
    assert found.steps[0].tolist() == [6.0]
    assert_allclose(found.values[0], np.sqrt(np.mean(squares)), rtol=1e-6)


def test_all_ranks_losses_are_averaged_and_of_weights_there_is_one(run):
    _, losses = run.series("loss", "loss", "value", rank="all")
    assert_allclose(losses, [of_all(LOSS, step).mean() for step in STEPS], rtol=1e-6)
    heat = run.heatmap("loss", "value", rank="all").values[0]
    assert_allclose(heat, losses, rtol=1e-12)
    _, weights = run.series("weight", "net/a/kernel", rank="all")
    assert_allclose(weights, [np.linalg.norm(tensor(WEIGHT, 0, t)) for t in STEPS], rtol=1e-6)
    assert_allclose(run.heatmap("weight", rank="all").values[0], weights, rtol=1e-12)


def test_histograms_of_all_ranks_count_all_their_elements(run):
    steps, found = run.histograms("output", "net/a", rank="all")
    assert steps.tolist() == list(STEPS)
    assert run.histogram_steps("output", "net/a", rank="all").tolist() == list(STEPS)
    for step, histogram in zip(steps.tolist(), found, strict=True):
        assert histogram.cells.tolist() == count_cells(of_all(OUTPUT, step)).tolist()


def test_one_rank_is_that_one_and_no_other(run):
    steps, values = run.series("output", "net/a", rank=2)
    assert steps.tolist() == [4, 5, 6]
    assert_allclose(values, [np.linalg.norm(tensor(OUTPUT, 2, t)) for t in steps], rtol=1e-6)
    assert run.series("output", "net/b", rank=0)[0].size == 0
    with pytest.raises(gradwatch.read.NotRecordedError, match="no rank 7"):
        run.series("output", "net/a", rank=7)
    with pytest.raises(ValueError, match="'all'"):
        run.series("output", "net/a", rank="every")
    with pytest.raises(ValueError, match="rank must be a number or None"):
        run.at(1, rank="all")


def test_a_replicas_own_rows_say_which_and_are_in_no_total_of_what_is_common(tmp_path):
    writer = StoreWriter(tmp_path, 1, 0)
    for group, value in (("", 6.0), ("replica_0", 2.0), ("gan/replica_12", 4.0)):
        path = f"{group}/net/kernel" if group else "net/kernel"
        rows = Summary.unpack(summarize(np.array([value]))[None])
        writer.write(Reading(1, 1, 1.7e9, [Site(Kind.GRADIENT, path)], rows, group=group))
    writer.close()
    run = gradwatch.open(tmp_path)
    query = "select path, replica, typeof(replica) from {} order by path"
    for table in ("summaries", "all_summaries"):
        assert run.sql(query.format(table)).fetchall() == [
            ("gan/replica_12/net/kernel", 12, "INTEGER"),
            ("net/kernel", None, "INTEGER"),
            ("replica_0/net/kernel", 0, "INTEGER"),
        ]
    assert run.to_arrow().column("replica").to_pylist() == [12, None, 0]
    assert run.series("gradient", "model")[1].tolist() == [6.0]
    assert run.series("gradient", "replica_0")[1].tolist() == [2.0]
