"""Runs of many ranks: of each its own rows, whatever the others have, and sites in common once."""

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from gradwatch.core import Reading, Summary
from gradwatch.read import Catalog
from gradwatch.store import description
from gradwatch.store.writer import StoreWriter
from tests.store.recorded import settle

RANKS = range(7)
STEPS = range(1, 6)
RESUMED, RESUMED_AT = 2, 3
UNSEALED = (4, 5)
PATHS = ("net/a/kernel", "net/a/bias", "net/b/kernel", "net/b/bias")


def tensor(rank, path, step, attempt=0):
    rng = np.random.default_rng([rank, PATHS.index(path), step, attempt])
    return rng.normal(0, 1 + rank, 20).astype("float32")


def paths_of(rank):
    """In another order on each rank, and not all of them on some: numbers differ."""
    turned = PATHS[rank % 4 :] + PATHS[: rank % 4]
    return turned[:3] if rank % 3 == 1 else turned


def write(directory, rank, steps, attempt=0, *, seal=True):
    writer = StoreWriter(directory, first_step=steps[0], rank=rank)
    sites = [Site(Kind.GRADIENT, path) for path in paths_of(rank)]
    for step in steps:
        rows = np.stack([Summary.of(tensor(rank, s.path, step, attempt)).pack() for s in sites])
        writer.write(Reading(step, 1, 1e9 + step, sites, Summary.unpack(rows)))
    if seal:
        writer.close()
        settle()
        assert not list(directory.glob(f"journal-{writer.name}-*.gwj"))


def attempt_of(rank, step):
    return int(rank == RESUMED and step >= RESUMED_AT)


def l2(rank, path, step):
    given = tensor(rank, path, step, attempt_of(rank, step)).astype("float64")
    return np.sqrt(np.sum(given**2))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    for rank in RANKS:
        write(directory, rank, STEPS, seal=rank not in UNSEALED)
    write(directory, RESUMED, STEPS[RESUMED_AT - 1 :], attempt=1)
    return gradwatch.open(directory)


def test_a_series_is_the_ranks_own(run):
    for rank in RANKS:
        for path in paths_of(rank):
            steps, values = run.series("gradient", path, "l2", rank=rank)
            assert steps.tolist() == list(STEPS)
            np.testing.assert_allclose(values, [l2(rank, path, s) for s in STEPS], rtol=1e-6)


def test_a_heatmap_is_the_ranks_own(run):
    for rank in RANKS:
        found = run.heatmap("gradient", "l2", rank=rank)
        true = [
            [l2(rank, s.path, step) if s.path in paths_of(rank) else np.nan for step in STEPS]
            for s in found.sites
        ]
        assert len(found.sites) == len(PATHS)
        np.testing.assert_allclose(found.values, true, rtol=1e-6)


def test_the_readings_of_a_step_are_the_ranks_own(run):
    for rank in RANKS:
        for step in STEPS:
            (reading,) = run.at(step, rank=rank)
            assert {site.path for site in reading.sites} == set(paths_of(rank))
            true = [l2(rank, site.path, step) for site in reading.sites]
            np.testing.assert_allclose(reading.statistic("l2"), true, rtol=1e-6)


def test_all_ranks_are_side_by_side(run):
    path = PATHS[0]
    having = [rank for rank in RANKS if path in paths_of(rank)]
    found = run.across_ranks("gradient", path, "l2")
    assert found.ranks == tuple(having)
    true = [[l2(rank, path, step) for step in STEPS] for rank in having]
    np.testing.assert_allclose(found.values, true, rtol=1e-6)


def test_sql_sees_the_rows_of_all_ranks_once(run):
    rows = run.sql("SELECT rank, path, step, l2 FROM summaries").fetchall()
    true = {(r, p, s): l2(r, p, s) for r in RANKS for p in paths_of(r) for s in STEPS}
    assert {tuple(row[:3]) for row in rows} == set(true)
    assert len(rows) == len(true)
    for rank, path, step, value in rows:
        np.testing.assert_allclose(value, true[rank, path, step], rtol=1e-6)


def test_each_rank_has_the_steps_that_it_has_recorded(tmp_path):
    for rank in range(4):
        write(tmp_path, rank, range(1, rank + 2), seal=rank != 3)
    run = gradwatch.open(tmp_path)
    assert [run.steps(rank=rank).tolist() for rank in range(4)] == [
        list(range(1, rank + 2)) for rank in range(4)
    ]
    assert [status.last_step for status in run.rank_statuses] == [1, 2, 3, 4]
    assert run.rows == sum((rank + 1) * len(paths_of(rank)) for rank in range(4))


def test_the_table_of_sites_knows_those_that_came_later(tmp_path):
    write(tmp_path, 0, [1])
    run = gradwatch.open(tmp_path)
    assert run.sql("SELECT count(*) FROM sites").fetchall() == [(4,)]
    writer = StoreWriter(tmp_path, rank=1)
    late = Site(Kind.LOSS, "loss")
    writer.write(Reading(1, 1, 1e9, [late], Summary.unpack(np.ones((1, 10)))))
    assert run.refresh()
    assert run.sql("SELECT path FROM sites WHERE kind = 'loss'").fetchall() == [("loss",)]


def test_ranks_with_the_same_sites_share_one_list_of_them(tmp_path):
    many = [Site(Kind.GRADIENT, f"net/layer_{i}/kernel") for i in range(50)]
    for rank in (0, 1):
        writer = StoreWriter(tmp_path, rank=rank)
        writer.write(Reading(1, 1, 1e9, many, Summary.unpack(np.full((50, 10), 1.0 + rank))))
        writer.close()
        settle()
    catalog = Catalog(tmp_path)
    catalog.refresh()
    first, second = catalog.writers.values()
    assert first.sites is second.sites
    assert [entry[1] for entry in first.sites] == [site.path for site in many]
    run = gradwatch.open(tmp_path)
    for rank in (0, 1):
        assert run.series("gradient", many[7].path, "sum", rank=rank)[1].tolist() == [1.0 + rank]


def test_what_run_json_says_is_read_again_only_once_it_has_changed(tmp_path):
    about = description.Description(tmp_path)
    about.begin({"first_step": 1})
    about.write()
    write(tmp_path, 0, [1])
    run = gradwatch.open(tmp_path)
    before = run.facts
    assert not run.refresh()
    assert run.facts is before
    about.amend("note", "slow")
    about.write()
    assert run.refresh()
    assert run.facts["note"] == "slow"
