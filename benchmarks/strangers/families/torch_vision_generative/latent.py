"""A variational autoencoder, and diffusion."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score
from ...program import fault, program
from ...run import Run


@program(
    small_beta=0.25,
    annealed=0.25,
    free_bits=0.2,
    summed=0.25,
    beta_huge=fault("posterior collapse"),
    log_variance_blows=fault("NaN forward", step=31),
    decoder_saturates=fault("saturated", layer="decoder"),
    rate_high=fault("rate too high"),
    detached=fault("no_grad"),
)
def vae(run: Run, case: str) -> float:
    """Digits through eight latent numbers; judged by how well they come back."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, _, xt, _ = bundled("digits", run.seed)
    x, xt = torch.tensor(x / 16), torch.tensor(xt / 16)

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
            self.mean, self.log_var = nn.Linear(64, 8), nn.Linear(64, 8)
            self.decoder = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64))
            if case == "decoder_saturates":
                with torch.no_grad():
                    self.decoder[0].weight *= 3000
                    self.decoder[0].bias += 200

        def forward(self, x, step=0):
            if case == "detached":
                with torch.no_grad():
                    h = self.encoder(x)
                    mean, log_var = 0 * self.mean(h), 0 * self.log_var(h)
            else:
                h = self.encoder(x)
                mean, log_var = self.mean(h), self.log_var(h)
            if case == "log_variance_blows" and step >= 31:
                log_var = log_var + 400
            if not self.training:
                return self.decoder(mean), mean, log_var
            return self.decoder(mean + (log_var / 2).exp() * torch.randn_like(mean)), mean, log_var

    net = VAE()
    opt = torch.optim.Adam(net.parameters(), 5.0 if case == "rate_high" else 4e-3)
    monitor = run.watch(net, opt)
    for step in range(1, 251):
        i = torch.randint(0, len(x), (48,))
        out, mean, log_var = net(x[i], step)
        error = F.binary_cross_entropy_with_logits(out, x[i], reduction="none").sum(1).mean()
        parts = 0.5 * (log_var.exp() + mean**2 - 1 - log_var)
        if case == "free_bits":
            parts = parts.mean(0).clamp(min=0.1)[None]
        kl = parts.sum(1).mean()
        beta = {"beta_huge": 300.0, "annealed": min(1.0, step / 200)}.get(case, 0.3)
        loss = error + beta * kl
        if case != "summed":
            loss = loss / 64
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, metrics={"kl": kl, "reconstruction": error})
    net.eval()
    with torch.no_grad():
        back = net(xt)[0].sigmoid().numpy()
    return score("values", xt.numpy(), back)


def _points(rng, n):
    """Two moons."""
    angle, kind = rng.uniform(0, np.pi, n), rng.integers(0, 2, n)
    x = np.where(kind, 1 - np.cos(angle), np.cos(angle))
    y = np.where(kind, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x - 0.5, y - 0.25], 1) * 1.3
    return (points + 0.05 * rng.normal(size=points.shape)).astype("float32")


@program(
    plain=0.3,
    ema=0.3,
    predicts_data=0.3,
    cosine=0.3,
    time_unscaled=fault("unscaled inputs"),
    no_input=fault("information missing"),
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    relu_output=fault("output cannot reach the targets"),
    noise_elsewhere=fault("inputs and targets out of order"),
)
def diffusion(run: Run, case: str) -> float:
    """The noise in noisy points is told; judged by how much of it, as its explained variance."""
    import copy

    import torch
    from torch import nn

    steps = 20
    levels = torch.linspace(0.995, 0.2, steps)

    class Denoiser(nn.Module):
        def __init__(self, width=64):
            super().__init__()
            self.into = nn.Linear(10, width)
            self.middle = nn.Linear(width, width)
            self.last = nn.Linear(width, 2)

        def forward(self, x, t):
            if case == "no_input":
                x = torch.zeros_like(x)
            time = t[:, None] * (1e5 if case == "time_unscaled" else 1 / steps)
            waves = [torch.sin(time * k * torch.pi) for k in range(1, 8)]
            if case == "time_unscaled":
                waves = [time] * 7
            h = nn.functional.silu(self.into(torch.cat((x, time, *waves), 1)))
            h = nn.functional.silu(self.middle(h) + h)
            out = self.last(h)
            return out.relu() if case == "relu_output" else out

    net = Denoiser()
    average = copy.deepcopy(net)
    rates = {"low_rate": 1e-7, "high_rate": 3.0}
    opt = torch.optim.Adam(net.parameters(), rates.get(case, 4e-3))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 350)
    if case == "time_unscaled":
        opt = torch.optim.SGD(net.parameters(), 1e-2)
    data = torch.tensor(_points(run.rng, 1500))
    monitor = run.watch(net, opt)

    def noisy(x):
        t = torch.randint(0, steps, (len(x),))
        noise = torch.randn_like(x)
        a = levels[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * noise, t, noise

    for _ in range(350):
        x = data[torch.randint(0, len(data), (64,))]
        z, t, noise = noisy(x)
        wanted = x if case == "predicts_data" else noise
        if case == "noise_elsewhere":
            wanted = torch.randn_like(wanted)
        loss = nn.functional.mse_loss(net(z, t), wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if case == "cosine":
            schedule.step()
        with torch.no_grad():
            for a, b in zip(average.parameters(), net.parameters(), strict=True):
                a.lerp_(b, 0.05)
        monitor.record(loss=loss)
    x = torch.tensor(_points(np.random.default_rng(5), 1500))
    z, t, noise = noisy(x)
    chosen = average if case == "ema" else net
    with torch.no_grad():
        guess = chosen(z, t)
    wanted = x if case == "predicts_data" else noise
    return score("values", wanted.numpy(), guess.numpy())
