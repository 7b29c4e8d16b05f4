"""Operations behind the last layers that cannot be meant as they are called, in torch loops."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gradwatch.capture.torch.misused import misused

X = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
HEAD, ONE = nn.Linear(5, 4), nn.Linear(5, 1)
CLASSES = torch.arange(12) % 4
ANSWERS = (torch.arange(12) % 2).float()
SHARES = F.softmax(3.0 * torch.randn(12, 4, generator=torch.Generator().manual_seed(1)), 1)


def spoken(letters):
    frames = HEAD(X).view(6, 2, 4).log_softmax(2)
    return F.ctc_loss(frames, letters, torch.full((2,), 6), torch.tensor([2, 1]))


@pytest.mark.parametrize(
    ("loss", "wanted"),
    [
        (lambda: F.cross_entropy(HEAD(X), CLASSES), []),
        (lambda: F.binary_cross_entropy(ONE(X).sigmoid()[:, 0], ANSWERS), []),
        (
            lambda: F.binary_cross_entropy(ONE(X).softmax(-1)[:, 0].clamp(0.1, 0.9), ANSWERS),
            ["softmax of one"],
        ),
        (lambda: F.cross_entropy(ONE(X), 0 * CLASSES), ["softmax of one"]),
        # The only component of a mixture: its share is 1, and the mean learns.
        (lambda: ((HEAD(X) - SHARES) ** 2 - ONE(X).log_softmax(1)).mean(), []),
        # A query that has one key to look at is before the last layer.
        (lambda: F.mse_loss(HEAD(X * ONE(X).softmax(1)), SHARES), []),
        (lambda: F.kl_div(HEAD(X).log_softmax(1), SHARES, reduction="batchmean"), []),
        (
            lambda: 4 * F.kl_div(HEAD(X).softmax(1), SHARES, reduction="batchmean"),
            ["probabilities for logarithms"],
        ),
        (lambda: -(SHARES * HEAD(X).log_softmax(1)).sum(1).mean(), []),
        (lambda: (HEAD(X).softmax(1) * SHARES).sum(), []),
        (lambda: spoken(torch.tensor([[1, 2], [3, 0]])), []),
        (lambda: spoken(torch.tensor([[1, 0], [3, 0]])), ["blank in targets"]),
        (lambda: spoken(torch.tensor([1, 0, 3])), ["blank in targets"]),
    ],
)
def test_misuses_are_found_in_the_graph_of_the_loss(loss, wanted):
    assert misused(loss().grad_fn) == wanted


def test_a_misuse_is_an_alarm_from_the_first_step(tmp_path):
    import gradwatch
    from tests.distributed.patience import until_written

    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = gradwatch.watch(net, optimizer, tmp_path, every=1, sinks=None)
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.kl_div(net(X).softmax(1), SHARES, reduction="batchmean")
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    until_written(monitor)
    monitor.close()
    [finding] = [f for f in monitor.findings if f.rule == "structural-mismatch"]
    assert (finding.severity, finding.since) == ("error", 1)
    assert "kl_div expects logarithms" in finding.title
