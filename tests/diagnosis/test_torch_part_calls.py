"""Modules that are not called themselves: what is known of them comes from their parts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gradwatch
from gradwatch import Kind

from .support import Keep


def readings_of(tmp_path, loss, steps=4):
    """The readings of an autoencoder's training; `loss` is given the parts and a batch."""
    torch.manual_seed(0)
    net = nn.Module()
    net.encoder = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    net.heads = nn.ModuleList([nn.Linear(4, 6), nn.Linear(4, 3)])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    keep = Keep()
    monitor = gradwatch.watch(net, optimizer, tmp_path, every=1, sinks=[keep])
    batches = [torch.randn(16, 6) for _ in range(steps)]
    for x in batches:
        optimizer.zero_grad()
        value = loss(net, x)
        value.backward()
        optimizer.step()
        monitor.record(loss=value)
    monitor.close()
    return batches, [each for each in keep.readings if not each.layout.has_no_tensors]


def by_hand(net, x):
    return (net.heads[0](net.encoder(x)) - x).pow(2).mean()


def with_penalty(net, x):
    code = net.encoder(x)
    return nn.functional.mse_loss(net.heads[0](code), x) + 0.1 * code.abs().mean()


@pytest.mark.parametrize("loss", [by_hand, with_penalty])
def test_parts_that_are_called_one_by_one_tell_the_batch_and_the_targets(tmp_path, loss):
    batches, readings = readings_of(tmp_path, loss)
    for x, reading in zip(batches, readings, strict=True):
        numbers = reading.numbers(Kind.SCALAR)
        guess = float((x - x.mean(0)).double().pow(2).mean())
        assert numbers["batch_size"] == 16
        assert numbers["constant_loss"] == pytest.approx(guess, rel=1e-5)
        assert 0 < numbers["output_variation"] <= 1
        [given] = [
            row for site, row in zip(reading.sites, reading.summary, strict=True)
            if site.kind is Kind.INPUT
        ]  # fmt: skip
        assert given.sum == pytest.approx(float(x.double().sum()), rel=1e-4, abs=1e-4)


def test_what_a_part_returns_is_no_output_where_a_loss_of_other_terms_compares_it(tmp_path):
    def actor_and_critic(net, x):
        code = net.encoder(x)
        policy = net.heads[1](code).log_softmax(1)[:, 0]
        return (net.heads[0](code) - x.flip(0)).pow(2).mean() - policy.mean()

    _, readings = readings_of(tmp_path, actor_and_critic)
    assert all("output_variation" not in each.numbers(Kind.SCALAR) for each in readings)
