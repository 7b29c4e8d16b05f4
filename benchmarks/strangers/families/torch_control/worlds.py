"""Models of a pendulum: what comes next, and what it will cost."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


@program(
    differences=0.4,
    recurrent=0.4,
    ensemble=0.4,
    latent_with_cost=0.4,
    imagined_steps=0.4,
    latent_alone=fault("representations collapse", twin="latent_with_cost"),
    degrees=fault("unscaled inputs"),
    encoder_in_no_grad=fault("no_grad", twin="latent_with_cost"),
    spike_of_the_log=fault("spike", step=240),
    sensor_goes_dark=fault("inputs lost", step=81),
)
def pendulum(run: Run, case: str) -> float:
    """Five steps ahead, judged by the change of height."""
    import torch
    from torch import nn

    rng = run.rng
    n, length = 300, 12
    angle, speed = rng.uniform(-3, 3, n), rng.uniform(-2, 2, n)
    rows = []
    for _ in range(length):
        push = rng.uniform(-1, 1, n)
        rows.append(np.stack([np.sin(angle), np.cos(angle), speed / 3, push], 1))
        speed = np.clip(speed + 0.2 * (5 * np.sin(angle) + 2 * push), -6, 6)
        angle = angle + 0.2 * speed
    data = np.stack(rows, 1).astype("float32")
    if case == "degrees":
        data[..., :2] = 5000 + 360 * data[..., :2]
    path = torch.tensor(data)
    latent = case in ("latent_with_cost", "latent_alone", "encoder_in_no_grad")

    class World(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(3, 32), nn.ELU(), nn.Linear(32, 12))
            size = 12 if latent else 3
            self.heads = nn.ModuleList(
                nn.Sequential(nn.Linear(size + 1, 64), nn.ELU(), nn.Linear(64, size))
                for _ in range(3 if case == "ensemble" else 1)
            )
            self.cell = nn.GRUCell(4, 48) if case == "recurrent" else None
            self.out = nn.Linear(48, 3) if case == "recurrent" else None
            self.cost = nn.Linear(12, 3) if latent else None

        def encode(self, x):
            if not latent:
                return x
            with torch.set_grad_enabled(case != "encoder_in_no_grad" and torch.is_grad_enabled()):
                return self.encoder(x)

        def step(self, z, push, h=None):
            joined = torch.cat((z, push), -1)
            if self.cell is not None:
                h = self.cell(joined, h)
                return z + self.out(h), h
            return z + torch.stack([head(joined) for head in self.heads]).mean(0), h

    net = World()
    if case == "encoder_in_no_grad":
        nn.init.normal_(net.encoder[2].weight, 0, 1e-3)
    opt = torch.optim.Adam(net.parameters(), 6e-3)
    if case in ("degrees", "spike_of_the_log"):
        opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    monitor = run.watch(net, opt)

    def ahead(piece, k):
        z, h, made = net.encode(piece[:, 0, :3]), None, []
        for j in range(k):
            z, h = net.step(z, piece[:, j, 3:], h)
            made.append(z)
        return torch.stack(made, 1)

    for step in range(1, 251):
        i = torch.randint(0, 220, (32,))
        start = int(torch.randint(0, length - 6, ()))
        piece = path[i, start : start + 6]
        if case == "sensor_goes_dark" and step >= 81:
            piece = torch.zeros_like(piece)
        elif case == "spike_of_the_log" and step == 240:
            piece = piece * 3000
        made = ahead(piece, 5 if case in ("recurrent", "imagined_steps") or latent else 1)
        wanted = piece[:, 1 : 1 + made.shape[1], :3]
        if latent:
            with torch.set_grad_enabled(case == "latent_alone"):
                later = net.encode(wanted)
            loss = ((made - later) ** 2).mean()
            if case != "latent_alone":
                loss = loss + ((net.cost(made) - wanted) ** 2).mean()
        else:
            loss = ((made - wanted) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        piece = path[220:, 3:9]
        last = ahead(piece, 5)[:, -1]
        last = net.cost(last) if latent else last
    return score("values", piece[:, 5, 1].numpy(), last[:, 1].numpy())
