"""What lies near what: contrastive and triplet losses, words beside words, a graph."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run


def nearest(train, truth, test, held) -> float:
    """How often the nearest neighbour is of the same class."""
    train, test = (np.asarray(v, "float64") for v in (train, test))
    if not (np.isfinite(train).all() and np.isfinite(test).all()):
        return -1.0
    train, test = (v + 1e-9 * np.random.default_rng(0).normal(size=v.shape) for v in (train, test))
    near = ((test[:, None] - train[None]) ** 2).sum(-1).argmin(1)
    right, chance = np.mean(truth[near] == held), 1 / (truth.max() + 1)
    return float((right - chance) / (1 - chance))


@program(
    contrastive=0.6,
    warm=0.6,
    triplet=0.6,
    pairs_with_margin=0.6,
    positives_only=fault("representations collapse"),
    one_side_detached_twice=fault("detached"),
    positives_at_random=fault("inputs and targets out of order"),
    cold=fault("temperature"),
    margin_never_reached=fault("loss cancels", twin="triplet"),
    rate_of_fifty=fault("rate too high"),
)
def near(run: Run, case: str) -> float:
    """Two views of a digit belong together."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, y, xt, yt = bundled("digits", run.seed)
    images = torch.tensor(x / 16)
    labels = torch.tensor(y)
    net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    rate = 50.0 if case == "rate_of_fifty" else 2e-3
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    temperature = {"warm": 0.5, "cold": 1e-4}.get(case, 0.1)
    monitor = run.watch(net, optimizer)

    def view(v):
        return v + 0.15 * torch.randn_like(v)

    for _ in range(150):
        rows = torch.randint(0, len(images), (64,))
        if case in ("triplet", "margin_never_reached", "pairs_with_margin"):
            other = torch.randint(0, len(images), (64,))
            same = torch.tensor(
                [
                    int(torch.nonzero(labels == k)[int(torch.randint(0, 100, ()))])
                    for k in labels[rows]
                ]
            )
            a, p, n = (
                functional.normalize(net(view(images[r])), dim=1) for r in (rows, same, other)
            )
            if case == "pairs_with_margin":
                apart = (labels[rows] != labels[other]).float()
                distance = (a - n).norm(dim=1)
                loss = ((a - p).square().sum(1) + apart * functional.relu(1 - distance) ** 2).mean()
            else:
                margin = -5.0 if case == "margin_never_reached" else 0.4
                apart = (a - p).square().sum(1) - (a - n).square().sum(1)
                loss = functional.relu(apart + margin).mean()
        else:
            other = torch.randint(0, len(images), (64,)) if case == "positives_at_random" else rows
            a, b = (functional.normalize(net(view(images[r])), dim=1) for r in (rows, other))
            if case == "one_side_detached_twice":
                a, b = a.detach(), b.detach() + 0 * sum(p.sum() for p in net.parameters())
            if case == "positives_only":
                loss = (a - b).square().sum(1).mean()
            else:
                loss = functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        train, test = net(images).numpy(), net(torch.tensor(xt / 16)).numpy()
    return nearest(train, y, test, yt)


@program(
    negatives=0.4,
    sparse=0.4,
    contexts_of_other_words=fault("inputs and targets out of order"),
    rate_of_1e_6=fault("rate too low"),
)
def words(run: Run, case: str) -> float:
    """Word vectors by negative sampling, of a text about five topics."""
    import torch
    from torch import nn
    from torch.nn import functional

    rng, vocabulary, topics = run.rng, 200, 5
    topic = rng.integers(0, topics, 6000)
    text = topic[:, None] * 40 + rng.integers(0, 40, (6000, 6))
    center, context = torch.tensor(text[:, 0]), torch.tensor(text[:, 1])
    if case == "contexts_of_other_words":
        context = context[torch.randperm(len(context))]

    class Vectors(nn.Module):
        def __init__(self):
            super().__init__()
            self.inward = nn.Embedding(vocabulary, 16, sparse=case == "sparse")
            self.outward = nn.Embedding(vocabulary, 16, sparse=case == "sparse")
            nn.init.normal_(self.inward.weight, std=0.1)
            nn.init.normal_(self.outward.weight, std=0.1)

        def forward(self, c, o):
            return (self.inward(c)[:, None] * self.outward(o)).sum(-1)

    net = Vectors()
    if case == "sparse":
        optimizer = torch.optim.SparseAdam(list(net.parameters()), lr=0.02)
    else:
        rate = 1e-6 if case == "rate_of_1e_6" else 0.02
        optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    monitor = run.watch(net, optimizer)
    for _ in range(200):
        rows = torch.randint(0, len(center), (128,))
        others = torch.cat([context[rows, None], torch.randint(0, vocabulary, (128, 5))], 1)
        score = net(center[rows], others)
        truth = torch.zeros_like(score)
        truth[:, 0] = 1
        loss = functional.binary_cross_entropy_with_logits(score, truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    vectors = functional.normalize(net.inward.weight.detach(), dim=1).numpy()
    of = np.arange(vocabulary) // 40
    return nearest(vectors[::2], of[::2], vectors[1::2], of[1::2])


@program(
    full_batch=0.4,
    attended=0.4,
    sums_of_neighbours_deep=fault("exploding"),
    twenty_means=fault("no residual"),
    nodes_in_another_order=fault("inputs and targets out of order"),
)
def graph(run: Run, case: str) -> float:
    """Who is of which group, of 300 people and their friendships: every step sees all."""
    import torch
    from torch import nn
    from torch.nn import functional

    rng, n = run.rng, 300
    group = rng.integers(0, 3, n)
    same = group[:, None] == group
    ties = np.triu(rng.random((n, n)) < np.where(same, 0.12, 0.02), 1)
    ties = torch.tensor((ties | ties.T) + np.eye(n), dtype=torch.float32)
    x = rng.normal(size=(n, 12)) + 0.8 * np.eye(3)[group] @ rng.normal(size=(3, 12))
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(group)
    if case == "nodes_in_another_order":
        x, ties = x[torch.randperm(n)], ties[torch.randperm(n)][:, torch.randperm(n)]
    share = ties / ties.sum(1, keepdim=True)
    if case == "sums_of_neighbours_deep":
        share = ties
    train = torch.rand(n) < 0.5
    depth = {"twenty_means": 20, "sums_of_neighbours_deep": 8}.get(case, 2)

    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = [12] + [24] * depth
            self.steps = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
            self.score = nn.Linear(24, 1)
            self.out = nn.Linear(24, 3)

        def forward(self, h):
            for each in self.steps:
                h = each(h)
                if case == "attended":
                    logit = self.score(h) + self.score(h).T
                    mix = logit.masked_fill(ties == 0, -1e9).softmax(1)
                    h = functional.elu(mix @ h)
                else:
                    h = functional.relu(share @ h)
            return self.out(h)

    net = Graph()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    monitor = run.watch(net, optimizer)
    for _ in range(100):
        loss = functional.cross_entropy(net(x)[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(y[~train].numpy(), net(x)[~train].numpy())
