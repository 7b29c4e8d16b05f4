"""A loop with two losses: which one is that of the watched optimizer?"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import gradwatch
from gradwatch import Kind
from gradwatch.diagnosis import diagnose


def known(tmp_path, has_loss):
    """The diagnosis of a loop whose first loss trains a part of the module by another optimizer."""
    torch.manual_seed(0)
    net = nn.ModuleDict({"features": nn.Linear(4, 8), "label": nn.Linear(8, 3)})
    net["judge"] = nn.Linear(8, 1)
    own = [*net["features"].parameters(), *net["label"].parameters()]
    optimizer = torch.optim.SGD(own, lr=0.1)
    judge = torch.optim.SGD(net["judge"].parameters(), lr=0.1)
    monitor = gradwatch.watch(net, optimizer, tmp_path, every=1)
    for _ in range(6):
        x, sides = torch.randn(16, 4), torch.randint(0, 2, (16, 1)).float()
        h = net["features"](x)
        loss = F.binary_cross_entropy_with_logits(net["judge"](h.detach()), sides)
        judge.zero_grad()
        loss.backward()
        judge.step()
        if has_loss:
            loss = F.cross_entropy(net["label"](h), torch.arange(16) % 3)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    monitor.close()
    run = gradwatch.open(tmp_path)
    numbers = [each.numbers(Kind.SCALAR) for each in run.readings()]
    return diagnose(run).facts.loss.name, [
        x["constant_loss"] for x in numbers if "constant_loss" in x
    ]


def test_the_loss_of_another_optimizer_is_not_taken_for_its_own(tmp_path):
    name, guesses = known(tmp_path, True)
    assert name == "sparse_categorical_crossentropy"
    shares = np.array([6, 5, 5]) / 16
    np.testing.assert_allclose(guesses, -(shares * np.log(shares)).sum(), rtol=1e-5)


def test_a_loss_that_trains_nothing_is_read_where_there_is_no_other(tmp_path):
    name, guesses = known(tmp_path, False)
    assert name == "binary_crossentropy"
    assert max(guesses) <= np.log(2) + 1e-6
