"""DDP and FSDP2 record what one process would have recorded of the same global batch."""

import numpy as np
import pytest
import torch

import gradwatch
from gradwatch.core import Summary, l2, linf, statistic
from gradwatch.core.reference import summarize
from tests.distributed.launching import only_in_full
from tests.distributed.torch import truth
from tests.distributed.torch.models import MODELS, STEPS

HOW = ("ddp", "fsdp")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("how", HOW)
def test_summaries_are_those_of_one_process_with_the_global_batch(out, how, name):
    assert_true(gradwatch.open(out / f"{how}-{name}"), truth.history(how, name))


@only_in_full
def test_shards_that_several_ranks_have_a_copy_of_count_once(trained):
    run = gradwatch.open(trained("hybrid", ranks=4) / "hybrid")
    assert run.ranks == (0, 1, 2, 3)
    assert_true(run, truth.history("fsdp", "plain", ranks=4))


def assert_true(run, history):
    for step, (tensors, _) in enumerate(history, start=1):
        (reading,) = run.at(step, rank=0)
        for kind, by_path in tensors.items():
            for path, tensor in by_path.items():
                site = gradwatch.Site(gradwatch.Kind(kind), path.replace(".", "/"))
                found = reading.summary[reading.position[site]]
                true = Summary.unpack(summarize(tensor.double().numpy()))
                weight = tensors["weight"][path].double().norm().item()
                assert_alike(found, true, rounding=1e-7 * weight if kind == "update" else 0.0)


def assert_alike(found, true, rounding):
    """Within 1e-5; the difference of two weights also has their own rounding."""
    for name in ("count", "nan", "posinf", "neginf", "zeros"):
        assert getattr(found, name) == getattr(true, name), name
    size = linf(true)
    for name, scale in (("l2", l2(true)), ("l1", true.sum_abs), ("sum", true.sum_abs)):
        near = 1e-5 * scale + rounding * (1 if name == "l2" else np.sqrt(true.count))
        assert abs(statistic(name, found) - statistic(name, true)) <= near, name
    for name in ("min", "max"):
        assert abs(getattr(found, name) - getattr(true, name)) <= 1e-5 * size + rounding, name


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("how", HOW)
def test_weights_and_buffers_are_the_same_with_and_without_the_monitor(out, how, name):
    for rank in range(2):
        saved = torch.load(out / f"{how}-{name}-rank{rank}.pt")
        assert saved["bare"].keys() == saved["watched"].keys()
        for key, tensor in saved["bare"].items():
            assert torch.equal(tensor, saved["watched"][key]), key


@pytest.mark.parametrize("how", HOW)
def test_each_rank_records_its_own_loss_and_only_the_first_the_tensors(out, how):
    run = gradwatch.open(out / f"{how}-embedding")
    assert run.ranks == (0, 1)
    true = np.array([losses for _, losses in truth.history(how, "embedding")])
    for rank in run.ranks:
        steps, losses = run.series("loss", "loss", "value", rank=rank)
        assert steps.tolist() == list(range(1, STEPS + 1))
        np.testing.assert_allclose(losses, true[:, rank], rtol=1e-6)
    kinds = run.sql("select distinct kind from summaries where rank = 1").fetchall()
    assert {kind for (kind,) in kinds} == {"loss", "scalar"}


@pytest.mark.parametrize("how", HOW)
def test_the_run_says_what_a_gradient_is_and_how_many_ranks_there_were(out, how):
    run = gradwatch.open(out / f"{how}-plain")
    assert run.facts["fits"][-1]["ranks"] == 2
    words = {"ddp": "averaged over all ranks", "fsdp": "the shards of all ranks"}
    assert words[how] in run.meaning["gradient"]
    assert [str(each.status) for each in run.rank_statuses] == ["finished", "finished"]
