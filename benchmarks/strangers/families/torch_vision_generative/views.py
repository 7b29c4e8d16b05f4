"""Representations from two views of each digit."""

from __future__ import annotations

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run


@program(
    simclr=0.4,
    barlow=0.3,
    variance=0.3,
    cold=0.3,
    no_negatives=fault("representations collapse"),
    views_of_others=fault("inputs and targets out of order"),
    temperature_huge=fault("temperature"),
    temperature_tiny=fault("temperature"),
    decay=fault("weight decay"),
    saturated=fault("saturated", layer="encoder"),
)
def contrast(run: Run, case: str) -> float:
    """Judged by the nearest class mean of what the encoder says."""
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt = (torch.tensor(v / 16 - 0.3) for v in (x, xt))
    # Views differ so much that an encoder which learned nothing is of no use.
    nuisance = 0.7 * torch.tensor(np.random.default_rng(6).normal(size=(5, 64)).astype("float32"))

    def view(v):
        return v + torch.randn(len(v), 5) @ nuisance + 0.05 * torch.randn_like(v)

    act = nn.Tanh() if case == "saturated" else nn.ReLU()
    encoder = nn.Sequential(nn.Linear(64, 96), act, nn.Linear(96, 32))
    if case == "saturated":
        with torch.no_grad():
            encoder[0].weight *= 2000
    projector = nn.Sequential(nn.ReLU(), nn.Linear(32, 24))
    net = nn.ModuleDict({"encoder": encoder, "projector": projector})
    opt = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=150.0 if case == "decay" else 1e-4)
    warmth = {"temperature_huge": 1e5, "temperature_tiny": 1e-5, "cold": 0.1}.get(case, 0.3)
    monitor = run.watch(net, opt)
    for _ in range(400):
        v = x[torch.randint(0, len(x), (96,))]
        other = v[torch.randperm(96)] if case == "views_of_others" else v
        a, b = (projector(encoder(view(w))) for w in (v, other))
        if case == "barlow":
            a, b = ((z - z.mean(0)) / (z.std(0) + 1e-4) for z in (a, b))
            c = a.T @ b / len(a)
            off = c - torch.diag(c.diagonal())
            loss = (1 - c.diagonal()).pow(2).sum() + 0.05 * off.pow(2).sum()
        elif case == "variance":
            spread = sum(torch.relu(1 - z.std(0)).mean() for z in (a, b))
            c = torch.cov(a.T)
            off = (c - torch.diag(c.diagonal())).pow(2).sum() / 24
            loss = 5 * (a - b).pow(2).mean() + 5 * spread + off
        elif case == "no_negatives":
            loss = (a - b).pow(2).mean()
        else:
            a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
            loss = F.cross_entropy(a @ b.T / warmth, torch.arange(96))
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        seen, asked = encoder(view(x)), encoder(view(xt))
    if not torch.isfinite(asked).all():
        return -1.0
    scale = seen.std() + 1e-12
    means = torch.stack([seen[torch.tensor(y) == k].mean(0) for k in range(10)])
    return accuracy(yt, -torch.cdist(asked / scale, means / scale).numpy())
