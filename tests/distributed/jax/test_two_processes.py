"""Two processes with `jax.distributed`, on CPUs: what they record, and that they never hang."""

import json

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from gradwatch.core import SiteFilter
from gradwatch.core.reference import summarize
from tests.cli.support import invoke
from tests.distributed.full_disk import require_full_disk
from tests.distributed.jax.models import MODELS, STEPS
from tests.distributed.jax.training import assert_same_summaries
from tests.distributed.launching import FULL, only_in_full

SIGNS = {Site(Kind.SCALAR, "step_seconds"), Site(Kind.SCALAR, "processes")}
ALL = list(range(1, STEPS + 1))


def weights(folder, rank, name):
    arrays = np.load(folder / f"{rank}.npz")
    return [arrays[key] for key in sorted(arrays) if key.startswith(f"{name}/")]


def told(folder, rank):
    return json.loads((folder / f"{rank}.json").read_text())


def said(folder, rank, name):
    return " ".join(told(folder, rank)["said"][name])


def readings(directory, rank=None):
    """Those of what was measured, without the signs of life."""
    if not directory.exists():
        return []
    with gradwatch.open(directory) as run:
        found = list(run.readings(rank=rank)) if run.ranks else []
    shown = [SiteFilter(SIGNS.__contains__)(reading) for reading in found]
    return [reading for reading in shown if len(reading)]


def test_summaries_are_those_of_a_single_device_with_the_whole_batch(trained):
    found, expected = readings(trained / "watched"), readings(trained / "single")
    assert_same_summaries(found, expected, MODELS["batch_norm"]())
    assert said(trained, 0, "watched") == said(trained, 1, "watched") == ""


def test_each_process_leaves_a_sign_of_life_and_the_first_all_else(trained):
    with gradwatch.open(trained / "watched") as run:
        assert run.ranks == (0, 1)
        kinds = run.sql("select distinct rank, kind, path from summaries where rank > 0")
        assert {Site(Kind(kind), path) for _, kind, path in kinds.fetchall()} == SIGNS
        for rank in run.ranks:
            steps, seconds = run.series("scalar", "step_seconds", "value", rank=rank)
            assert steps.tolist() == ALL[1:]
            assert (seconds > 0).all()
            steps, processes = run.series("scalar", "processes", "value", rank=rank)
            assert (steps.tolist(), processes.tolist()) == ([1], [2.0])
        assert "step_seconds" in run.meaning["scalar"]
        assert [str(each.status) for each in run.rank_statuses] == ["finished", "finished"]


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("watched", "bare"),
        pytest.param("unwritable", "bare_plain", marks=only_in_full),
        ("full_0", "bare_plain"),
        ("full_1", "bare_plain"),
        ("closed", "bare_plain"),
        pytest.param("differing", "bare_plain", marks=only_in_full),
        ("paused", "bare_plain"),
        ("function", "bare_plain"),
        ("alone", "bare_plain"),
    ],
)
def test_training_ends_with_the_weights_that_it_has_without_a_monitor(trained, name, bare):
    for rank in (0, 1):
        pairs = zip(weights(trained, rank, name), weights(trained, rank, bare), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@only_in_full
def test_a_process_that_cannot_write_does_not_hold_up_the_others(trained):
    assert "Cannot write to" in said(trained, 0, "unwritable")
    assert said(trained, 1, "unwritable") == ""


def test_a_process_whose_disk_is_full_says_so_and_does_not_hold_up_the_others(trained):
    require_full_disk(trained)
    for full in (0, 1):
        name = f"full_{full}"
        assert "No space left on device" in said(trained, full, name)
        assert said(trained, 1 - full, name) == ""
        assert told(trained, full)["bytes"][name] == 0
    # The first records all, and each its signs of life.
    assert [reading.step for reading in readings(trained / "full_1")] == ALL
    with gradwatch.open(trained / "full_0") as run:
        assert run.ranks == (1,)
        assert run.steps("scalar", 1).tolist() == ALL


def test_a_process_that_closes_its_monitor_measures_on_with_the_others(trained):
    assert [reading.step for reading in readings(trained / "closed")] == ALL
    with gradwatch.open(trained / "closed") as run:
        assert run.steps("scalar", 1).tolist() == [1]


def test_a_process_without_a_monitor_or_with_another_one_keeps_all_from_measuring(trained):
    assert "process 1 of 2 has no monitor" in said(trained, 0, "alone")
    different = ("paused", "differing") if FULL else ("paused",)
    for rank in (0, 1):
        for name in different:
            assert "measures other things, or at other times" in said(trained, rank, name)
    for name in ("alone", *different):
        assert readings(trained / name) == []


def test_a_function_of_the_users_own_which_may_differ_keeps_all_from_measuring(trained):
    for rank in (0, 1):
        assert "<lambda> is a function of your own" in said(trained, rank, "function")
    assert readings(trained / "function") == []


def test_a_loop_over_arrays_of_all_processes_records_the_whole_arrays(trained):
    w = np.arange(32, dtype="float64").reshape(8, 4)
    found = readings(trained / "loop")
    for reading in found:
        gradient = 2 * w if reading.step < 4 else w
        if reading.step < 4:
            w = w - 0.125 * gradient
        for kind, true in ((Kind.GRADIENT, gradient), (Kind.WEIGHT, w)):
            row = reading.summary.pack()[reading.position[Site(kind, "w")]]
            np.testing.assert_allclose(row, summarize(true), rtol=1e-6)
    assert [reading.step for reading in found] == [1, 2, 3, 4]
    with gradwatch.open(trained / "loop") as run:
        assert run.steps("scalar", 1).tolist() == [1, 2, 3, 4]


def test_the_run_says_which_process_was_killed_after_which_step(killed):
    directory = killed / "run"
    with gradwatch.open(directory) as run:
        assert str(run.status) == "crashed"
        first, second = run.rank_statuses
        assert (str(second.status), second.last_step) == ("crashed", 2)
        assert second.last_time is not None
        assert first.last_step == 2
    assert [reading.step for reading in readings(directory)] == [1, 2]
    assert "rank 1 crashed, last at step 2" in invoke("show", str(directory)).stdout
