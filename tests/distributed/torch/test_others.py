"""Modules that are not wrapped, are wrapped in what is refused, or whose outputs are watched."""

import numpy as np
import pytest
import torch

import gradwatch
from gradwatch.core.reference import summarize


@pytest.fixture
def others(out):
    return [torch.load(out / f"others-rank{rank}.pt") for rank in range(2)]


def test_a_directory_that_nobody_has_named_is_the_same_for_all(others):
    assert others[0]["directory"] == others[1]["directory"]


def test_of_a_module_that_is_not_wrapped_each_rank_records_its_own_gradients(out, others):
    run = gradwatch.open(out / others[0]["directory"])
    for rank, found in enumerate(others):
        (reading,) = run.at(1, rank=rank)
        for name, gradient in found["own"].items():
            site = gradwatch.Site(gradwatch.Kind.GRADIENT, name.replace(".", "/"))
            row = reading.summary[reading.position[site]].pack()
            np.testing.assert_allclose(row, summarize(gradient.double().numpy()), rtol=1e-5)


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_outputs_are_those_of_each_ranks_own_part_of_the_batch(out, how):
    run = gradwatch.open(out / f"outputs-{how}")
    norms = [run.series("output", "1", "l2", rank=rank)[1] for rank in range(2)]
    assert np.isfinite(norms).all()
    assert (np.abs(norms[0] - norms[1]) > 1e-4 * norms[0]).all()
    assert run.steps("gradient", 0).tolist() == run.steps("output", 1).tolist() == [1, 2, 3, 4]
    assert run.steps("gradient", 1).tolist() == []


def test_fsdp1_is_refused_by_its_name(out, others):
    assert all("FullyShardedDataParallel (FSDP1) is not recorded" in f["said"][0] for f in others)
    assert not (out / "fsdp1").exists()


def test_record_refuses_tensors_that_are_spread_over_processes(out, others):
    for found in others:
        assert any("gradwatch.watch(module, optimizer)" in words for words in found["said"])
    assert not list((out / "recorded").glob("journal-*"))


def test_each_rank_uploads_what_it_has_written(out, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWATCH_CACHE", str(tmp_path))
    runs = gradwatch.open(f"file://{out}/remote")
    assert runs.names == ["run"]
    run = runs["run"]
    assert run.ranks == (0, 1)
    assert [str(each.status) for each in run.rank_statuses] == ["finished", "finished"]
    assert run.steps("gradient", 0).tolist() == [1, 2, 3, 4]
    losses = [run.series("loss", "loss", "value", rank=rank) for rank in run.ranks]
    assert [steps.tolist() for steps, _ in losses] == [[1, 2, 3, 4]] * 2
    assert (losses[0][1] != losses[1][1]).all()
