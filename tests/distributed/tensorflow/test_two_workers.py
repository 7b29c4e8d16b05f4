"""`MultiWorkerMirroredStrategy` in two real processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from tests.distributed.full_disk import require_full_disk
from tests.distributed.tensorflow.truth import assert_summarises

Results = Callable[[str], list[Any]]
MODELS = ["plain", "batch_norm", "embedding", "mixed"]


@pytest.mark.parametrize("name", MODELS)
def test_the_first_worker_records_what_one_device_gives_for_the_whole_batch(
    name: str, results: Results
) -> None:
    first, second = (found[name]["readings"] for found in results("truth"))
    truth = results("truth")[0][name]["truth"]
    whole = [reading for reading in first if reading.group == ""]
    assert len(whole) == len(truth)
    for reading, expected in zip(whole, truth, strict=True):
        assert_summarises(reading, Kind.GRADIENT, expected["gradients"])
        assert_summarises(reading, Kind.WEIGHT, expected["weights"])
    assert all("replica_1" in reading.group for reading in second)


@pytest.mark.parametrize("name", ["plain", "embedding", "mixed"])
def test_each_worker_records_the_gradients_of_its_own_replica(name: str, results: Results) -> None:
    truth = results("truth")[0][name]["truth"]
    for replica, found in enumerate(results("truth")):
        group = f"own/replica_{replica}"
        readings = [reading for reading in found[name]["readings"] if reading.group == group]
        assert len(readings) == len(truth)
        for reading, expected in zip(readings, truth, strict=True):
            assert_summarises(reading, Kind.GRADIENT, expected["parts"][replica], f"{group}/")


def test_the_losses_of_the_workers_add_up_to_that_of_the_batch(results: Results) -> None:
    found = results("truth")
    for step, expected in enumerate(found[0]["plain"]["truth"]):
        own = []
        for replica, each in enumerate(found):
            group = f"replica_{replica}"
            reading = [r for r in each["plain"]["readings"] if r.group == group][step]
            own.append(reading.losses()[f"{group}/loss"])
        np.testing.assert_allclose(sum(own), expected["loss"], rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_training_is_the_same_with_and_without_us_and_has_no_more_collectives(
    name: str, results: Results
) -> None:
    for found in results("truth"):
        for mine, plain in zip(*found[name]["weights"], strict=True):
            np.testing.assert_array_equal(mine, plain)
        measured, not_measured = found[name]["collectives"]
        assert measured == not_measured > 0


def test_both_write_into_one_run(out: Path) -> None:
    run = gradwatch.open(out / "plain")
    assert run.ranks == (0, 1)
    assert run.steps("gradient", 0).tolist() == run.steps("gradient", 1).tolist() == [1, 2]


def test_a_worker_that_measures_other_steps_or_cannot_write_does_not_hold_up_the_other(
    results: Results,
) -> None:
    for found in results("trouble"):
        bare = found["weights"].pop("bare")
        assert len(found["weights"]) == 5
        for weights in found["weights"].values():
            for mine, plain in zip(weights, bare, strict=True):
                np.testing.assert_array_equal(mine, plain)


def test_a_worker_whose_schedule_is_paused_records_nothing_and_the_other_its_own(
    out: Path,
) -> None:
    for paused, group in ((0, "own/replica_1"), (1, "own/replica_0")):
        run = gradwatch.open(out / f"paused-{paused}")
        assert run.ranks == (1 - paused,)
        assert run.steps("gradient").tolist() == [1, 2, 3, 4, 5, 6]
        steps, _ = run.series(Kind.GRADIENT, f"{group}/sequential/dense/kernel", "l2")
        assert steps.tolist() == [1, 2, 3, 4, 5, 6]


def test_of_a_worker_whose_disk_is_full_nothing_is_there_and_of_the_other_all(
    out: Path, results: Results
) -> None:
    require_full_disk(out)
    for full, found in enumerate(results("trouble")):
        assert found["written"] == {"full-0": 0, "full-1": 0}
        run = gradwatch.open(out / f"full-{full}")
        assert run.ranks == (1 - full,)
        assert run.steps("gradient").tolist() == [1, 2, 3, 4, 5, 6]


def test_workers_whose_budgets_choose_other_steps_each_record_the_truth_at_theirs(
    out: Path, results: Results
) -> None:
    found = results("budget")
    truth = found[0]["truth"]
    for rank, each in enumerate(found):
        for mine, plain in zip(*each["weights"], strict=True):
            np.testing.assert_array_equal(mine, plain)
        group = f"own/replica_{rank}"
        own = [reading for reading in each["readings"] if reading.group == group]
        # One step of the epoch is measured in any case: the first.
        assert [reading.step for reading in own] == [1, *range(2 + rank, 13, 2 + rank)]
        for reading in own:
            parts = truth[reading.step - 1]["parts"]
            assert_summarises(reading, Kind.GRADIENT, parts[rank], f"{group}/")
    whole = [reading for reading in found[0]["readings"] if reading.group == ""]
    assert [reading.step for reading in whole] == [1, 2, 4, 6, 8, 10, 12]
    for reading in whole:
        assert_summarises(reading, Kind.GRADIENT, truth[reading.step - 1]["gradients"])
        assert_summarises(reading, Kind.WEIGHT, truth[reading.step - 1]["weights"])
    run = gradwatch.open(out / "budget")
    assert run.steps("gradient", 1).tolist() == [1, 3, 6, 9, 12]


def test_fit_is_refused_by_name_and_by_keras_itself(results: Results) -> None:
    for found in results("refused"):
        assert "tf.distribute.MultiWorkerMirroredStrategy in several processes" in found["refusal"]
        # When Keras learns to, it is time to measure it.
        assert found["keras"] == "raises"


def test_a_worker_that_is_killed_leaves_a_run_that_says_so(out: Path) -> None:
    run = gradwatch.open(out / "killed")
    first, second = run.rank_statuses
    assert second.last_step == 4
    assert str(second.status) == "crashed"
    assert first.last_step == 4
    path = "own/replica_1/sequential/dense/kernel"
    assert run.steps("gradient", 1).tolist() == [1, 2, 3, 4]
    assert len(run.series(Kind.GRADIENT, path, "l2", rank=1)[1]) == 4
