"""Resumed training: one value a site and step, and nothing thrown away."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradwatch
from gradwatch.core import Kind, Site
from gradwatch.read.attempts import Attempt, bounds
from tests.statistics_truth import TRUTH
from tests.store.recorded import SITES, Recorder, array

KERNEL = Site(Kind.GRADIENT, "net/conv1/kernel")


def superseded(row, attempts, with_rows):
    """The README's rule, word for word: (rank, order, group, step) of a row."""
    rank, order, group, step = row
    return any(
        later.rank == rank
        and place > order
        and later.group in (None, group)
        and (later.writer, later.number) in with_rows
        and later.first_step <= step
        for place, later in enumerate(attempts)
    )


def test_the_bounds_say_the_same_as_the_rule(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(100):
        attempts = [
            Attempt(f"w{i // 3}", i % 3, int(rng.integers(2)), int(rng.integers(1, 30)),
                    [None, "", "g", "d"][rng.integers(4)])
            for i in range(int(rng.integers(1, 12)))
        ]  # fmt: skip
        with_rows = {(a.writer, a.number) for a in attempts if rng.random() < 0.7}
        groups = {a.writer: ["", "g", "d"] for a in attempts}
        found = bounds(attempts, with_rows, groups)
        for order, attempt in enumerate(attempts):
            for group in ("", "g", "d"):
                until = found.get((attempt.writer, attempt.number, group), 10**9)
                for step in range(1, 35):
                    row = attempt.rank, order, group, step
                    assert (step >= until) == superseded(row, attempts, with_rows)


def test_twenty_resumes_show_the_latest_value_of_each_step_and_keep_the_others(tmp_path):
    rng = np.random.default_rng(1)
    latest, written, first = {}, 0, 1
    for attempt in range(20):
        steps = range(first, first + 12)
        recorder = Recorder(tmp_path, first_step=first, attempt=attempt, rows_a_journal=90)
        recorder.write(steps).close(seal=attempt % 2 == 0)
        latest = {s: a for s, a in latest.items() if s < first} | dict.fromkeys(steps, attempt)
        written += len(steps)
        first = int(rng.integers(max(1, first - 5), first + 10))
    run = gradwatch.open(tmp_path)
    steps, values = run.series("gradient", KERNEL.path, "l2")
    assert_array_equal(steps, sorted(latest))
    true = [TRUTH["l2"](array(KERNEL, step, latest[step])) for step in sorted(latest)]
    assert_allclose(values, true, rtol=1e-6)
    assert_array_equal(run.steps(), sorted(latest))
    assert_allclose(run.heatmap("gradient").values[0], true, rtol=1e-6)
    rows = len(SITES) + 1
    query = "select count(*), count(distinct (rank, kind, path, step)) from summaries"
    assert run.sql(query).fetchall() == [(len(latest) * rows,) * 2]
    counts = run.sql("select superseded, count(*) from all_summaries group by 1 order by 1")
    assert counts.fetchall() == [
        (False, len(latest) * rows), (True, (written - len(latest)) * rows),
    ]  # fmt: skip
    assert run.rows == written * rows
    assert run.sql("select count(*) from attempts").fetchall() == [(20,)]


def test_an_opening_that_recorded_nothing_supersedes_nothing(tmp_path):
    Recorder(tmp_path).write(range(1, 11)).close()
    Recorder(tmp_path, first_step=1, attempt=1).close()
    assert_array_equal(gradwatch.open(tmp_path).steps(), range(1, 11))


def test_a_step_that_is_repeated_in_one_group_supersedes_only_that_group(tmp_path):
    players = {name: [Site(Kind.GRADIENT, f"{name}/kernel")] for name in ("generator", "critic")}
    both = Recorder(tmp_path, sites=[])
    for step in (1, 2, 3):
        for name, sites in players.items():
            both.sites = sites
            both.write([step], group=name)
    both.sites, both.attempt = players["critic"], 7
    both.write([2], group="critic")
    both.close()
    run = gradwatch.open(tmp_path)
    assert run.series("gradient", "generator/kernel")[0].tolist() == [1, 2, 3]
    steps, values = run.series("gradient", "critic/kernel")
    assert steps.tolist() == [1, 2]
    site = players["critic"][0]
    true = [TRUTH["l2"](array(site, 1)), TRUTH["l2"](array(site, 2, attempt=7))]
    assert_allclose(values, true, rtol=1e-6)
    assert sorted(reading.group for reading in run.at(1)) == ["critic", "generator"]


def test_a_rank_that_resumes_does_not_supersede_another(tmp_path):
    Recorder(tmp_path, rank=0).write(range(1, 9)).close()
    Recorder(tmp_path, rank=1).write(range(1, 9)).close()
    Recorder(tmp_path, rank=1, first_step=4, attempt=1).write(range(4, 6)).close()
    run = gradwatch.open(tmp_path)
    assert run.steps(rank=0).tolist() == list(range(1, 9))
    assert run.steps(rank=1).tolist() == list(range(1, 6))


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize("clock", [(0.0, -3600.0, -7200.0), (9e9, 0.0, 0.0), (0.0, 0.0, 0.0)])
def test_the_later_attempt_counts_whatever_the_clock_says(tmp_path, monkeypatch, seal, clock):
    began = time.time()
    for attempt, (first, offset) in enumerate(zip((1, 5, 8), clock, strict=True)):
        monkeypatch.setattr(time, "time", lambda offset=offset: began + offset)
        for rank in (0, 1):
            recorder = Recorder(tmp_path, first_step=first, rank=rank, attempt=attempt)
            recorder.write(range(first, first + 10)).close(seal=seal)
    monkeypatch.undo()
    for rank in (0, 1):
        run = gradwatch.open(tmp_path)
        steps, values = run.series("gradient", KERNEL.path, "l2", rank=rank)
        latest = [*[0] * 4, *[1] * 3, *[2] * 10]
        true = [TRUTH["l2"](array(KERNEL, s, a, rank)) for s, a in enumerate(latest, 1)]
        assert_array_equal(steps, range(1, 18))
        assert_allclose(values, true, rtol=1e-6)
        assert run.status == "finished"


def test_a_clock_that_goes_back_between_the_fits_of_a_process_hides_nothing(tmp_path, monkeypatch):
    began = time.time()
    for first, offset in ((1, 0.0), (11, -3600.0), (16, -7200.0)):
        monkeypatch.setattr(time, "time", lambda offset=offset: began + offset)
        with gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.Store()]) as monitor:
            for step in range(first, first + 10):
                monitor.record(gradients={"k": np.array([float(first)])}, step=step)
    monkeypatch.undo()
    steps, values = gradwatch.open(tmp_path).series("gradient", "k", "max")
    assert_array_equal(steps, range(1, 26))
    assert_array_equal(values, [1.0] * 10 + [11.0] * 5 + [16.0] * 10)
