"""`gradwatch.watch` with what Accelerate's `prepare` returns."""

import copy

import torch
from accelerate import Accelerator

import gradwatch
from gradwatch import Kind
from tests.integrations.trainer_truth import assert_norms, clipped, norms
from tests.loop.support import Keep


def test_watch_takes_what_prepare_returns(tmp_path):
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model, wrapped = accelerator.prepare(net, optimizer)
    keep = Keep()
    both = [gradwatch.gradients(), gradwatch.applied_gradients()]
    monitor = gradwatch.watch(model, wrapped, tmp_path, every=1, watch=both, sinks=[keep])
    expected = []
    for _ in range(3):
        wide = copy.deepcopy(net).double()
        wide.zero_grad()
        for _ in range(2):
            x = torch.randn(4, 3)
            with accelerator.accumulate(model):
                accelerator.backward(model(x).square().mean())
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.01)
                wrapped.step()
                wrapped.zero_grad()
            (wide(x.double()).square().mean() / 2).backward()
        expected.append({n.replace(".", "/"): p.grad.numpy() for n, p in wide.named_parameters()})
    monitor.close()
    before, after = norms(keep, Kind.GRADIENT), norms(keep, Kind.APPLIED_GRADIENT)
    assert list(before) == [1, 2, 3]
    for step, slopes in enumerate(expected, start=1):
        assert_norms(before[step], slopes)
        assert_norms(after[step], clipped(slopes, 0.01))
