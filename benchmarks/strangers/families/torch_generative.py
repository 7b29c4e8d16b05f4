"""Adversarial, variational and contrastive training in torch."""

from __future__ import annotations

import math

import numpy as np

from ..data import made
from ..program import fault, program
from ..run import Run


@program(
    plain=0.5,
    non_saturating_sgd=0.4,
    wasserstein=0.4,
    two_critic_steps=0.5,
    critic_wins=fault("discriminator wins"),
    detached_fake=fault("detached", layer="generator"),
    generator_rate=fault("rate too high"),
    constant_noise=fault("generator collapses"),
)
def gan(run: Run, case: str) -> float:
    """Two small networks; the generator is to imitate a cloud of points."""
    import torch
    from torch import nn

    centre = np.array([7.0, -7.0]) if case == "critic_wins" else np.array([1.0, -1.0])
    real = torch.tensor((centre + 0.5 * run.rng.normal(size=(2000, 2))).astype("float32"))
    gen = nn.Sequential(nn.Linear(4, 24), nn.LeakyReLU(0.2), nn.Linear(24, 2))
    critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    g_rate = {"generator_rate": 3.0}.get(case, 5e-3)
    d_rate = {"critic_wins": 0.1, "wasserstein": 1e-2}.get(case, 5e-3)
    if case == "non_saturating_sgd":
        opt_g = torch.optim.SGD(gen.parameters(), lr=0.05)
        opt_d = torch.optim.SGD(critic.parameters(), lr=0.05)
    else:
        opt_g = torch.optim.Adam(gen.parameters(), lr=g_rate, betas=(0.5, 0.99))
        opt_d = torch.optim.Adam(critic.parameters(), lr=d_rate, betas=(0.5, 0.99))
    monitor = run.watch(gen, opt_g, group="generator")
    run.watch(critic, opt_d, group="critic")
    critic_steps = {"two_critic_steps": 2, "wasserstein": 3, "critic_wins": 5}.get(case, 1)
    bce = nn.functional.binary_cross_entropy_with_logits
    for _ in range(300):
        z = torch.zeros(48, 4) if case == "constant_noise" else torch.randn(48, 4)
        for _ in range(critic_steps):
            fake = gen(z).detach()
            some = real[torch.randint(0, len(real), (48,))]
            if case == "wasserstein":
                d_loss = critic(fake).mean() - critic(some).mean()
                between = (0.5 * some + 0.5 * fake).requires_grad_()
                (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
                d_loss = d_loss + (slope.norm(dim=1) - 1).pow(2).mean()
            else:
                d_loss = bce(critic(some), torch.ones(48, 1)) + bce(
                    critic(fake), torch.zeros(48, 1)
                )
            opt_d.zero_grad()
            d_loss.backward()
            opt_d.step()
        monitor.record(loss=d_loss, group="critic")
        out = gen(z)
        if case == "detached_fake":
            out = out.detach()
        judged = critic(out)
        if case == "wasserstein":
            g_loss = -judged.mean()
        elif case == "critic_wins":
            g_loss = torch.log(1 - torch.sigmoid(judged)).mean()
        else:
            g_loss = bce(judged, torch.ones(48, 1))
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        monitor.record(loss=g_loss, group="generator")
    with torch.no_grad():
        made_up = gen(torch.randn(1000, 4)).numpy()
    if case == "constant_noise":
        made_up = gen(torch.zeros(1000, 4)).detach().numpy()
    if not np.isfinite(made_up).all():
        return -1.0
    off = np.abs(made_up.mean(0) - centre).max() + np.abs(made_up.std(0) - 0.5).max()
    return float(max(-1.0, 1 - off / 1.3))


@program(
    plain=0.35,
    gaussian=0.35,
    warm_beta=0.35,
    posterior_collapse=fault("posterior collapse"),
    kl_sign=fault("wrong sign"),
    high_rate=fault("rate too high"),
    nan_log=fault("NaN forward", step=61),
)
def vae(run: Run, case: str) -> float:
    """A variational autoencoder of digits; scored by reconstruction."""
    import torch
    from torch import nn

    data = made("digit_pixels", run.seed, 700)
    x = torch.tensor(data.x)

    class VAE(nn.Module):
        def __init__(self, latent=6):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
            self.mu, self.logvar = nn.Linear(48, latent), nn.Linear(48, latent)
            self.decoder = nn.Sequential(nn.Linear(latent, 48), nn.ReLU(), nn.Linear(48, 64))

        def forward(self, x):
            h = self.encoder(x)
            mu, logvar = self.mu(h), self.logvar(h)
            z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
            return self.decoder(z), mu, logvar

    model = VAE()
    opt = torch.optim.Adam(model.parameters(), lr=2.0 if case == "high_rate" else 5e-3)
    monitor = run.watch(model, opt)
    for step in range(240):
        batch = x[torch.randint(0, len(x), (50,))]
        out, mu, logvar = model(batch)
        if case == "gaussian":
            rec = 10 * (torch.sigmoid(out) - batch).pow(2).sum(1).mean()
        else:
            rec = nn.functional.binary_cross_entropy_with_logits(out, batch, reduction="none")
            rec = rec.sum(1).mean()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        beta = {"posterior_collapse": 40.0, "kl_sign": -1.0}.get(case, 0.5)
        if case == "warm_beta":
            beta = min(1.0, step / 150) * 0.5
        loss = rec + beta * kl
        if case == "nan_log" and step == 60:
            loss = loss + torch.sqrt(mu.min() - 100)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, metrics={"kl": kl, "reconstruction": rec})
    with torch.no_grad():
        held = torch.tensor(data.judged_x)
        out = torch.sigmoid(model.decoder(model.mu(model.encoder(held)))).numpy()
    if not np.isfinite(out).all():
        return -1.0
    spread = ((data.truth - data.truth.mean(0)) ** 2).mean()
    return float(max(-1.0, 1 - ((out - data.truth) ** 2).mean() / spread))


@program(
    plain=0.45,
    large_batch=0.45,
    triplet=0.35,
    no_negatives=fault("representations collapse"),
    hot=fault("temperature"),
    same_view=fault("representations collapse"),
    low_rate=fault("rate too low"),
)
def contrastive(run: Run, case: str) -> float:
    """Two noisy views of a digit belong together; scored by the nearest neighbour's class."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    data = made("digits", run.seed, 700)
    x = torch.tensor(data.x)
    # Irrelevant directions that are larger than the digits hide them at first.
    hide = torch.randn(64, 64)

    def see(x, noise):
        return torch.cat([x, noise @ hide * 0.6], 1)

    net = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 24))
    opt = torch.optim.Adam(net.parameters(), lr=1e-7 if case == "low_rate" else 2e-3)
    monitor = run.watch(net, opt)
    n = 128 if case == "large_batch" else 64
    for _ in range(150):
        i = torch.randint(0, len(x), (n,))
        x1 = x[i] + 0.3 * torch.randn(n, 64)
        x2 = x[i] + 0.3 * torch.randn(n, 64)
        z1 = F.normalize(net(see(x1, torch.randn(n, 64))), dim=1)
        z2 = F.normalize(net(see(x2, torch.randn(n, 64))), dim=1)
        if case in ("no_negatives", "same_view"):
            other = z2 if case == "no_negatives" else F.normalize(net(see(x2 * 0, x2 * 0)), dim=1)
            loss = (z1 - other).pow(2).sum(1).mean()
        elif case == "triplet":
            apart = (z1 - z2.roll(1, 0)).norm(dim=1)
            loss = F.relu((z1 - z2).norm(dim=1) - apart + 0.8).mean()
        else:
            t = 1e4 if case == "hot" else 0.2
            loss = F.cross_entropy(z1 @ z2.T / t, torch.arange(n))
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        a = F.normalize(net(see(x[:500], torch.randn(500, 64))), dim=1)
        held = torch.tensor(data.judged_x)
        b = F.normalize(net(see(held, torch.randn(len(held), 64))), dim=1)
        nearest = (b @ a.T).argmax(1).numpy()
    right = np.mean(data.y[:500][nearest] == data.truth)
    return float((right - 0.1) / 0.9)


@program(
    plain=0.4,
    sinusoidal=0.4,
    flipped_target=fault("inputs and targets out of order"),
    decay=fault("weight decay"),
    low_rate=fault("rate too low"),
)
def diffusion(run: Run, case: str) -> float:
    """Predicts the noise that was added to points on a ring; a loss with a high floor."""
    import torch
    from torch import nn

    rng = run.rng
    angle = rng.uniform(0, 2 * math.pi, 3000)
    ring = torch.tensor(np.stack([np.cos(angle), np.sin(angle)], 1) * 1.5, dtype=torch.float32)
    betas = torch.linspace(0.02, 0.25, 20)
    kept = torch.cumprod(1 - betas, 0)
    width = 8 if case == "sinusoidal" else 1
    net = nn.Sequential(nn.Linear(2 + width, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(),
                        nn.Linear(64, 2))  # fmt: skip
    rate = 1e-6 if case == "low_rate" else 4e-3
    opt = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=200.0 if case == "decay" else 0)
    monitor = run.watch(net, opt)

    def noisy(x):
        t = torch.randint(0, 20, (len(x),))
        noise = torch.randn_like(x)
        a = kept[t][:, None]
        time = t[:, None] / 20.0
        if case == "sinusoidal":
            time = torch.sin(time * torch.arange(1, 9) * 1.5)
        return torch.cat([a.sqrt() * x + (1 - a).sqrt() * noise, time], 1), noise

    for _ in range(250):
        inputs, noise = noisy(ring[torch.randint(0, 3000, (64,))])
        if case == "flipped_target":
            noise = noise[torch.randperm(64)]
        loss = nn.functional.mse_loss(net(inputs), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        inputs, noise = noisy(ring)
        return float(1 - (net(inputs) - noise).pow(2).mean())
