"""Few shots, spikes and waiting times."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, score
from ...program import fault, program
from ...run import Run
from .loop import mlp, train


@program(
    second_order=0.3,
    first_order=0.3,
    reptile=0.3,
    query_of_another_task=fault("inputs and targets out of order"),
    inner_rate_of_3=fault("solver step too long"),
)
def shots(run: Run, case: str) -> float:
    """Sines of any size and phase from ten points each; judged after three steps on them."""
    import torch
    from torch.func import functional_call
    from torch.nn import functional as F  # noqa: N812

    net = mlp(1, 48, 48, 1, act=torch.nn.Tanh)
    opt = torch.optim.Adam(net.parameters(), 4e-3)
    rate = {"inner_rate_of_3": 3.0, "first_order": 0.03}.get(case, 0.08)

    def task():
        size, phase = 0.5 + 1.5 * torch.rand(1), 2 * torch.rand(1)
        x = 6 * torch.rand(30, 1) - 3
        return x, size * torch.sin(x + phase)

    def adapted(x, y, keep_graph):
        weights = dict(net.named_parameters())
        for _ in range(3):
            loss = F.mse_loss(functional_call(net, weights, (x,)), y)
            grads = torch.autograd.grad(loss, list(weights.values()), create_graph=keep_graph)
            weights = {k: w - rate * g for (k, w), g in zip(weights.items(), grads, strict=True)}
        return weights

    monitor = run.watch(net, opt)
    for _ in range(250):
        total, ways = torch.zeros(()), []
        for _ in range(4):
            x, y = task()
            weights = adapted(x[:10], y[:10], case not in ("first_order", "reptile"))
            xq, yq = task() if case == "query_of_another_task" else (x, y)
            total = total + F.mse_loss(functional_call(net, weights, (xq[10:],)), yq[10:]) / 4
            ways.append(weights)
        opt.zero_grad()
        if case == "reptile":
            # No gradient of anything: the way that the weights went on each task.
            for name, p in net.named_parameters():
                p.grad = torch.stack([p.detach() - w[name].detach() for w in ways]).mean(0)
        else:
            total.backward()
        opt.step()
        monitor.record(loss=total.detach())
    truth, answers = [], []
    for _ in range(60):
        x, y = task()
        weights = adapted(x[:10], y[:10], False)
        with torch.no_grad():
            answers.append(functional_call(net, weights, (x[10:],)).numpy())
        truth.append(y[10:].numpy())
    return score("values", np.concatenate(truth), np.concatenate(answers))


@program(
    surrogate=0.4,
    rates_at_rest_punished=0.4,
    hard_threshold=fault("detached", layer=("one", "two")),
    threshold_of_100=fault("dead units", layer="one"),
)
def spikes(run: Run, case: str) -> float:
    """Digits as currents over eight moments, into neurons that leak and fire."""
    import torch
    from torch import nn

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt, y = torch.tensor(x / 16), torch.tensor(xt / 16), torch.tensor(y)
    at = 100.0 if case == "threshold_of_100" else 1.0

    class Fire(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            ctx.save_for_backward(v)
            return (v > 0).float()

        @staticmethod
        def backward(ctx, g):
            (v,) = ctx.saved_tensors
            return g / (1 + 4 * v.abs()) ** 2

    def fire(v):
        return (v > 0).float() if case == "hard_threshold" else Fire.apply(v)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.out = nn.Linear(64, 24), nn.Linear(24, 12), nn.Linear(12, 10)
            self.rate = 0.0

        def forward(self, x):
            a, b, out, self.rate = 0.0, 0.0, 0.0, 0.0
            current = 3 * self.one(x)
            for _ in range(8):
                a = 0.8 * a + current
                s = fire(a - at)
                a = a - at * s
                b = 0.8 * b + 3 * self.two(s)
                s2 = fire(b - at)
                b = b - at * s2
                out = out + self.out(s2) / 8
                self.rate = self.rate + (s.mean() + s2.mean()) / 16
            return out

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 8e-3)

    def loss_of(_):
        i = torch.randint(0, len(x), (64,))
        loss = nn.functional.cross_entropy(4 * net(x[i]), y[i])
        if case == "rates_at_rest_punished":
            loss = loss + 0.5 * (net.rate - 0.2) ** 2
        return loss

    train(run, net, opt, 250, loss_of)
    with torch.no_grad():
        return accuracy(yt, net(xt).numpy())


@program(
    all_at_risk=0.3,
    small_sets=0.3,
    hazard_per_year=0.3,
    events_inverted=fault("mask inverted"),
    exponential_of_raw_blood=fault("overflow"),
)
def survival(run: Run, case: str) -> float:
    """Who lives longer, where most leave the study first; judged by pairs in the right order."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    rng, n = run.rng, 2000
    x = rng.normal(size=(n, 8)).astype("float32")
    risk = x[:, 0] + 0.8 * x[:, 1] ** 2 + np.sin(2 * x[:, 2]) - 0.5 * x[:, 3]
    time = rng.exponential(1, n) ** 0.5 * np.exp(-risk)
    leaves = rng.exponential(np.median(time), n)
    event = torch.tensor((time < leaves).astype("float32"))
    if case == "events_inverted":
        event = 1 - event
    if case == "exponential_of_raw_blood":
        x[:, 4:] = x[:, 4:] * 400 + 3000
    seen, x = torch.tensor(np.minimum(time, leaves)), torch.tensor(x)
    years = torch.quantile(seen, torch.linspace(0, 1, 9, dtype=seen.dtype))[1:-1]
    slot = torch.bucketize(seen, years)
    net = mlp(8, 48, 24, 8 if case == "hazard_per_year" else 1)
    opt = torch.optim.Adam(net.parameters(), 4e-3, weight_decay=1e-4)
    size = {"all_at_risk": 1500, "small_sets": 24}.get(case, 256)

    def loss_of(_):
        i = torch.randint(0, 1500, (size,))
        if case == "hazard_per_year":
            out = net(x[i])
            place = torch.arange(8)
            alive = place < slot[i, None]
            died = (place == slot[i, None]) & (event[i, None] > 0)
            each = F.binary_cross_entropy_with_logits(out, died.float(), reduction="none")
            return (each * (alive | died)).sum() / size
        i = i[seen[i].argsort(descending=True)]
        out = net(x[i])[:, 0]
        if case == "exponential_of_raw_blood":
            at_risk = out.exp().cumsum(0).log()
        else:
            at_risk = out.logcumsumexp(0)
        return -((out - at_risk) * event[i]).sum() / event[i].sum().clamp(min=1)

    train(run, net, opt, 200, loss_of)
    with torch.no_grad():
        found = net(x[1500:])
    found = (found.sigmoid().sum(1) if found.shape[1] > 1 else found[:, 0]).numpy()
    if not np.isfinite(found).all():
        return -1.0
    first = np.less.outer(time[1500:], time[1500:])
    above = np.sign(np.subtract.outer(found, found))
    return float(above[first].mean())
