"""What measuring adds to the collectives of a training."""

import pytest
import torch


@pytest.fixture
def counts(out):
    return [torch.load(out / f"collectives-rank{rank}.pt") for rank in range(2)]


def test_training_itself_has_not_one_collective_more(counts):
    for of_rank in counts:
        for how in ("ddp", "fsdp"):
            assert of_rank[how, True][0] == of_rank[how, False][0]
            assert sum(of_rank[how, False][0].values()) > 0


def test_replicated_modules_need_none_at_all(counts):
    assert [of_rank["ddp", True][1] for of_rank in counts] == [[], []]


def test_sharded_modules_need_two_small_ones_for_each_measured_step(counts):
    for of_rank in counts:
        sizes = of_rank["fsdp", True][1]
        # Steps 3 and 6 of 6, and the one in which all say that they leave.
        assert len(sizes) == 2 * 3
        # 4 parameters, of each weight, gradient and update: ten numbers, and a few beside.
        both = [high + add for high, add in zip(sizes[::2], sizes[1::2], strict=True)]
        assert both == [4 * 3 * 10 + 10] * 3
