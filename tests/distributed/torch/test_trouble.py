"""Whatever one rank does or fails to do: the others train on, to the same weights."""

import pytest
import torch

import gradwatch
from gradwatch.watches.budget import is_in_floor
from tests.distributed.full_disk import require_full_disk

ALL = list(range(1, 13))


def gradient_steps(path, rank=0):
    run = gradwatch.open(path)
    if gradwatch.Kind.GRADIENT not in {site.kind for site in run.sites()}:
        return []
    return run.steps("gradient", rank).tolist()


def test_training_ends_with_the_same_weights_in_all_cases(out):
    for rank in range(2):
        found = torch.load(out / f"trouble-rank{rank}.pt")
        found["failing"] = torch.load(out / f"failing-rank{rank}.pt")
        del found["full"]
        assert len(found) == 13
        for name, weights in found.items():
            bare = found["bare-ddp" if name.endswith("-ddp") else "bare"]
            for key, tensor in bare.items():
                assert torch.equal(tensor, weights[key]), (name, key)


def test_a_rank_that_cannot_write_takes_part_all_the_same(out):
    assert gradient_steps(out / "no-disk") == ALL
    assert gradwatch.open(out / "no-disk").ranks == (0,)


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_a_rank_whose_disk_is_full_takes_part_all_the_same(out, how):
    require_full_disk(out)
    for rank in (0, 1):
        written = torch.load(out / f"trouble-rank{rank}.pt")["full"]
        assert written == dict.fromkeys(written, 0)
    # If it is the second one's, the first records all; if it is the first's, the second its own.
    assert gradient_steps(out / f"full-1-{how}") == ALL
    assert gradwatch.open(out / f"full-1-{how}").ranks == (0,)
    assert gradwatch.open(out / f"full-0-{how}").steps("loss", 1).tolist() == ALL


def test_a_rank_whose_sink_hangs_takes_part_all_the_same(out):
    assert gradient_steps(out / "hanging") == ALL


def test_a_rank_that_closes_its_monitor_ends_the_record_of_shards(out):
    assert gradient_steps(out / "closed") == ALL[:5]


def test_a_rank_whose_schedule_is_paused_ends_the_record_of_shards_and_nothing_else(out):
    assert gradient_steps(out / "paused") == []
    assert gradwatch.open(out / "paused").steps("loss", 0).tolist() == ALL


def test_a_monitor_on_the_first_rank_alone_waits_for_nobody(out):
    assert gradient_steps(out / "alone") == []
    assert gradwatch.open(out / "alone").steps("loss").tolist() == ALL


def test_a_step_that_one_rank_could_not_measure_is_left_out(out):
    missing = set(ALL) - set(gradient_steps(out / "failing"))
    assert len(missing) == 1


def test_epochs_that_only_the_first_rank_tells_are_heard_by_all(out):
    run = gradwatch.open(out / "epochs")
    assert gradient_steps(out / "epochs") == [1, 2, 4, 6, 8, 10, 12]
    # The second epoch begins after step 3 and is announced 8 steps ahead of the next measured one.
    steps = run.histogram_steps("gradient", "0/weight").tolist()
    assert len(steps) == 2
    assert steps[0] == 1
    assert 11 <= steps[1] <= 12


def test_all_ranks_follow_the_interval_that_the_first_has_chosen(out):
    measured = gradient_steps(out / "budget")
    run = gradwatch.open(out / "budget")
    assert run.steps("loss", 1).tolist() == run.steps("loss", 0).tolist()
    chosen = [step for step in range(41, 151) if step % 7 == 0 or is_in_floor(step)]
    assert [step for step in measured if step > 40] == chosen
