"""Torch trainings in which something happens on the way."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made, score
from ..program import fault, program
from ..run import Run


@program(
    plain=0.7,
    restarts=0.7,
    step_decay=0.7,
    head_replaced=0.6,
    bad_batch=0.6,
    growing_batch=0.7,
    rate_jump=fault("rate jump", step=101),
    rate_to_nothing=fault("rate decays to nothing", step=9),
    units_die=fault("units die", step=101, layer=("0", "1")),
    freeze=fault("frozen in mid-training", step=7),
    weights_lost=fault("weights lost", step=171),
    nan_weight=fault("NaN forward", step=121, layer=("2", "layers/2", "3")),
    nan_gradient=fault("NaN backward", step=111, layer="0"),
    inf_input=fault("NaN in the data", step=91),
    decay_on=fault("weight decay", step=101),
)
def digits(run: Run, case: str) -> float:
    import torch
    from torch import nn

    data = made("digits", run.seed, 800)
    x, y = torch.tensor(data.x), torch.tensor(data.y)
    net = nn.Sequential(
        nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10)
    )
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-3)
    plan = None
    if case == "restarts":
        plan = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 50)
    elif case == "step_decay":
        plan = torch.optim.lr_scheduler.MultiStepLR(opt, [80, 140], 0.1)
    monitor = run.watch(net, opt)
    size = 32
    for step in range(1, 201):
        if case == "growing_batch" and step in (80, 140):
            size *= 2
        i = torch.randint(0, len(x), (size,))
        a, b = x[i], y[i]
        with torch.no_grad():
            if case == "rate_jump" and step == 101:
                opt.param_groups[0]["lr"] = 1.0
            elif case == "rate_to_nothing" and step >= 9:
                opt.param_groups[0]["lr"] *= 0.5
            elif case == "units_die" and step == 101:
                net[0].bias.sub_(60.0)
            elif case == "freeze" and step == 7:
                net.requires_grad_(False)
                net[4].bias.requires_grad_(True)
            elif case == "weights_lost" and step == 171:
                for p in net.parameters():
                    p.normal_(std=0.5)
                opt.param_groups[0]["lr"] = 1e-4
            elif case == "nan_weight" and step == 121:
                net[2].weight[3, 3] = torch.nan
            elif case == "inf_input" and step == 91:
                a[5, 20] = torch.inf
            elif case == "decay_on" and step == 101:
                opt.param_groups[0]["weight_decay"] = 60.0
            elif case == "head_replaced" and step == 60:
                nn.init.xavier_uniform_(net[4].weight)
            elif case == "bad_batch" and step == 90:
                a += 2 * torch.randn_like(a)
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad(set_to_none=case != "freeze")
        loss.backward()
        if case == "nan_gradient" and step == 111:
            net[0].weight.grad[0, 0] = torch.nan
        opt.step()
        if plan is not None:
            plan.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(data.truth, net(torch.tensor(data.judged_x)).numpy())


@program(
    plain=0.5,
    adagrad=0.4,
    long_tail=0.4,
    wrong_units=fault("data goes wrong", step=121),
    target_flips=fault("data goes wrong", step=121),
    division=fault("NaN forward", step=131),
    exp_overflow=fault("overflow", step=131),
    one_giant=fault("spike", step=141),
    becomes_constant=fault("data goes wrong", step=121),
)
def stream(run: Run, case: str) -> float:
    """A stream of measurements, whose source may break."""
    import torch
    from torch import nn

    rng = run.rng
    w = rng.normal(size=(8, 1)) / 2

    def draw(n):
        x = rng.normal(size=(n, 8))
        y = np.maximum(x @ w, 0) + 0.5 * np.sin(2 * x[:, :1]) + 0.05 * rng.normal(size=(n, 1))
        if case == "long_tail":
            y = y + 0.2 * rng.standard_t(2, size=(n, 1))
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.mid, self.out = nn.Linear(8, 40), nn.Linear(40, 40), nn.Linear(40, 1)

        def forward(self, x):
            return self.out(torch.tanh(self.mid(torch.tanh(self.inp(x)))))

    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    if case == "adagrad":
        opt = torch.optim.Adagrad(net.parameters(), lr=0.1)
    loss_fn = nn.SmoothL1Loss() if case == "long_tail" else nn.MSELoss()
    monitor = run.watch(net, opt)
    for step in range(1, 241):
        x, y = draw(24)
        if step > 120:
            if case == "wrong_units":
                x = x * 1000
            elif case == "target_flips":
                y = 10 - 8 * y
            elif case == "becomes_constant":
                x, y = x[:1].expand(24, 8), y[:1].expand(24, 1) * 0 + 3
        out = net(x)
        loss = loss_fn(out, y)
        if case == "division" and step == 131:
            loss = loss * (out - out).sum() / (y - y).sum()
        elif case == "exp_overflow" and step == 131:
            loss = loss + torch.exp(out.abs().max() * 200 + 90)
        elif case == "one_giant" and step == 141:
            loss = loss * 3e4
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    x, y = draw(400)
    with torch.no_grad():
        return score("values", y.numpy(), net(x).numpy())
