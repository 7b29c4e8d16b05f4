"""The progress of a run, read bit by bit, equals its progress read as a whole."""

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Reading, Site, Summary
from gradwatch.store.writer import StoreWriter
from gradwatch.view.data import site_queries
from gradwatch.view.data.run_progress import ProgressReader
from tests.cli.support import arrays, write


def put(writer, truth, steps):
    for step in steps:
        sites = list(truth)
        rows = np.stack([Summary.of(truth[site][step]).pack() for site in sites])
        writer.write(Reading(step, 1, 1e9 + step / 2, sites, Summary.unpack(rows)))


def same(reader, directory):
    """Both as facts, of a reader that has looked before and of a fresh one."""
    with gradwatch.open(directory) as run:
        fresh = vars(ProgressReader(run).read())
    np.testing.assert_equal(vars(reader.read()), fresh)
    return fresh


def test_what_is_added_is_seen_and_equals_a_fresh_look(tmp_path):
    truth = arrays()
    writer = StoreWriter(tmp_path / "a")
    put(writer, truth, [1])
    with gradwatch.open(tmp_path / "a") as run:
        reader = ProgressReader(run)
        for last in (5, 6, 20, 40):
            put(writer, truth, range((run.last_step or 0) + 1, last + 1))
            run.refresh()
            facts = same(reader, tmp_path / "a")
            assert facts["step"] == last
            assert facts["numbers"][0]["value"] == 1 / last
            assert facts["steps_per_second"] == pytest.approx(2.0)
        writer.close()
        run.refresh()
        assert same(reader, tmp_path / "a")["status"] == "finished"


def test_a_site_that_is_measured_rarely_keeps_its_last_measurement(tmp_path):
    gradient, weight = Site(Kind.GRADIENT, "a/kernel"), Site(Kind.WEIGHT, "a/kernel")
    writer = StoreWriter(tmp_path / "a")
    with gradwatch.open(_begun(writer, {weight: {1: np.array([3.0, 4.0])}})) as run:
        reader = ProgressReader(run)
        reader.read()
        for first, last in ((2, 5), (6, 8)):
            steps = range(first, last + 1)
            put(writer, {gradient: {s: np.array([float(s)]) for s in steps}}, steps)
            run.refresh()
            [layer] = same(reader, tmp_path / "a")["layers"]
            assert (layer["weight_l2"], layer["gradient_l2"]) == (5.0, last)
    writer.close()


def _begun(writer, truth):
    put(writer, truth, [1])
    return writer.directory


def test_a_training_that_goes_back_shows_the_newer_attempt(tmp_path):
    truth, other = arrays(), arrays(seed=1)
    write(tmp_path / "a", truth).close()
    with gradwatch.open(tmp_path / "a") as run:
        reader = ProgressReader(run)
        assert reader.read().step == 40
        again = write(tmp_path / "a", other, first=10, last=12)
        run.refresh()
        facts = same(reader, tmp_path / "a")
        assert facts["step"] == 12
        norm = np.linalg.norm(
            np.concatenate([other[Site(Kind.GRADIENT, f"net/conv/{p}")][12] for p in PARTS])
        )
        assert facts["layers"][0]["gradient_l2"] == pytest.approx(norm, rel=1e-12)
        again.close()


PARTS = ("kernel", "bias")


def test_only_what_is_new_is_asked_for(tmp_path, monkeypatch):
    truth = arrays()
    writer = write(tmp_path / "a", truth, last=30)
    asked = []
    real = site_queries.last_measurements

    def newest(run, rank, since=None):
        asked.append(since)
        return real(run, rank, since)

    monkeypatch.setattr(site_queries, "last_measurements", newest)
    with gradwatch.open(tmp_path / "a") as run:
        reader = ProgressReader(run)
        reader.read()
        put(writer, truth, range(31, 35))
        run.refresh()
        reader.read()
    writer.close()
    # First the last 20 steps, in which all sites are; then from the last step on.
    assert asked == [11, 30]


def test_a_run_without_anything_stands_at_nothing(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with gradwatch.open(tmp_path) as run:
        progress = ProgressReader(run).read()
    assert (progress.step, progress.layers, progress.steps_per_second) == (None, [], None)


def test_micro_batches_of_a_step_are_one_measurement(tmp_path):
    site = Site(Kind.GRADIENT, "a/kernel")
    parts = [np.array([1.0, 2.0]), np.array([2.0, 4.0])]
    writer = StoreWriter(tmp_path / "a")
    for i, part in enumerate(parts):
        row = Summary.of(part).pack()[None]
        writer.write(Reading(1, 1, 1e9, [site], Summary.unpack(row), micro_batch=i))
    writer.close()
    with gradwatch.open(tmp_path / "a") as run:
        [layer] = ProgressReader(run).read().layers
        _, values = run.series("gradient", "a/kernel", "l2")
    assert layer["gradient_l2"] == pytest.approx(np.linalg.norm(np.concatenate(parts)))
    assert layer["gradient_l2"] == pytest.approx(float(values[-1]))


def test_a_step_that_was_measured_as_a_whole_counts_and_not_its_micro_batches(tmp_path):
    site = Site(Kind.GRADIENT, "a/kernel")
    writer = StoreWriter(tmp_path / "a")
    for micro_batch, norm in ((0, 1.0), (1, 2.0), (None, 7.0)):
        row = Summary.of(np.array([norm])).pack()[None]
        writer.write(Reading(1, 1, 1e9, [site], Summary.unpack(row), micro_batch=micro_batch))
    writer.close()
    with gradwatch.open(tmp_path / "a") as run:
        [layer] = ProgressReader(run).read().layers
    assert layer["gradient_l2"] == 7.0
