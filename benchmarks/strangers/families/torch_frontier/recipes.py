"""Recipes: averages of weights, sharpness, signs, cycles, few bits, weights of losses."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run
from .loop import mlp, train

EPOCH = 13
"""Batches of a hundred digits."""


@program(
    averaged_weights=0.6,
    sharpness_aware=0.6,
    signs_of_momentum=0.6,
    triangles=0.6,
    momentum_of_98=0.5,
    accumulated=0.5,
    scheduler_per_batch=fault("rate decays to nothing"),
    model_made_anew=fault("weights lost", step=EPOCH + 1),
    centred_in_place=fault("data goes wrong", step=EPOCH + 1),
    first_batch_again=fault("one batch only"),
)
def recipe(run: Run, case: str) -> float:
    """Digits by a small network, and what is said to help."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt, y = torch.tensor(x / 6), torch.tensor(xt / 6), torch.tensor(y)
    mean = x.mean()
    if case != "centred_in_place":
        x = x - mean
    net = mlp(64, 64, 48, 10)

    class Signs(torch.optim.Optimizer):
        """Steps of one size, in the direction of a momentum."""

        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    m = self.state[p].setdefault("m", torch.zeros_like(p))
                    p.sub_((0.9 * m + 0.1 * p.grad).sign(), alpha=group["lr"])
                    m.lerp_(p.grad, 0.01)

    opt, plan = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), None
    if case == "signs_of_momentum":
        opt = Signs(net.parameters(), 1e-3)
    elif case == "momentum_of_98":
        opt = torch.optim.SGD(net.parameters(), 0.03, momentum=0.98)
    elif case == "model_made_anew":
        opt = torch.optim.SGD(net.parameters(), 0.03, momentum=0.9)
    elif case == "triangles":
        plan = torch.optim.lr_scheduler.CyclicLR(opt, 1e-3, 0.2, 20, mode="triangular2")
    elif case == "scheduler_per_batch":
        opt = torch.optim.SGD(net.parameters(), 0.05)
        plan = torch.optim.lr_scheduler.StepLR(opt, 3, 0.3)  # Meant in epochs.
    average = torch.optim.swa_utils.AveragedModel(net)
    monitor = run.watch(net, opt)

    def loss_of(k, order):
        if case == "centred_in_place":
            # A slice of a tensor is no copy of it.
            batch = x[100 * k : 100 * k + 100]
            batch -= mean
            return F.cross_entropy(net(batch), y[100 * k : 100 * k + 100])
        # A loader that is made anew for each step, and does not shuffle.
        i = torch.arange(25) if case == "first_batch_again" else order[100 * k : 100 * k + 100]
        return F.cross_entropy(net(x[i]), y[i])

    for epoch in range(12):
        order = torch.randperm(len(x))
        if case == "model_made_anew":
            for layer in net:
                if isinstance(layer, nn.Linear):
                    layer.reset_parameters()
        opt.zero_grad()
        for k in range(EPOCH):
            loss = loss_of(k, order)
            if case != "accumulated":
                opt.zero_grad()
            loss.backward()
            if case == "sharpness_aware":
                grads = [p.grad for p in net.parameters()]
                size = torch.sqrt(sum((g**2).sum() for g in grads)) + 1e-12
                moves = [0.05 * g / size for g in grads]
                with torch.no_grad():
                    for p, m in zip(net.parameters(), moves, strict=True):
                        p += m
                opt.zero_grad()
                loss_of(k, order).backward()
                with torch.no_grad():
                    for p, m in zip(net.parameters(), moves, strict=True):
                        p -= m
            if case == "accumulated" and k % 4 != 3:
                continue
            opt.step()
            if case == "accumulated":
                opt.zero_grad()
            if plan is not None:
                plan.step()
            monitor.record(loss=loss)
        if case == "averaged_weights" and epoch >= 5:
            average.update_parameters(net)
    with torch.no_grad():
        out = (average if case == "averaged_weights" else net)(xt - mean)
    return accuracy(yt, out.numpy())


@program(
    eight_bits=0.5,
    three_values=0.4,
    rounded_without_a_way_back=fault("detached"),
    scale_of_a_whole=fault("rounded away"),
)
def few_bits(run: Run, case: str) -> float:
    """Digits with weights that are rounded in each pass."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt, y = torch.tensor(x / 8 - 1), torch.tensor(xt / 8 - 1), torch.tensor(y)

    class Rounded(nn.Linear):
        def forward(self, x):
            w = self.weight
            if case == "scale_of_a_whole":
                # Weights of +-0.1 in steps of 1.
                q = w.round()
            elif case == "three_values":
                size = w.abs().mean()
                q = size * (w / size).round().clamp(-1, 1)
            else:
                step = w.abs().max().detach() / 127
                q = step * (w / step).round()
            if case != "rounded_without_a_way_back":
                q = w + (q - w).detach()
            return F.linear(x, q, self.bias)

    net = nn.Sequential(Rounded(64, 96), nn.ReLU(), Rounded(96, 96), nn.ReLU(), Rounded(96, 10))
    opt = torch.optim.AdamW(net.parameters(), 3e-3)

    def loss_of(_):
        i = torch.randint(0, len(x), (64,))
        return F.cross_entropy(net(x[i]), y[i])

    train(run, net, opt, 250, loss_of)
    with torch.no_grad():
        return accuracy(yt, net(xt).numpy())


@program(
    log_variances=0.6,
    ramped=0.6,
    free_weights=fault("wrong sign"),
)
def two_losses(run: Run, case: str) -> float:
    """Which digit, and its ink; the shares of both losses are learned."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, y, xt, yt = bundled("digits", run.seed)
    ink = torch.tensor((x.sum(1) - x.sum(1).mean()) / np.std(x.sum(1)))
    x, xt, y = torch.tensor(x / 8 - 1), torch.tensor(xt / 8 - 1), torch.tensor(y)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = mlp(64, 64, 48, out=nn.ReLU())
            self.digit, self.ink = nn.Linear(48, 10), nn.Linear(48, 1)
            start = 0.3 if case == "free_weights" else 0.0
            self.shares = nn.Parameter(torch.full((2,), start))

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 4e-3)

    def loss_of(step):
        i = torch.randint(0, len(x), (64,))
        h = net.trunk(x[i])
        each = torch.stack(
            (F.cross_entropy(net.digit(h), y[i]), F.mse_loss(net.ink(h)[:, 0], ink[i]))
        )
        if case == "free_weights":
            return (net.shares * each).sum()
        if case == "ramped":
            return each[0] + min(1, step / 150) * each[1] + 0 * net.shares.sum()
        return (torch.exp(-net.shares) * each + net.shares).sum()

    train(run, net, opt, 300, loss_of)
    with torch.no_grad():
        return accuracy(yt, net.digit(net.trunk(xt)).numpy())
