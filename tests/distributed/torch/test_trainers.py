"""The callbacks of trainers in trainings of two processes."""

from pathlib import Path

import numpy as np
import pytest
import torch

import gradwatch
from tests.distributed.launching import Processes, environment, once
from tests.distributed.torch.trainers import MOST, STEPS
from tests.integrations.test_lightning import Net
from tests.integrations.test_lightning import gradients_of as slopes_of_net
from tests.integrations.test_transformers import gradients_of as slopes_of_bert
from tests.integrations.test_transformers import make_bert
from tests.integrations.trainer_truth import clipped, numbers

PROGRAM = Path(__file__).with_name("trainers.py")
TRAINERS = {"transformers": (make_bert, slopes_of_bert), "lightning": (Net, slopes_of_net)}
pytestmark = pytest.mark.filterwarnings("default")
each_trainer = pytest.mark.parametrize("name", TRAINERS)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    def launch(out):
        programs = [[PROGRAM, out, rank, 2] for rank in range(2)]
        with Processes(out, programs, [environment()] * 2) as processes:
            assert processes.wait_for_all() == [0, 0], processes.heard()

    return once(tmp_path_factory, "torch-trainers", launch)


def saved(folder, name):
    return [torch.load(folder / f"{name}-{rank}.pt", weights_only=False) for rank in range(2)]


@each_trainer
def test_training_is_bit_identical_with_and_without(trained, name):
    for rank in saved(trained, name):
        assert rank["bare"]["steps"] == rank["watched"]["steps"] == STEPS
        for key, tensor in rank["bare"]["model"].items():
            assert torch.equal(tensor, rank["watched"]["model"][key]), key


@each_trainer
def test_gradients_before_and_after_clipping_are_those_of_all_batches(trained, name):
    make, gradients_of = TRAINERS[name]
    run = gradwatch.open(trained / name)
    ranks = [rank["watched"] for rank in saved(trained, name)]
    for step in range(1, STEPS + 1):
        model = make().double()
        model.load_state_dict(ranks[0]["states"][step])
        batches = [batch for rank in ranks for batch in rank["batches"][step]]
        assert len(batches) == 4
        true = gradients_of(model, batches)
        for kind, slopes in (("gradient", true), ("applied_gradient", clipped(true, MOST))):
            whole = np.sqrt(sum(np.square(g).sum() for g in slopes.values()))
            for path, slope in slopes.items():
                steps, found = run.series(kind, path, "l2")
                assert steps.tolist() == list(range(1, STEPS + 1))
                assert abs(found[step - 1] - np.linalg.norm(slope)) <= 1e-6 * whole, path


@each_trainer
def test_each_rank_records_the_losses_that_it_differentiates(trained, name):
    run = gradwatch.open(trained / name)
    assert run.ranks == (0, 1)
    make, _ = TRAINERS[name]
    for number, rank in enumerate(saved(trained, name)):
        steps, found = run.series("loss", "loss", "value", rank=number)
        assert steps.tolist() == list(range(1, STEPS + 1))
        for step, state in rank["watched"]["states"].items():
            model = make().double()
            model.load_state_dict(state)
            batches = rank["watched"]["batches"][step]
            true = np.mean([loss_of(model, batch) for batch in batches])
            assert found[step - 1] == pytest.approx(true, rel=1e-5)


def loss_of(model, batch):
    if isinstance(batch, dict):
        return model(**batch).loss.item()
    return model.loss(*(x.double() for x in batch)).item()


def test_what_the_trainer_computes_is_recorded(trained):
    metrics = numbers(trained / "transformers", "metric")
    assert list(metrics["eval_loss"]) == list(metrics["grad_norm"]) == [2, 4]
