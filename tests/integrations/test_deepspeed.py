"""DeepSpeed, which keeps gradients to itself: a notice, and training goes on.

Its names and marks are those of DeepSpeed 0.19, see docs/versions.md for the trainings with it.
"""

import sys
import types

import pytest
import torch

import gradwatch
from gradwatch.integrations.transformers import GradwatchCallback


def make_module():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


class ZeroOptimizer:
    """No optimizer of torch, as DeepSpeed's are not."""

    def __init__(self, optimizer):
        self.optimizer, self.param_groups = optimizer, optimizer.param_groups

    def step(self):
        self.optimizer.step()


ZeroOptimizer.__module__ = "deepspeed.runtime.zero.stage_1_and_2"


@pytest.fixture
def engine_class(monkeypatch):
    class DeepSpeedEngine(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            return self.module(x)

    package = types.SimpleNamespace(DeepSpeedEngine=DeepSpeedEngine)
    monkeypatch.setitem(sys.modules, "deepspeed", package)
    return DeepSpeedEngine


def train(module, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        module(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()


def test_an_optimizer_of_deepspeed_is_a_notice(tmp_path):
    module = make_module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with pytest.warns(gradwatch.GradwatchWarning, match=r"DeepSpeed keeps.*training goes on"):
        monitor = gradwatch.watch(module, ZeroOptimizer(optimizer), tmp_path / "run")
    train(module, optimizer)
    monitor.close()
    assert not (tmp_path / "run").exists()


def test_an_engine_of_deepspeed_is_a_notice(tmp_path, engine_class):
    engine = engine_class(make_module())
    optimizer = torch.optim.SGD(engine.parameters(), lr=0.1)
    with pytest.warns(gradwatch.GradwatchWarning, match=r"DeepSpeed keeps.*training goes on"):
        monitor = gradwatch.watch(engine, optimizer, tmp_path / "run")
    train(engine, optimizer)
    monitor.close()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("mark", ["_hp_mapping", "ds_id"])
@pytest.mark.usefixtures("engine_class")
def test_a_module_that_deepspeed_takes_after_watch_is_a_notice(tmp_path, mark):
    module = make_module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    monitor = gradwatch.watch(module, optimizer, tmp_path / "run", every=1)
    for parameter in module.parameters():
        setattr(parameter, mark, None)
    with pytest.warns(gradwatch.GradwatchWarning, match="DeepSpeed keeps"):
        train(module, optimizer)
    monitor.close()
    run = gradwatch.open(tmp_path / "run") if (tmp_path / "run").exists() else None
    assert run is None or not run.sites(gradwatch.Kind.GRADIENT)


def test_a_trainer_that_is_not_told_of_deepspeed_records_no_losses_either(tmp_path):
    module = make_module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    callback, shown = GradwatchCallback(tmp_path / "run"), []
    callback.monitor._reporter.show = shown.append
    state = types.SimpleNamespace(global_step=0, epoch=0.0)
    arguments = types.SimpleNamespace(deepspeed=None)
    given = {"model": module, "optimizer": ZeroOptimizer(optimizer)}
    callback.on_train_begin(arguments, state, None, **given)
    train(module, optimizer)
    callback.on_step_end(arguments, state, None)
    callback.on_train_end(arguments, state, None)
    (notice,) = shown
    assert "DeepSpeed keeps gradients" in notice
    assert not (tmp_path / "run").exists()
