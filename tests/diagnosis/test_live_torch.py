"""The diagnosis of a torch module that is watched."""

from __future__ import annotations

import torch

import gradwatch
from gradwatch import Kind
from tests.distributed.patience import until_written


def test_a_watched_module_whose_updates_vanish_is_found_out(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
    monitor = gradwatch.watch(net, optimizer, tmp_path, every=1, sinks=[gradwatch.Store()])
    x = torch.randn(64, 4)
    for step in range(1, 81):
        optimizer.zero_grad()
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss, inputs=x, targets=x.sum(1))
        if step % 20 == 0:  # Of steps as quick as these, some would be dropped.
            until_written(monitor)
    monitor.close()
    rules = {finding.rule for finding in monitor.findings}
    assert rules & {"stalled-weights", "learning-rate-too-low"}
    facts = gradwatch.diagnosis.ModelFacts.from_json(gradwatch.open(tmp_path).facts["model"])
    assert [layer.class_name for layer in facts.layers] == ["Linear", "ReLU", "Linear"]
    kinds = {site.kind for site in gradwatch.open(tmp_path).sites()}
    assert {Kind.UPDATE, Kind.INPUT, Kind.TARGET, Kind.LOSS} <= kinds
    outputs = [s.path for s in gradwatch.open(tmp_path).sites() if s.kind is Kind.OUTPUT]
    assert outputs == ["0", "1", "2"]
    # Nobody has asked for hooks in the submodules.
    assert not any(module._forward_hooks for module in net.children())
