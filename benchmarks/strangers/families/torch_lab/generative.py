"""Toy densities: diffusion in two dimensions, mixture density networks, a VAE of curves."""

from __future__ import annotations

import math

import numpy as np

from ...program import fault, program
from ...run import Run


def _rings(rng: np.random.Generator, n: int) -> np.ndarray:
    """Two rings and a blob in the plane."""
    which, angle = rng.integers(0, 3, n), rng.uniform(0, 2 * np.pi, n)
    radius = np.where(which == 0, 2.0, np.where(which == 1, 1.0, 0.0))
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return (points + 0.08 * rng.normal(size=(n, 2))).astype("float32")


@program(
    noise=0.2,
    clean_sample=0.2,
    cosine_schedule=0.2,
    average_of_weights=0.2,
    fresh_noise_in_the_loss=fault("inputs and targets out of order"),
    point_left_out=fault("information missing"),
    rate_of_nine_zeros=fault("rate too low"),
    level_is_negative=fault("NaN forward"),
    huge_weights_of_levels=fault("exploding"),
)
def plane(run: Run, case: str) -> float:
    """Diffusion of points; the score is how much of the noise is told."""
    import torch
    from torch import nn

    points = torch.tensor(_rings(run.rng, 3000))
    levels = 60
    if case == "cosine_schedule":
        share = torch.cos(torch.linspace(0.02, 0.98, levels) * math.pi / 2) ** 2
    else:
        betas = torch.linspace(1e-3, 0.12, levels)
        share = torch.cumprod(1 - betas, 0)
    if case == "level_is_negative":
        share = 1 - torch.cumsum(torch.linspace(1e-3, 0.06, levels), 0)

    class Denoiser(nn.Module):
        def __init__(self, width=96):
            super().__init__()
            self.time = nn.Embedding(levels, 32)
            self.inner = nn.ModuleList([nn.Linear(34, width), nn.Linear(width, width)])
            self.out = nn.Linear(width, 2)

        def forward(self, x, level):
            if case == "point_left_out":
                x = torch.zeros_like(x)
            h = torch.cat([x, self.time(level)], -1)
            for layer in self.inner:
                h = nn.functional.silu(layer(h))
            return self.out(h)

    net = Denoiser()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-9 if "nine" in case else 3e-3)
    if case == "huge_weights_of_levels":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
    slow = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98)
    )
    monitor = run.watch(net, optimizer)

    for _ in range(400):
        clean = points[torch.randint(0, len(points), (128,))]
        level = torch.randint(0, levels, (128,))
        kept, noise = share[level, None], torch.randn(128, 2)
        noisy = kept.sqrt() * clean + (1 - kept).sqrt() * noise
        target = clean if case == "clean_sample" else noise
        if case == "fresh_noise_in_the_loss":
            target = torch.randn_like(clean)
        loss = (net(noisy, level) - target) ** 2
        if case == "huge_weights_of_levels":
            # The bound's own weights, which the simple loss leaves out.
            loss = loss / (1 - kept)
        loss = loss.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slow.update_parameters(net)
        monitor.record(loss=loss.item())
    judged = slow if case == "average_of_weights" else net
    clean = torch.tensor(_rings(run.rng, 2000))
    level = torch.randint(0, levels, (2000,))
    share = torch.cumprod(1 - torch.linspace(1e-3, 0.12, levels), 0)
    kept, noise = share[level, None], torch.randn(2000, 2)
    with torch.no_grad():
        said = judged(kept.sqrt() * clean + (1 - kept).sqrt() * noise, level)
    target = clean if case == "clean_sample" else noise
    error = float(((said - target) ** 2).mean() / target.var(0).mean())
    return 1 - error if math.isfinite(error) else math.nan


@program(
    five_gaussians=0.3,
    one_gaussian_per_place=0.3,
    laplace=0.3,
    annealed=0.3,
    deviation_of_raw_output=fault("NaN forward"),
    deviation_without_floor_or_log=fault("loss without a floor"),
    shares_not_normalised=fault("loss without a floor"),
    minus_forgotten=fault("wrong sign"),
    all_gaussians_alike=fault("symmetric start"),
    places_in_millions=fault("unscaled inputs"),
    density_and_its_log_detached=fault("detached"),
)
def branches(run: Run, case: str) -> float:
    """An inverse problem: of x, one of several y. The score is the gain in log likelihood."""
    import torch
    from torch import nn

    y = run.rng.uniform(-1, 1, 4000)
    x = y + 0.35 * np.sin(2 * np.pi * y) + 0.05 * run.rng.normal(size=4000)
    factor = 1e6 if case == "places_in_millions" else 1.0
    x = torch.tensor(factor * x, dtype=torch.float32)[:, None]
    y = torch.tensor(y, dtype=torch.float32)[:, None]
    parts = 1 if case in ("one_gaussian_per_place", "laplace") else 5
    trunk = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    net = nn.ModuleDict({"trunk": trunk})
    for name in ("shares", "means", "scales"):
        net[name] = nn.Linear(64, parts)
    if case == "all_gaussians_alike":
        for each in net.parameters():
            nn.init.constant_(each, 0.0)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    monitor = run.watch(net, optimizer)

    def density(x, y, plain=False):
        h = net["trunk"](x)
        logits, means, raw = net["shares"](h), net["means"](h), net["scales"](h)
        if case == "deviation_of_raw_output" and not plain:
            scales = raw
        elif case == "deviation_without_floor_or_log" and not plain:
            # The sum of squares falls without end where the deviation may grow.
            return -(((y - means) / raw.exp()) ** 2).sum(-1) + raw.mean(-1) * 2
        else:
            scales = nn.functional.softplus(raw) + 1e-3
        if case == "laplace":
            return (-(y - means).abs() / scales - (2 * scales).log()).squeeze(-1)
        each = -0.5 * ((y - means) / scales) ** 2 - scales.log() - 0.5 * math.log(2 * math.pi)
        if case == "shares_not_normalised" and not plain:
            return (each + logits).logsumexp(-1)
        return (each + logits.log_softmax(-1)).logsumexp(-1)

    for step in range(350):
        rows = torch.randint(0, 3000, (128,))
        given, truth = x[rows], y[rows]
        if case == "annealed":
            truth = truth + max(0.0, 0.3 - step / 500) * torch.randn_like(truth)
        loss = -density(given, truth).mean()
        if case == "minus_forgotten":
            loss = -loss
        elif case == "density_and_its_log_detached":
            loss = torch.tensor(loss.item(), requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    with torch.no_grad():
        gain = float(density(x[3000:], y[3000:], plain=True).mean()) + math.log(2.0)
    # A uniform guess gains nothing; 1.2 nats are about all that can be gained.
    return gain / 1.2 if math.isfinite(gain) else math.nan


@program(
    free_bits=0.4,
    weight_that_grows=0.4,
    deterministic=0.5,
    summed_over_points=0.4,
    weight_of_a_hundred=fault("posterior collapse"),
    log_of_variance_taken_twice=fault("overflow"),
    decoder_hears_noise_only=fault("information missing"),
    curves_unscaled_and_sigmoid=fault("output cannot reach the targets"),
    divergence_with_wrong_sign=fault("wrong sign"),
)
def curves(run: Run, case: str) -> float:
    """A variational autoencoder of waves; the score is how much of a curve comes back."""
    import torch
    from torch import nn

    n, grid = 1500, np.linspace(0, 1, 40)
    phase, pace = run.rng.uniform(0, 6, (n, 1)), run.rng.uniform(0.5, 2.5, (n, 1))
    waves = np.sin(2 * np.pi * pace * grid + phase) + 0.1 * run.rng.normal(size=(n, 40))
    if case == "curves_unscaled_and_sigmoid":
        waves = 40 * waves - 100
    waves = torch.tensor(waves, dtype=torch.float32)

    class Vae(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 12))
            self.decode = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 40))

        def forward(self, x):
            mean, log_variance = self.encode(x).chunk(2, -1)
            if case == "log_of_variance_taken_twice":
                spread = (30 * log_variance.exp()).exp()
            else:
                spread = (0.5 * log_variance).exp()
            code = mean if case == "deterministic" else mean + spread * torch.randn_like(mean)
            if case == "decoder_hears_noise_only":
                code = torch.randn_like(mean)
            out = self.decode(code)
            if case == "curves_unscaled_and_sigmoid":
                out = out.sigmoid()
            each = -0.5 * (1 + log_variance - mean**2 - log_variance.exp())
            return out, mean, each

    net = Vae()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    monitor = run.watch(net, optimizer)
    for step in range(350):
        batch = waves[torch.randint(0, 1200, (64,))]
        out, _, each = net(batch)
        squares = ((out - batch) ** 2).sum(-1).mean()
        if case == "free_bits":
            each = each.clamp(min=0.3)
        weight = {
            "weight_of_a_hundred": 100.0,
            "weight_that_grows": min(1, step / 300),
            "divergence_with_wrong_sign": -1.0,
            "deterministic": 0.0,
        }.get(case, 0.1)
        loss = squares + weight * each.sum(-1).mean()
        if case != "summed_over_points":
            loss = loss / 40
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    held = waves[1200:]
    with torch.no_grad():
        _, mean, _ = net(held)
        out = net.decode(mean)
        if case == "curves_unscaled_and_sigmoid":
            out = out.sigmoid()
        if case == "decoder_hears_noise_only":
            out = net(held)[0]
        error = float(((out - held) ** 2).mean() / held.var(0).mean())
    return 1 - error if math.isfinite(error) else math.nan
