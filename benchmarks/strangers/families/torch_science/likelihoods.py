"""Losses that say how sure one is: quantiles, counts, Gaussians with a variance of their own."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


@program(
    three=0.5,
    increments=0.5,
    median_only=0.5,
    sorted_stream_shuffled=0.5,
    reversed_pinball=fault("wrong sign"),
    sorted_stream=fault("unshuffled"),
    clipped=fault("clipped to nothing"),
)
def quantiles(run: Run, case: str) -> float:
    """Travel times by hour: the pinball loss, judged by the middle quantile."""
    import torch
    from torch import nn

    rng = run.rng
    hour = rng.uniform(0, 24, 1500)
    if "sorted" in case:
        hour = np.sort(hour)
    middle = 20 + 12 * np.exp(-((hour - 8) ** 2) / 4) + 9 * np.exp(-((hour - 17) ** 2) / 6)
    noise = rng.gamma(2.0, 1.0, 1500) - 1.68
    y = (middle + noise * (1 + 0.08 * hour) - 24) / 6
    x = torch.tensor(np.stack([hour / 12 - 1, np.sin(hour * np.pi / 12)], 1).astype("float32"))
    y = torch.tensor(y.astype("float32"))[:, None]
    q = torch.tensor([0.5] if case == "median_only" else [0.1, 0.5, 0.9])
    net = nn.Sequential(nn.Linear(2, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(),
                        nn.Linear(64, len(q)))  # fmt: skip

    def forward(x):
        out = net(x)
        if case == "increments":
            low, more = out[:, :1], nn.functional.softplus(out[:, 1:])
            out = torch.cat((low, low + more.cumsum(1)), 1)
        return out

    opt = torch.optim.NAdam(net.parameters(), 5e-3)
    if case == "clipped":
        opt = torch.optim.SGD(net.parameters(), 0.05)
    monitor = run.watch(net, opt)
    for step in range(240):
        # A loader that goes through the day in order: the hours of a batch are alike.
        i = torch.arange(6 * step, 6 * step + 30) if case == "sorted_stream" else None
        i = torch.randint(0, 1500, (30,)) if i is None else i.clamp(max=1499)
        d = y[i] - forward(x[i])
        each = torch.maximum(q * d, (q - 1) * d)
        if case == "reversed_pinball":
            each = torch.minimum(q * d, (q - 1) * d)
        loss = each.mean()
        opt.zero_grad()
        loss.backward()
        if case == "clipped":
            nn.utils.clip_grad_norm_(net.parameters(), 1e-5)
        opt.step()
        monitor.record(loss=loss)
    at = np.linspace(0, 24, 200)
    truth = 20 + 12 * np.exp(-((at - 8) ** 2) / 4) + 9 * np.exp(-((at - 17) ** 2) / 6)
    x = torch.tensor(np.stack([at / 12 - 1, np.sin(at * np.pi / 12)], 1).astype("float32"))
    with torch.no_grad():
        out = forward(x).numpy()
    return score("values", (truth - 24) / 6, out[:, out.shape[1] // 2])


@program(
    exposure=0.4,
    mostly_zeros=0.2,
    whole_batch=0.4,
    negative_binomial=0.3,
    relu_rate=fault("output cannot reach the targets"),
    counts_times_1000=fault("unscaled targets"),
)
def claims(run: Run, case: str) -> float:
    """How many claims has a policy? A Poisson regression, judged by its log rate."""
    import torch
    from torch import nn

    rng, n = run.rng, 2000
    x = rng.normal(size=(n, 8)).astype("float32")
    years = rng.uniform(0.2, 1.5, n).astype("float32")
    log_rate = 0.5 * x[:, 0] + 0.6 * np.sin(1.5 * x[:, 1]) - 0.3 * x[:, 2] * x[:, 3]
    log_rate = log_rate + (-1.2 if case == "mostly_zeros" else 0.7)
    counts = rng.poisson(years * np.exp(log_rate)).astype("float32")
    if case == "counts_times_1000":
        counts = counts * 1000
    x, years, counts = torch.tensor(x), torch.tensor(years), torch.tensor(counts)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    spread = nn.Parameter(torch.zeros(()))
    if case == "relu_rate":
        nn.init.constant_(net[4].bias, -3.0)
    parameters = [*net.parameters(), spread] if case == "negative_binomial" else net.parameters()
    opt = torch.optim.Adam(parameters, 4e-3)
    if case == "counts_times_1000":
        opt = torch.optim.SGD(net.parameters(), 4e-3, momentum=0.9)
    monitor = run.watch(net, opt)
    plain = nn.PoissonNLLLoss(log_input=True)
    for _ in range(150):
        i = torch.arange(1500) if case == "whole_batch" else torch.randint(0, 1500, (50,))
        out = net(x[i])[:, 0]
        if case == "relu_rate":
            rate = torch.relu(out) * years[i]
            loss = (rate - counts[i] * torch.log(rate + 1e-8)).mean()
        elif case == "negative_binomial":
            mean, r = (out + years[i].log()).exp(), spread.exp()
            each = torch.distributions.NegativeBinomial(r, logits=(mean / r).log())
            loss = -each.log_prob(counts[i]).mean()
        else:
            loss = plain(out + years[i].log(), counts[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        out = net(x[1500:])[:, 0]
    if case == "relu_rate":
        out = (torch.relu(out) + 1e-3).log()
    if case == "counts_times_1000":
        out = out - np.log(1000)
    return score("values", log_rate[1500:], out.numpy())


@program(
    log_variance=0.5,
    softplus_ensemble=0.5,
    mean_first=0.5,
    almost_exact=0.8,
    mixture=0.5,
    variance_unbounded=fault("NaN forward"),
    certain_from_the_start=fault("exploding"),
    mean_not_trained=fault("not in the optimizer"),
    same_for_all=fault("modules in a plain list"),
)
def calibration(run: Run, case: str) -> float:
    """A sensor whose noise depends on the temperature; the loss may well go below 0."""
    import torch
    from torch import nn

    rng, n = run.rng, 1200
    x = rng.uniform(-2, 2, (n, 3)).astype("float32")
    clean = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 - 0.4 * x[:, 2]
    noise = 0.01 if case == "almost_exact" else 0.05 + 0.3 * (x[:, 0] > 0)
    y = torch.tensor((clean + noise * rng.normal(size=n)).astype("float32"))
    x = torch.tensor(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            hidden = [nn.Linear(3, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh()]
            self.body = hidden if case == "same_for_all" else nn.Sequential(*hidden)
            k = 3 if case == "mixture" else 1
            self.mean, self.spread = nn.Linear(48, k), nn.Linear(48, k)
            self.share = nn.Linear(48, k) if case == "mixture" else None

        def forward(self, x):
            if case == "same_for_all":
                for layer in self.body:
                    x = layer(x)
                h = 0.02 * x
            else:
                h = self.body(x)
            return self.mean(h), self.spread(h), h

    net = Net()
    if case == "certain_from_the_start":
        nn.init.constant_(net.spread.bias, -24.0)
    if case == "variance_unbounded":
        nn.init.constant_(net.spread.bias, -0.3)
    trained = [*net.parameters()]
    if case == "mean_not_trained":
        trained = [*net.spread.parameters()]
    opt = torch.optim.AdamW(trained, 5e-3)
    if case == "certain_from_the_start":
        opt = torch.optim.SGD(trained, 1e-3)
    monitor = run.watch(net, opt)
    for step in range(200):
        i = torch.randint(0, 900, (64,))
        mean, spread, h = net(x[i])
        d = y[i, None] - mean
        if case == "mixture":
            each = torch.distributions.Normal(mean, spread.exp() + 1e-2)
            log_share = net.share(h).log_softmax(-1)
            loss = -(log_share + each.log_prob(y[i, None])).logsumexp(-1).mean()
        elif case == "variance_unbounded":
            loss = (0.5 * torch.log(spread) + d**2 / (2 * spread)).mean()
        elif case == "softplus_ensemble":
            variance = nn.functional.softplus(spread) + 1e-4
            loss = nn.functional.gaussian_nll_loss(mean, y[i, None], variance)
        elif case == "mean_first" and step < 80:
            loss = (d**2).mean()
        else:
            loss = 0.5 * (spread + d**2 * torch.exp(-spread)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        mean, _, h = net(x[900:])
        if case == "mixture":
            mean = (net.share(h).softmax(-1) * mean).sum(-1, keepdim=True)
    return score("values", clean[900:], mean.numpy())
