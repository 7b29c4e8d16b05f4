"""Two views of one sample: contrast, a slow teacher, redundancy; judged by nearest neighbours."""

from __future__ import annotations

import numpy as np

from ...program import fault, program
from ...run import Run


def _centroid(z, y, zt, yt):
    """The share of right classes by the nearest mean of classes, above chance."""
    if not (np.isfinite(z).all() and np.isfinite(zt).all()):
        return -1.0
    mean = z.mean(0)
    z, zt = (v - mean for v in (z, zt))
    if z.std() < 1e-3:
        return 0.0
    centres = np.stack([z[y == k].mean(0) for k in range(10)])
    right = (((zt[:, None] - centres) ** 2).sum(-1).argmin(1) == yt).mean()
    return float((right - 0.1) / 0.9)


@program(
    simclr=0.2,
    large_temperature=0.2,
    byol=0.2,
    barlow=0.2,
    vicreg=0.2,
    no_teacher=fault("representations collapse", twin="byol"),
    only_alike=fault("representations collapse", twin="vicreg"),
    huge_temperature=fault("temperature"),
    rate_of_3=fault("rate too high"),
)
def views(run: Run, case: str) -> float:
    """Things in two lights, without their labels; 0 is as good as at the start."""
    import copy
    from itertools import pairwise

    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    rng, turn = run.rng, np.random.default_rng(2)
    centres, mix = turn.normal(size=(10, 6)), np.linalg.qr(turn.normal(size=(64, 64)))[0]
    y = rng.integers(0, 10, 2000)
    content = torch.tensor((centres[y] + 0.25 * rng.normal(size=(2000, 6))).astype("float32"))
    rotation = torch.tensor(mix.astype("float32"))

    def render(content):
        """The same thing in another light, which is most of what is seen."""
        style = 3 * torch.randn(len(content), 12)
        noise = 0.1 * torch.randn(len(content), 46)
        return torch.cat((content, style, noise), 1) @ rotation

    def mlp(*sizes):
        parts = []
        for a, b in pairwise(sizes[:-1]):
            parts += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
        return nn.Sequential(*parts, nn.Linear(sizes[-2], sizes[-1]))

    class Learner(nn.Module):
        def __init__(self):
            super().__init__()
            plain = case in ("no_teacher", "only_alike")
            first = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
            self.backbone = first if plain else mlp(64, 96, 32)
            self.projector = nn.Linear(32, 32) if plain else mlp(32, 64, 32)
            self.predictor = mlp(32, 48, 32)

        def forward(self, x):
            return self.projector(self.backbone(x))

    net = Learner()

    def quality(net):
        net.eval()
        with torch.no_grad():
            z = net.backbone(render(content)).numpy()
        net.train()
        return _centroid(z[:1500], y[:1500], z[1500:], y[1500:])

    before = quality(net)
    teacher = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), 3.0 if case == "rate_of_3" else 3e-3)
    monitor = run.watch(net, opt)
    t = {"large_temperature": 1.0, "huge_temperature": 1e9}.get(case, 0.2)
    n = 96
    for _ in range(160):
        batch = content[torch.randint(0, 1500, (n,))]
        a, b = net(render(batch)), net(render(batch))
        if case in ("byol", "no_teacher"):
            source = teacher if case == "byol" else net
            with torch.set_grad_enabled(case == "no_teacher"):
                c, d = source(render(batch)), source(render(batch))
            if case == "byol":
                a, b = net.predictor(a), net.predictor(b)
                loss = 2 - F.cosine_similarity(a, d).mean() - F.cosine_similarity(b, c).mean()
            else:
                loss = ((a - d) ** 2).mean() + ((b - c) ** 2).mean()
        elif case == "barlow":
            a, b = ((v - v.mean(0)) / (v.std(0) + 1e-4) for v in (a, b))
            c = a.t() @ b / n
            off = c - torch.diag(torch.diagonal(c))
            loss = ((torch.diagonal(c) - 1) ** 2).sum() + 0.02 * (off**2).sum()
        elif case in ("vicreg", "only_alike"):
            loss = 25 * F.mse_loss(a, b)
            if case == "vicreg":
                for v in (a, b):
                    v = v - v.mean(0)
                    c = v.t() @ v / (n - 1)
                    spread = torch.relu(1 - torch.sqrt(v.var(0) + 1e-4)).mean()
                    loss = (
                        loss + 25 * spread + (c - torch.diag(torch.diagonal(c))).pow(2).sum() / 32
                    )
        else:
            z = F.normalize(torch.cat((a, b)), dim=1)
            logits = z @ z.t() / t
            logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
            wanted = torch.cat((torch.arange(n, 2 * n), torch.arange(n)))
            loss = F.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), net.parameters(), strict=True):
                old.lerp_(new, 0.05)
    after = quality(net)
    return (after - before) / (1 - before)
