"""Judging torch losses that are made of parts, and the attention of a new network."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

import gradwatch
from gradwatch.capture.torch.attention import attention_peak
from gradwatch.capture.torch.loss_graph import read_loss
from gradwatch.capture.torch.loss_parts import numbers_of_outputs, output_names
from gradwatch.capture.torch.term_value import (
    target_of,
    target_of_difference,
    term_numbers,
    term_value,
)
from gradwatch.core import LossFacts, ModelFacts
from gradwatch.diagnosis.chance import Level, term_skill
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import Judgement
from tests.distributed.patience import until_written

X = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
CLASSES = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0, 1])


def cross_entropy(logits):
    """In float64 and NumPy."""
    z = logits.detach().double().numpy()
    logs = z - np.log(np.exp(z).sum(1, keepdims=True))
    return -logs[np.arange(len(z)), CLASSES.numpy()].mean()


def penalty(module):
    return 0.1 * sum(p.square().sum() for p in module.parameters())


LOSSES = {
    "smoothing": lambda m, p: F.cross_entropy(p, CLASSES, label_smoothing=0.2),
    "penalty": lambda m, p: F.cross_entropy(p, CLASSES) + penalty(m),
    "factor": lambda m, p: 0.3 * F.cross_entropy(p, CLASSES),
    "soft": lambda m, p: -2.0 * (F.one_hot(CLASSES, 3) * p.log_softmax(1)).sum(1).mean(),
    "gather": lambda m, p: 0.5 * -p.log_softmax(1).gather(1, CLASSES[:, None]).mean() + penalty(m),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_value_of_a_term_is_that_without_factors_weights_and_penalties(loss):
    module = nn.Linear(4, 3)
    outputs = module(X)
    seen = read_loss(loss(module, outputs).grad_fn)
    np.testing.assert_allclose(float(term_value(seen.term)), cross_entropy(outputs), rtol=1e-5)
    assert (seen.facts.reduction, seen.facts.rest) == ("other", "penalties")


def test_with_weights_of_classes_a_loss_is_compared_with_the_guess_for_these():
    weights = torch.tensor([1.0, 2.0, 5.0])
    seen = read_loss(F.cross_entropy(nn.Linear(4, 3)(X), CLASSES, weight=weights).grad_fn)
    assert (seen.facts.reduction, seen.facts.rest) == ("mean", None)
    numbers = term_numbers(seen.term, CLASSES)
    shares = np.bincount(CLASSES.numpy()) * weights.double().numpy()
    shares /= shares.sum()
    expected = -(shares * np.log(shares)).sum()
    np.testing.assert_allclose(float(numbers["constant_loss"]), expected, rtol=1e-5)


def test_weights_of_answers_scale_the_guess_as_they_scale_the_loss():
    truth, weight = (CLASSES > 0).float(), 7.0
    outputs = nn.Linear(4, 1)(X)[:, 0]
    loss = F.binary_cross_entropy_with_logits(outputs, truth, pos_weight=torch.tensor(weight))
    numbers = term_numbers(read_loss(loss.grad_fn).term, truth)
    yes = truth.double().numpy()
    share = weight * yes.sum() / (weight * yes.sum() + (1 - yes).sum())
    expected = -(weight * yes * np.log(share) + (1 - yes) * np.log(1 - share)).mean()
    np.testing.assert_allclose(float(numbers["constant_loss"]), expected, rtol=1e-5)


@pytest.mark.parametrize("is_over_weights", [True, False])
def test_factors_of_samples_are_weights(is_over_weights):
    weights = torch.arange(9.0)
    losses = weights * F.cross_entropy(nn.Linear(4, 3)(X), CLASSES, reduction="none")
    loss = losses.sum() / weights.sum() if is_over_weights else losses.mean()
    seen = read_loss(loss.grad_fn)
    assert seen.facts.is_mean
    given = weights.double().numpy()
    shares = np.bincount(CLASSES.numpy(), given) / given.sum()
    expected = -(given * np.log(shares[CLASSES.numpy()])).sum()
    expected /= given.sum() if is_over_weights else 9
    guess = term_numbers(seen.term, CLASSES)["constant_loss"]
    np.testing.assert_allclose(float(guess), expected, rtol=1e-5)


def test_a_sum_of_losses_is_read_part_by_part():
    body, one, two = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(5, 1)
    hidden, values = body(X).tanh(), X[:, :1] * 3.0
    losses = F.cross_entropy(one(hidden), CLASSES), F.mse_loss(two(hidden), values)
    seen = read_loss((0.5 * losses[0] + losses[1] / 4 + penalty(body)).grad_fn)
    first, second = (each.item() for each in losses)
    assert (seen.facts.reduction, seen.facts.rest, seen.term) == ("other", "penalties", None)
    module = nn.ModuleDict({"body": body, "one": one, "two": two})
    names = output_names(seen.parts, module, "")
    assert sorted(names) == ["one", "two"]
    targets = {term: target_of(term, []) for term in seen.parts}
    numbers = {n: float(x) for n, x in numbers_of_outputs(targets, names).items()}
    shares = np.bincount(CLASSES.numpy()) / 9
    expected = {
        "output_loss/one": 0.5 * first,
        "constant_loss/one": -0.5 * (shares * np.log(shares)).sum(),
        "output_loss/two": second / 4,
        "constant_loss/two": values.double().numpy().var() / 4,
        "term_loss": 0.5 * first + second / 4,
    }
    expected["constant_loss"] = expected["constant_loss/one"] + expected["constant_loss/two"]
    assert numbers.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(numbers[name], value, rtol=1e-5, err_msg=name)


def test_a_mean_of_stacked_losses_shares_its_factor():
    outputs = nn.Linear(4, 3)(X)
    losses = [F.cross_entropy(outputs, CLASSES), F.mse_loss(outputs[:, 0], X[:, 0])]
    seen = read_loss(torch.stack(losses).mean().grad_fn)
    assert [term.factor for term in seen.parts] == [0.5, 0.5]


def test_a_focal_loss_is_another_one_than_the_entropy_in_it():
    outputs = nn.Linear(4, 1)(X)[:, 0]
    truth = (CLASSES > 0).float()
    each = F.binary_cross_entropy_with_logits(outputs, truth, reduction="none")
    hard = torch.where(truth > 0, 1 - outputs.sigmoid(), outputs.sigmoid()) ** 2
    seen = read_loss((hard * each).mean().grad_fn)
    assert (seen.facts.reduction, seen.facts.rest) == ("other", "terms")


def test_another_head_is_another_term():
    body, policy, value = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(5, 1)
    hidden = body(X).tanh()
    actor = (policy(hidden).logsumexp(1) * torch.randn(9)).mean()
    seen = read_loss((F.mse_loss(value(hidden)[:, 0], X[:, 0]) + actor).grad_fn)
    assert seen.facts.rest == "terms"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_targets_of_a_loss_by_hand_follow_from_the_output(sign):
    outputs, targets = nn.Linear(4, 1)(X), X.sum(1, keepdim=True)
    difference = outputs - targets if sign > 0 else targets - outputs
    term = read_loss((difference**2).mean().grad_fn).term
    np.testing.assert_allclose(target_of_difference(term, outputs), targets, rtol=1e-5, atol=1e-6)
    # Of another output, they do not.
    assert target_of_difference(term, nn.Linear(4, 1)(X)) is None


def trained(directory, steps, is_shuffled, loss):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(module.parameters(), 3e-3)
    monitor = gradwatch.watch(module, optimizer, directory, every=1, sinks=None)
    weights = torch.randn(8, 4)
    for step in range(steps):
        x = torch.randn(64, 8)
        labels = ((torch.randn(64, 8) if is_shuffled else x) @ weights).argmax(1)
        optimizer.zero_grad()
        value = loss(module(x), labels)
        value.backward()
        optimizer.step()
        monitor.record(loss=value)
        if step % 50 == 49:
            until_written(monitor)
    monitor.close()
    return monitor


def smoothed(outputs, labels):
    return 0.2 * F.cross_entropy(outputs, labels, label_smoothing=0.1)


def test_a_loss_of_parts_is_judged_by_its_main_term(tmp_path):
    wrong = trained(tmp_path / "wrong", 160, True, smoothed)
    assert "learned-nothing" in {each.rule for each in wrong.findings}
    right = trained(tmp_path / "right", 160, False, smoothed)
    assert not [each for each in right.findings if each.severity != "info"]
    assert right.verdict.word in ("learned", "still learning")


def test_a_term_may_rest_at_chance_while_others_fall():
    at_rest = Judgement(
        losses=80,
        start=Level(40.0),
        now=Level(27.0, 0.1),
        chance=Level(math.nan),
        fall=0.3,
        is_significant=True,
        is_falling=False,
        term=Level(0.004, 0.002),
    )
    assert at_rest.is_flat
    assert not replace(at_rest, patience=150).is_flat
    assert replace(at_rest, patience=150, losses=160).is_flat


def test_a_term_is_judged_by_its_newest_steps_however_few_are_measured():
    steps = [*range(1, 61), *range(70, 301, 10)]
    history = History()
    history.step = 300
    history.numbers["term_loss"] = [(step, 2.0 if step < 150 else 1.0) for step in steps]
    history.numbers["constant_loss"] = [(step, 2.0) for step in steps]
    facts = ModelFacts(loss=LossFacts("mean_squared_error", reduction="other", rest="penalties"))
    assert term_skill(history, facts).value == pytest.approx(0.5)


class Attention(nn.Module):
    def __init__(self, scale, is_fused) -> None:
        super().__init__()
        self.project, self.norm, self.out = nn.Linear(8, 24), nn.LayerNorm(8), nn.Linear(8, 2)
        self.scale, self.is_fused = scale, is_fused

    def forward(self, x):
        q, k, v = (each.unsqueeze(1) for each in self.project(self.norm(x)).chunk(3, -1))
        if self.is_fused:
            mixed = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        else:
            mixed = (q @ k.transpose(-2, -1) * self.scale).softmax(-1) @ v
        return self.out(mixed.squeeze(1).mean(1))


@pytest.mark.parametrize("is_fused", [False, True])
def test_the_peak_of_attention_is_that_of_its_weights(is_fused):
    torch.manual_seed(0)
    module, x = Attention(0.7, is_fused), torch.randn(3, 10, 8)
    q, k, _ = (
        module.project(module.norm(x)).detach().double().numpy().reshape(3, 10, 3, 8).swapaxes(0, 2)
    )
    scores = np.exp(np.einsum("qbd,kbd->bqk", q, k) * 0.7)
    weights = scores / scores.sum(-1, keepdims=True)
    expected = np.sort(weights.max(-1).ravel())[14]  # The lower one of the two in the middle.
    np.testing.assert_allclose(float(attention_peak(module(x).sum().grad_fn)), expected, rtol=1e-5)


@pytest.mark.parametrize("is_fused", [False, True])
def test_attention_that_has_decided_before_it_has_learned_is_saturated(tmp_path, is_fused):
    def found(scale, forward=lambda module, x: module(x)):
        torch.manual_seed(0)
        module = Attention(scale, is_fused)
        optimizer = torch.optim.Adam(module.parameters(), 1e-3)
        directory = tmp_path / f"{scale}{forward.__name__}"
        monitor = gradwatch.watch(module, optimizer, directory, every=1, sinks=None)
        for _ in range(12):
            x = torch.randn(16, 10, 8)
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(module, x), (x[:, 0, 0] > 0).long())
            loss.backward()
            optimizer.step()
            monitor.record(loss=loss)
        until_written(monitor)
        monitor.close()
        return "saturated-activations" in {each.rule for each in monitor.findings}

    assert found(500.0)
    assert not found(1.0 / math.sqrt(8))

    def checkpointed(module, x):
        return checkpoint(module, x, use_reentrant=False)

    # Its graph would have to be computed again to tell.
    assert not found(500.0, checkpointed)
