"""Every query chooses the same rows: whole steps, or else their micro-batches, site by site."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradwatch
from gradwatch import Kind, Site
from gradwatch.core import CELLS, Reading, Summary
from gradwatch.store import StoreWriter

A, B = (Site(Kind.OUTPUT, f"net/{name}") for name in "ab")
STEPS = (1, 2, 3)


def tensor(rank, site, step, part):
    seed = [rank, site == A, step, 9 if part is None else part]
    return np.random.default_rng(seed).normal(size=12)


def recorded(step, site):
    """Which parts of a step are in the run: A also as a whole, from step 2 on."""
    return (None, 0, 1) if site == A and step > 1 else (0, 1)


def write(directory, rank):
    writer = StoreWriter(directory, rank=rank)
    for step in STEPS:
        for part in (None, 0, 1):
            sites = [site for site in (A, B) if part in recorded(step, site)]
            if sites:
                given = [tensor(rank, site, step, part) for site in sites]
                rows = Summary.unpack(np.stack([Summary.of(each).pack() for each in given]))
                cells = {i: np.eye(CELLS)[7] * 12 for i in range(len(sites))}
                writer.write(Reading(step, 1, 1e9, sites, rows, cells, "", part))
    writer.close()


def chosen(rank, site, step):
    parts = recorded(step, site)
    parts = parts[:1] if parts[0] is None else parts
    return np.concatenate([tensor(rank, site, step, part) for part in parts])


def norm(ranks, sites, step):
    return np.linalg.norm(np.concatenate([chosen(r, s, step) for r in ranks for s in sites]))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    for rank in (0, 1):
        write(directory, rank)
    return gradwatch.open(directory)


@pytest.mark.parametrize(("rank", "ranks"), [(None, [0]), (1, [1]), ("all", [0, 1])])
@pytest.mark.parametrize("path", ["net/a", "net/b", "model"])
def test_series_and_heatmap_and_histograms_choose_the_same_rows(run, rank, ranks, path):
    sites = run.members("output", path)
    true = [norm(ranks, sites, step) for step in STEPS]
    steps, values = run.series("output", path, rank=rank)
    assert steps.tolist() == list(STEPS)
    assert_allclose(values, true)
    if len(sites) == 1:
        table = run.heatmap("output", pattern=path, rank=rank)
        assert_allclose(table.values[0], true)
    _, histograms = run.histograms("output", path, rank=rank)
    counts = [sum(chosen(r, s, step).size for r in ranks for s in sites) for step in STEPS]
    assert [found.cells.sum() for found in histograms] == counts


def test_each_rank_has_its_own_rows_of_a_total(run):
    found = run.across_ranks("output", "model")
    assert_allclose(found.values, [[norm([r], [A, B], step) for step in STEPS] for r in (0, 1)])


def test_readings_have_every_row(run):
    assert [(r.step, r.micro_batch, len(r)) for r in run.readings(rank=1)] == [
        (1, 0, 2), (1, 1, 2),
        (2, None, 1), (2, 0, 2), (2, 1, 2),
        (3, None, 1), (3, 0, 2), (3, 1, 2),
    ]  # fmt: skip
