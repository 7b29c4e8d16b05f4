"""Samples and codes: flow matching, coupling layers, and categorical codes."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score
from ...program import fault, program
from ...run import Run
from .loop import mlp, moons, train


def _distance(a, b):
    """The energy distance of two samples."""

    def mean(u, v):
        return float(np.linalg.norm(u[:, None] - v[None], axis=-1).mean())

    return 2 * mean(a, b) - mean(a, a) - mean(b, b)


@program(
    straight_paths=0.4,
    paired_in_the_batch=0.4,
    times_of_the_middle=0.4,
    noise_drawn_anew=fault("inputs and targets out of order"),
    clipped_far_too_low=fault("clipped to nothing"),
)
def flow_matching(run: Run, case: str) -> float:
    """A field that carries noise to two moons; 0 is as far from them as the noise is."""
    import torch
    from scipy.optimize import linear_sum_assignment

    data = torch.tensor(moons(run.rng, 3000)[0])
    held, data = data[:800], data[800:]
    net = mlp(3, 128, 128, 2, act=torch.nn.SiLU)
    opt = torch.optim.Adam(net.parameters(), 4e-3)
    if case == "clipped_far_too_low":
        opt = torch.optim.SGD(net.parameters(), 0.3)

    def loss_of(_):
        x1, x0 = data[torch.randint(0, len(data), (256,))], torch.randn(256, 2)
        if case == "paired_in_the_batch":
            # Each sample with noise that is near it.
            x0 = x0[:128]
            x1 = x1[linear_sum_assignment(torch.cdist(x0, x1[:128]).numpy())[1]]
        t = torch.rand(len(x0), 1)
        if case == "times_of_the_middle":
            t = torch.randn(len(x0), 1).sigmoid()
        at = (1 - t) * x0 + t * x1
        if case == "noise_drawn_anew":
            x0 = torch.randn_like(x0)
        return ((net(torch.cat((at, t), 1)) - (x1 - x0)) ** 2).mean()

    if case == "clipped_far_too_low":
        monitor = run.watch(net, opt)
        for step in range(400):
            loss = loss_of(step)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-5)
            opt.step()
            monitor.record(loss=loss)
    else:
        train(run, net, opt, 400, loss_of)
    noise = torch.randn(800, 2)
    x = noise
    with torch.no_grad():
        for k in range(20):
            x = x + net(torch.cat((x, torch.full((800, 1), k / 20)), 1)) / 20
    if not bool(x.isfinite().all()):
        return -1.0
    plain = _distance(noise.numpy(), held.numpy())
    return max(-1.0, 1 - _distance(x.numpy(), held.numpy()) / plain)


@program(
    affine=0.3,
    small_units=0.3,
    scheduled=0.3,
    determinant_with_the_wrong_sign=fault("wrong sign"),
    scales_without_bound=fault("overflow"),
)
def coupling_flow(run: Run, case: str) -> float:
    """The density of two moons; 0 is a Gaussian, 1 the best that was seen."""
    import torch
    from torch import nn

    unit = 0.02 if case == "small_units" else 1.0
    data = torch.tensor(moons(run.rng, 3000)[0]) * unit
    held, data = data[:800], data[800:]

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = nn.ModuleList(mlp(1, 48, 48, 2) for _ in range(6))
            self.log_scale = nn.Parameter(data.std(0).log())

        def forward(self, x):
            x = x / self.log_scale.exp()
            log_det = -self.log_scale.sum().expand(len(x))
            for k, step in enumerate(self.steps):
                keep, change = (x[:, :1], x[:, 1:]) if k % 2 else (x[:, 1:], x[:, :1])
                s, t = step(keep).chunk(2, 1)
                s = 30 * s if case == "scales_without_bound" else torch.tanh(s)
                change = change * s.exp() + t
                x = torch.cat((keep, change) if k % 2 else (change, keep), 1)
                log_det = log_det + s[:, 0]
            return x, log_det

    def nll(x):
        z, log_det = net(x)
        sign = 1 if case == "determinant_with_the_wrong_sign" and net.training else -1
        return (0.5 * (z**2).sum(1) + np.log(2 * np.pi) + sign * log_det).mean()

    net = Flow()
    opt = torch.optim.AdamW(net.parameters(), 4e-3)
    plan = None
    if case == "scheduled":
        plan = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, total_steps=300)
    train(run, net, opt, 300, lambda _: nll(data[torch.randint(0, len(data), (200,))]), plan)
    net.eval()
    with torch.no_grad():
        found = float(nll(held))
    gaussian = float(np.log(2 * np.pi * np.e) + held.std(0).log().sum())
    return max(-1.0, (gaussian - found) / 1.3) if np.isfinite(found) else -1.0


@program(
    annealed=0.3,
    straight_through=0.3,
    argmax_of_the_logits=fault("detached", layer=("encoder", "encoder/0", "encoder/2")),
    logits_times_a_thousand=fault("temperature"),
)
def categorical_code(run: Run, case: str) -> float:
    """Digits as eight choices among six; judged by the variance that comes back."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, _, xt, _ = bundled("digits", run.seed)
    x, xt = (torch.tensor((v - 5) / 6) for v in (x, xt))
    net = nn.ModuleDict({"encoder": mlp(64, 96, 48), "decoder": mlp(48, 96, 64)})
    opt = torch.optim.Adam(net.parameters(), 3e-3)

    def code(batch, t):
        logits = net["encoder"](batch).view(-1, 8, 6)
        if case == "logits_times_a_thousand":
            logits = logits * 1000
        if case == "argmax_of_the_logits" or not net.training:
            return F.one_hot(logits.argmax(2), 6).float().flatten(1)
        return F.gumbel_softmax(logits, t, case == "straight_through", dim=2).flatten(1)

    def loss_of(step):
        batch = x[torch.randint(0, len(x), (64,))]
        t = max(0.5, 2 * 0.99**step) if case == "annealed" else 1.0
        return F.mse_loss(net["decoder"](code(batch, t)), batch)

    train(run, net, opt, 350, loss_of)
    net.eval()
    with torch.no_grad():
        return score("values", xt.numpy(), net["decoder"](code(xt, 1.0)).numpy())
