"""Generators against discriminators."""

from __future__ import annotations

import numpy as np

from ...program import fault, program
from ...run import Run


def _distance(a, b):
    """The energy distance of two clouds of points."""

    def mean(p, q):
        return np.linalg.norm(p[:, None] - q[None], axis=-1).mean()

    return 2 * mean(a, b) - mean(a, a) - mean(b, b)


@program(
    plain=0.4,
    hinge=0.4,
    two_rates=0.4,
    wasserstein=0.3,
    discriminator_wins=fault("discriminator wins"),
    collapse=fault("generator collapses"),
    wrong_parameters=fault("not in the optimizer"),
    rate_high=fault("rate too high"),
    forgot_zero_grad=fault("gradients accumulate"),
    generator_dead=fault("dead units", layer=("generator/0", "generator/1")),
)
def gan(run: Run, case: str) -> float:
    """Points in four clusters; judged by the distance of clouds."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    rng = run.rng
    centres = np.array([[0.5, 1.0], [2.5, 1.0], [1.5, 2.0], [1.5, 0.0]])

    def real(n):
        points = centres[rng.integers(0, 4, n)] + 0.15 * rng.normal(size=(n, 2))
        return torch.tensor(points.astype("float32"))

    generator = nn.Sequential(
        nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )
    far = case == "discriminator_wins"
    act = nn.LeakyReLU(0.2)
    parts = [nn.Linear(2, 32), act, nn.Linear(32, 32), act, nn.Linear(32, 1)]
    discriminator = nn.Sequential(*parts)
    with torch.no_grad():
        if far:
            generator[4].bias -= 40
        if case == "generator_dead":
            generator[0].bias -= 60
            generator[2].bias -= 60
    rates = (2e-3, 4e-3)
    if case == "two_rates":
        rates = (2e-3, 8e-3)
    elif case == "rate_high":
        rates = (3.0, 3.0)
    elif far:
        rates = (1e-4, 2e-2)
    trained = discriminator if case == "wrong_parameters" else generator
    g_opt = torch.optim.Adam(trained.parameters(), rates[0], betas=(0.5, 0.9))
    d_opt = torch.optim.Adam(discriminator.parameters(), rates[1], betas=(0.5, 0.9))
    monitor = run.watch(generator, g_opt, group="generator")
    also = run.watch(discriminator, d_opt, group="discriminator")
    for _ in range(500):
        for _ in range(2 if far or case == "wasserstein" else 1):
            x, z = real(64), torch.randn(64, 4)
            on_real, on_fake = discriminator(x), discriminator(generator(z).detach())
            if case == "wasserstein":
                d_loss = on_fake.mean() - on_real.mean()
            elif case == "hinge":
                d_loss = F.relu(1 - on_real).mean() + F.relu(1 + on_fake).mean()
            else:
                d_loss = F.softplus(-on_real).mean() + F.softplus(on_fake).mean()
            d_opt.zero_grad()
            d_loss.backward()
            d_opt.step()
            if case == "wasserstein":
                with torch.no_grad():
                    for p in discriminator.parameters():
                        p.clamp_(-0.3, 0.3)
            also.record(loss=d_loss, group="discriminator")
        z = torch.randn(64, 4)
        if case == "collapse":
            z = torch.zeros_like(z)
        verdict = discriminator(generator(z))
        if case in ("wasserstein", "hinge"):
            g_loss = -verdict.mean()
        else:
            # The loss of the first paper: flat where the discriminator is sure.
            g_loss = -F.softplus(verdict).mean() if far else F.softplus(-verdict).mean()
        if case != "forgot_zero_grad":
            g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        monitor.record(loss=g_loss, group="generator")
    z = torch.randn(400, 4)
    with torch.no_grad():
        made = generator(0 * z if case == "collapse" else z).numpy()
    if not np.isfinite(made).all():
        return -1.0
    truth = real(400).numpy()
    nothing = _distance(np.tile(truth.mean(0), (400, 1)), truth)
    return float(max(-1.0, 1 - _distance(made, truth) / nothing))
