"""Graphs without a library for them: dense matrices, and lists of edges."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, score
from ...program import fault, program
from ...run import Run


@program(
    gcn=0.5,
    few_labels=0.4,
    much_dropout=0.5,
    attention=0.4,
    deep_residual=0.4,
    over_smoothed=fault("no residual"),
    sums=fault("exploding"),
    labels_of_other_nodes=fault("inputs and targets out of order"),
    decay=fault("weight decay"),
)
def communities(run: Run, case: str) -> float:
    """Which of four communities is a node in? All nodes are one batch."""
    import torch
    from torch import nn

    rng, n = run.rng, 240
    y = rng.integers(0, 4, n)
    linked = rng.random((n, n)) < np.where(y[:, None] == y, 0.09, 0.012)
    a = np.triu(linked, 1)
    a = (a | a.T | np.eye(n, dtype=bool)).astype("float32")
    degree = a.sum(1)
    norm = a if case == "sums" else a / np.sqrt(degree[:, None] * degree)
    norm, mask = torch.tensor(norm), torch.tensor(a) == 0
    features = 0.7 * np.eye(4)[y] @ rng.normal(size=(4, 16)) + 1.2 * rng.normal(size=(n, 16))
    x, labels = torch.tensor(features.astype("float32")), torch.tensor(y)
    order = rng.permutation(n)
    train = torch.tensor(order[: 24 if case == "few_labels" else 100])
    test = order[120:]
    targets = labels[torch.tensor(rng.permutation(n))] if "other_nodes" in case else labels
    deep = case in ("deep_residual", "over_smoothed", "sums")
    width = 24

    class Layer(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.lin = nn.Linear(i, o)
            self.score = nn.Linear(2 * o, 1) if case == "attention" else None

        def forward(self, h):
            h = self.lin(h)
            if self.score is None:
                return norm @ h
            left, right = self.score.weight[0].chunk(2)
            e = nn.functional.leaky_relu((h @ left)[:, None] + h @ right + self.score.bias, 0.2)
            return e.masked_fill(mask, -torch.inf).softmax(-1) @ h

    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([Layer(16, width)])
            for _ in range(10 if deep else 0):
                self.convs.append(Layer(width, width))
            self.out = Layer(width, 4)
            self.drop = nn.Dropout(0.7 if case == "much_dropout" else 0.1)

        def forward(self, h):
            for k, conv in enumerate(self.convs):
                new = torch.relu(conv(self.drop(h)))
                h = h + new if case == "deep_residual" and k else new
            return self.out(h)

    net = GCN()
    opt = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=5e-4)
    if case == "decay":
        opt = torch.optim.AdamW(net.parameters(), 1e-2, weight_decay=30.0)
    if case == "sums":
        opt = torch.optim.SGD(net.parameters(), 0.1)
    monitor = run.watch(net, opt)
    for _ in range(120):
        net.train()
        loss = nn.functional.cross_entropy(net(x)[train], targets[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        return accuracy(y[test], net(x)[torch.tensor(test)].numpy())


@program(
    sum_pool=0.5,
    energies=0.3,
    huber_cosine=0.5,
    layer_norm=0.4,
    column_against_row=fault("broadcasting"),
    raw_energies=fault("unscaled targets"),
    one_species=fault("information missing"),
    overflowing_exponential=fault("overflow", step=1),
)
def molecules(run: Run, case: str) -> float:
    """The energy of a random molecule: of its atoms, and of pairs that are bound."""
    import torch
    from torch import nn

    rng = run.rng
    own = np.array([0.0, -1.0, 0.6, 1.5, -0.4])
    pair = np.random.default_rng(5).normal(size=(5, 5))
    pair = (pair + pair.T) / 2

    def sample(n):
        kind = rng.integers(1, 5, (n, 9)) * (rng.random((n, 9)) < 0.85)
        bond = np.triu(rng.random((n, 9, 9)) < 0.25, 1)
        bond = (bond | bond.transpose(0, 2, 1)) & (kind[:, :, None] > 0) & (kind[:, None] > 0)
        each = pair[kind[:, :, None], kind[:, None]] * bond
        return kind, bond.astype("float32"), own[kind].sum(1) + 0.25 * each.sum((1, 2))

    kind, bond, y = sample(1000)
    shift, unit = (-5400.0, 27.2) if case in ("raw_energies", "energies") else (0.0, 1.0)
    y = shift + unit * y
    if case == "one_species":
        kind, bond = np.ones_like(kind), np.ones_like(bond)
    mean, deviation = (0.0, 1.0) if case == "raw_energies" else (y.mean(), y.std())
    kind, bond = torch.tensor(kind), torch.tensor(bond)
    target = torch.tensor(((y - mean) / deviation).astype("float32"))

    class Potential(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 24, padding_idx=0)
            self.message = nn.Linear(48, 24)
            self.norm = nn.LayerNorm(24) if case == "layer_norm" else nn.Identity()
            self.readout = nn.Sequential(nn.Linear(24, 24), nn.SiLU(), nn.Linear(24, 1))

        def forward(self, kind, bond):
            h = self.embed(kind)
            for _ in range(2):
                m = torch.cat((h, bond @ h / 3), -1)
                h = h + self.norm(nn.functional.silu(self.message(m)))
            if case == "overflowing_exponential":
                h = torch.exp(60 * h * h.abs())
            return (self.readout(h) * (kind > 0)[..., None]).sum(1)

    net = Potential()
    opt = torch.optim.Adam(net.parameters(), 5e-3)
    if case == "raw_energies":
        opt = torch.optim.Adam(net.parameters(), 1e-3)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 160)
    monitor = run.watch(net, opt)
    lossf = nn.SmoothL1Loss() if case == "huber_cosine" else nn.MSELoss()
    for _ in range(160):
        i = torch.randint(0, 800, (40,))
        out = net(kind[i], bond[i])
        loss = lossf(out if case == "column_against_row" else out[:, 0], target[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if case == "huber_cosine":
            plan.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        answer = net(kind[800:], bond[800:])[:, 0].double().numpy() * deviation + mean
    return score("values", y[800:], answer)
