"""What a diagnosis says of the parts of a torch module that are not trained, or not used."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import gradwatch
from tests.distributed.patience import until_written


def alarms(module, optimizer, directory, steps=40, forward=None):
    """The findings above `info` after some steps of a small classification."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(6, 3, generator=generator)
    monitor = gradwatch.watch(module, optimizer, directory, every=1, sinks=None)
    for _ in range(steps):
        x = torch.randn(32, 6, generator=generator)
        optimizer.zero_grad()
        loss = F.cross_entropy((forward or module)(x), (x @ weights).argmax(1))
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    until_written(monitor)
    monitor.close()
    return {each.rule: each for each in monitor.findings if each.severity != "info"}


def pretrained(body):
    """Train it a little, as if it came with the weights of another task."""
    head = nn.Linear(16, 2)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-2)
    for _ in range(20):
        x = torch.randn(32, 6)
        optimizer.zero_grad()
        F.cross_entropy(head(body(x)), (x[:, 0] > 0).long()).backward()
        optimizer.step()


def test_layers_that_no_optimizer_holds_are_a_mistake_if_nothing_ever_trained_them(tmp_path):
    torch.manual_seed(0)
    body, head = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16)), nn.Linear(16, 3)
    module = nn.Sequential(body, head)
    optimizer = torch.optim.Adam(head.parameters(), 1e-2)
    finding = alarms(module, optimizer, tmp_path / "fresh")["structural-mismatch"]
    assert finding.layer == "0/0"
    assert "No optimizer holds" in finding.title
    pretrained(body)
    assert "structural-mismatch" not in alarms(module, optimizer, tmp_path / "pretrained")


class WithSpareParts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.out = nn.Linear(6, 16), nn.Linear(16, 3)
        self.old, self.aux = nn.Linear(6, 16), nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
        self.is_cut = False

    def forward(self, x):
        hidden = self.body(x).relu()
        return self.out(hidden.detach() if self.is_cut else hidden)


def test_parts_that_are_never_called_are_no_alarm_but_those_that_are_cut_off_are(tmp_path):
    torch.manual_seed(0)
    module = WithSpareParts()
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    assert "zero-gradients" not in alarms(module, optimizer, tmp_path / "spare", 20)
    module = WithSpareParts()
    module.is_cut = True
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    finding = alarms(module, optimizer, tmp_path / "cut", 20)["zero-gradients"]
    assert [site.layer for site in finding.sites] == ["body"]


class MeanAndSpread(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.spread = nn.Linear(6, 16), nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, x):
        hidden = self.body(x).tanh()
        return self.mean(hidden), self.spread(hidden)


def test_a_loss_may_be_replaced_by_another_that_has_a_head_of_its_own(tmp_path):
    torch.manual_seed(0)
    module = MeanAndSpread()
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    monitor = gradwatch.watch(module, optimizer, tmp_path, every=1, sinks=None)
    for step in range(150):
        x = torch.randn(64, 6)
        mean, spread = module(x)
        difference = mean - x[:, :1].sin()
        if step < 60:
            loss = difference.square().mean()
        else:
            loss = (spread + difference.square() * torch.exp(-2.0 * spread)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    until_written(monitor)
    monitor.close()
    assert loss < 0
    assert not [each for each in monitor.findings if each.severity != "info"]


def test_a_reconstruction_is_the_main_task_whatever_the_code_is_asked_for(tmp_path):
    def rules(weight, directory):
        torch.manual_seed(0)
        encoder, decoder = nn.Linear(8, 4), nn.Linear(2, 8)
        module = nn.Sequential(encoder, decoder)

        def forward(self, x):
            mean, log_variance = encoder(x).chunk(2, 1)
            code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
            return decoder(code), mean, log_variance

        module.forward = forward.__get__(module)
        optimizer = torch.optim.Adam(module.parameters(), 1e-2)
        monitor = gradwatch.watch(module, optimizer, directory, every=1, sinks=None)
        mixing = torch.randn(2, 8)
        for _ in range(160):
            x = torch.randn(64, 2) @ mixing
            restored, mean, log_variance = module(x)
            divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
            loss = ((restored - x) ** 2).sum(1).mean() + weight * divergence
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.record(loss=loss)
        until_written(monitor)
        monitor.close()
        return {each.rule for each in monitor.findings if each.severity != "info"}

    assert rules(0.1, tmp_path / "healthy") == set()
    assert "learned-nothing" in rules(300.0, tmp_path / "collapsed")
