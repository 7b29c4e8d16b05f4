"""Embeddings: of words and of items, and distances that are learned."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score
from ...program import fault, program
from ...run import Run
from .pairs import _centroid


@program(
    triplet=0.6,
    hardest_in_batch=0.5,
    proxies=0.6,
    arc_face=0.6,
    anchor_as_positive=fault("trivial solution"),
    unnormalised_arc=fault("exploding", twin="arc_face"),
    labels_shuffled=fault("labels shuffled"),
    square_root_of_zero=fault("NaN backward", step=1),
)
def distances(run: Run, case: str) -> float:
    """Digits of one class close to each other."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt = torch.tensor(x / 8 - 1), torch.tensor(xt / 8 - 1)
    labels = torch.tensor(run.rng.permutation(y) if case == "labels_shuffled" else y)
    net = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(), nn.Linear(64, 12))
    classes = nn.Linear(12, 10, bias=False)
    both = nn.ModuleDict({"embed": net, "classes": classes})
    opt = torch.optim.Adam(both.parameters(), 3e-3)
    if case == "unnormalised_arc":
        opt = torch.optim.SGD(both.parameters(), 1.0, momentum=0.9)
    watched = both if case in ("proxies", "arc_face", "unnormalised_arc") else net
    monitor = run.watch(watched, opt)
    for _ in range(150):
        i = torch.randint(0, len(x), (60,))
        z, k = net(x[i]), labels[i]
        if case in ("triplet", "anchor_as_positive", "labels_shuffled"):
            z = F.normalize(z, dim=1)
            p, q = torch.randint(0, 60, (400,)), torch.randint(0, 60, (400,))
            r = torch.randint(0, 60, (400,))
            kept = (k[p] == k[q]) & (k[p] != k[r]) & (p != q)
            positive = z[p] if case == "anchor_as_positive" else z[q]
            near, far = ((z[p] - positive) ** 2).sum(1), ((z[p] - z[r]) ** 2).sum(1)
            loss = torch.relu(near - far + 0.5)[kept].mean()
            if case == "anchor_as_positive":
                loss = torch.relu(near - far + 1e-4)[kept].mean()
        elif case in ("hardest_in_batch", "square_root_of_zero"):
            d = ((z[:, None] - z) ** 2).sum(-1)
            d = torch.sqrt(d if case == "square_root_of_zero" else d + 1e-8)
            same = k[:, None] == k
            near = (d * same).max(1).values
            far = (d + 1e3 * same).min(1).values
            loss = F.softplus(near - far).mean()
        elif case == "proxies":
            d = torch.cdist(F.normalize(z, dim=1), F.normalize(classes.weight, dim=1))
            loss = F.cross_entropy(-4 * d**2, k)
        elif case == "arc_face":
            cos = F.linear(F.normalize(z, dim=1), F.normalize(classes.weight, dim=1))
            loss = F.cross_entropy(16 * (cos - 0.2 * F.one_hot(k, 10)), k)
        else:
            loss = F.cross_entropy(64 * (classes(z) - 0.2 * F.one_hot(k, 10)), k)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        z, zt = net(x).numpy(), net(xt).numpy()
    return _centroid(z, y, zt, yt)


@program(
    factors=0.5,
    with_biases=0.5,
    sparse_rows=0.4,
    implicit_pairs=0.3,
    factors_from_zero=fault("symmetric start"),
    stars_as_they_are=fault("rate too high"),
    same_user_for_all=fault("information missing"),
    low_rate=fault("rate too low"),
)
def films(run: Run, case: str) -> float:
    """Ratings as products of factors of users and films."""
    import torch
    from torch import nn

    rng = run.rng
    users, films, k = 150, 80, 3
    left, right = rng.normal(size=(users, k)), rng.normal(size=(films, k))
    u, f = rng.integers(0, users, 6000), rng.integers(0, films, 6000)
    liking = (left[u] * right[f]).sum(1)
    noisy = liking + 0.2 * rng.normal(size=6000)
    y = torch.tensor(noisy.astype("float32"))
    ids = np.zeros_like(u) if case == "same_user_for_all" else u
    u_t, f_t = torch.tensor(ids), torch.tensor(f)

    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            sparse = case == "sparse_rows"
            self.user = nn.Embedding(users, 8, sparse=sparse)
            self.film = nn.Embedding(films, 8, sparse=sparse)
            self.bias = nn.Embedding(films, 1) if case == "with_biases" else None
            start = 0.0 if case == "factors_from_zero" else 0.4
            for table in (self.user, self.film):
                nn.init.normal_(table.weight, 0, 1) if not start else None
                nn.init.normal_(table.weight, 0, start)

        def forward(self, u, f):
            out = (self.user(u) * self.film(f)).sum(-1)
            return out if self.bias is None else out + self.bias(f)[:, 0]

    net = Factors()
    rate = {"low_rate": 1e-6, "stars_as_they_are": 8.0}.get(case, 2e-2)
    opt = torch.optim.Adam(net.parameters(), rate)
    if case == "sparse_rows":
        opt = torch.optim.SparseAdam(list(net.parameters()), 3e-2)
    monitor = run.watch(net, opt)
    for _ in range(300):
        i = torch.randint(0, 4500, (128,))
        out = net(u_t[i], f_t[i])
        if case == "implicit_pairs":
            # Bayesian personalised ranking within the batch.
            better = (y[i] > y[i].roll(1)).float() * 2 - 1
            loss = -nn.functional.logsigmoid(better * (out - out.roll(1))).mean()
        else:
            loss = nn.functional.mse_loss(out, y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        answer = net(u_t[4500:], f_t[4500:]).numpy()
    if not np.isfinite(answer).all():
        return -1.0
    if case == "implicit_pairs":
        return float(np.corrcoef(liking[4500:], answer)[0, 1])
    return score("values", liking[4500:], answer)
