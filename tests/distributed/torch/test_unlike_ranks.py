"""Real trainings of three and of two processes, of which one is unlike the others."""

from pathlib import Path

import numpy as np
import pytest
import torch

import gradwatch
from gradwatch.diagnosis import Severity, diagnose
from tests.distributed.launching import Processes, environment, once

PROGRAM = Path(__file__).with_name("unlike.py")
OF_THREE = (
    "healthy", "copied", "counted", "nan", "corrupted_little", "corrupted_much", "repaired",
    "apart", "slow", "slow_with_buffers", "slow_sharded", "budgets",
)  # fmt: skip
OF_TWO = ("nan", "corrupted_much", "slow")
ABOUT_RANKS = {"non-finite-rank", "drifting-replicas", "straggling-rank"}


def launched(factory, ranks, scenarios):
    def launch(out):
        programs = [[PROGRAM, out, rank, ranks, *scenarios] for rank in range(ranks)]
        with Processes(out, programs, [environment()] * ranks) as processes:
            assert processes.wait_for_all() == [0] * ranks, processes.heard()

    return once(factory, f"unlike-{ranks}", launch)


@pytest.fixture(scope="session")
def three(tmp_path_factory):
    return launched(tmp_path_factory, 3, OF_THREE)


@pytest.fixture(scope="session")
def two(tmp_path_factory):
    return launched(tmp_path_factory, 2, OF_TWO)


def about_ranks(path):
    def fail(text):
        raise AssertionError(text)

    with gradwatch.open(path) as run:
        found = diagnose(run, on_error=fail).findings
    return [finding for finding in found if finding.rule in ABOUT_RANKS]


def the_one(path, rule):
    (finding,) = about_ranks(path)
    assert finding.rule == rule, finding.title
    return finding


@pytest.mark.parametrize("has_buffers", [False, True])
def test_healthy_ranks_are_left_alone_and_train_as_without_the_monitor(three, has_buffers):
    assert about_ranks(three / f"healthy-{has_buffers}") == []
    for rank in range(3):
        bare, watched = torch.load(three / f"healthy-{rank}.pt")[has_buffers]
        assert bare.keys() == watched.keys()
        assert all(torch.equal(bare[name], watched[name]) for name in bare)


def test_comparing_copies_takes_no_collective(three):
    for rank in range(3):
        bare, watched = torch.load(three / f"counted-{rank}.pt", weights_only=False)
        assert bare == watched
        assert bare["c10d::allreduce_"] >= 25


def test_weights_of_all_ranks_are_recorded_at_the_same_few_steps(three):
    with gradwatch.open(three / "healthy-False") as run:
        assert run.steps("weight", 1).tolist() == run.steps("weight", 2).tolist() == [10, 20]
        assert run.steps("gradient", 1).tolist() == []
        copies = run.across_ranks("weight", "0/weight", "sum", steps=(20, 20))
        assert copies.ranks == (0, 1, 2)
        assert copies.values.shape == (3, 1)
        assert np.unique(copies.values).size == 1


def test_budgets_that_differ_do_not_change_the_steps_at_which_copies_are_compared(three):
    with gradwatch.open(three / "budgets") as run:
        steps = [set(run.steps("weight", rank).tolist()) for rank in range(3)]
    assert steps[1] == steps[2] == {10, 20}
    assert steps[0] >= {10, 20}
    assert [f for f in about_ranks(three / "budgets") if f.rule != "straggling-rank"] == []


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_rank_that_brought_nan_is_named_with_the_layer(request, ranks):
    out = request.getfixturevalue({2: "two", 3: "three"}[ranks])
    unlike = ranks - 1
    found = the_one(out / "nan", "non-finite-rank")
    assert f"NaN in step 15 on rank {unlike} alone, first in output 2; it" in found.title
    assert (found.layer, found.since, found.severity) == ("2", 15, Severity.ERROR)
    with gradwatch.open(out / "nan") as run:
        explained = {f.rule: f.explained_by for f in diagnose(run).findings}
    assert explained["non-finite"] == "non-finite-rank"


def test_it_says_so_itself_while_it_trains(three):
    own, other = (torch.load(three / f"nan-{rank}.pt") for rank in (2, 1))
    assert own == ["NaN in step 15, first in output 2."]
    # The others have what it has brought, a step later.
    assert other == ["NaN in step 16, first in output 0."]


def test_one_unit_in_the_last_place_of_one_weight_of_one_rank_is_seen(three):
    found = the_one(three / "corrupted_little", "drifting-replicas")
    assert found.title == (
        "The weights of rank 2 differ from those of the other 2 ranks, first in 3/weight."
    )
    assert (found.severity, found.since, found.layer) == (Severity.WARNING, 20, "3")
    assert 0 < found.evidence["relative difference"] < 1e-6
    assert found.evidence["tensors that differ"] == 1
    assert found.evidence["tensors compared"] == 4
    assert found.evidence["last alike step"] == 10


def test_a_large_change_of_one_weight_is_an_error(three, two):
    found = the_one(three / "corrupted_much", "drifting-replicas")
    assert (found.severity, found.evidence["rank"]) == (Severity.ERROR, 2)
    np.testing.assert_allclose(found.evidence["sums differ by"], 1.0, rtol=1e-6)
    of_two = the_one(two / "corrupted_much", "drifting-replicas")
    assert "The weights of ranks 0 and 1 differ from each other" in of_two.title


def test_copies_that_are_made_alike_again_end_the_finding(three):
    found = the_one(three / "repaired", "drifting-replicas")
    assert (found.since, found.until) == (10, 10)


def test_gradients_that_are_not_averaged_show_on_all_ranks(three):
    found = the_one(three / "apart", "drifting-replicas")
    assert "The weights of ranks 0, 1 and 2 differ from each other, first in 0/" in found.title
    assert (found.severity, found.since) == (Severity.ERROR, 10)
    assert found.evidence["tensors that differ"] == 4


@pytest.mark.parametrize(
    ("fixture", "name"),
    [("three", "slow"), ("three", "slow_with_buffers"), ("three", "slow_sharded"), ("two", "slow")],
)
def test_a_rank_that_is_long_in_loading_its_data_is_named(request, fixture, name):
    unlike = {"two": 1, "three": 2}[fixture]
    found = the_one(request.getfixturevalue(fixture) / name, "straggling-rank")
    assert found.title == f"Rank {unlike} holds up the others, by 40% of each step."
    np.testing.assert_allclose(found.evidence["own seconds"], 0.030, rtol=1e-6)
    np.testing.assert_allclose(found.evidence["others' own seconds"], 0.010, rtol=1e-6)
    np.testing.assert_allclose(found.evidence["step seconds"], 0.050, rtol=1e-6)
