"""Graphs, rewards, rankings, sets and mixed tables in torch."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, bundled, score, standardised
from ..program import fault, program
from ..run import Run


@program(
    plain=0.5,
    two_hops=0.5,
    few_labels=0.3,
    deep_smoothing=fault("representations collapse"),
    shuffled=fault("labels shuffled"),
    low_rate=fault("rate too low"),
    not_normalised=fault("exploding", twin="two_hops"),
    mask_empty=fault("NaN in the data"),
)
def graph(run: Run, case: str) -> float:
    """Communities in a random graph; every step is the whole graph."""
    import torch
    from torch import nn

    rng = run.rng
    n = 200
    label = rng.integers(0, 4, n)
    same = label[:, None] == label
    edges = np.triu(rng.random((n, n)) < np.where(same, 0.12, 0.01), 1)
    a = torch.tensor((edges | edges.T) + np.eye(n), dtype=torch.float32)
    if case != "not_normalised":
        a = a / a.sum(1, keepdim=True)
    x = rng.normal(size=(n, 16)) + 0.8 * np.eye(4, 16)[label]
    x = torch.tensor(x, dtype=torch.float32)
    known = torch.tensor(rng.random(n) < (0.15 if case == "few_labels" else 0.5))
    target = torch.tensor(label)
    if case == "shuffled":
        target = target[torch.randperm(n)]

    class GCN(nn.Module):
        def __init__(self, hops):
            super().__init__()
            sizes = [16] + [24] * hops
            self.convs = nn.ModuleList(
                nn.Linear(sizes[i], sizes[i + 1], bias=case != "deep_smoothing")
                for i in range(hops)
            )
            self.out = nn.Linear(24, 4)

        def forward(self, x):
            for conv in self.convs:
                x = torch.relu(conv(a @ x))
                if case == "deep_smoothing":
                    for _ in range(30):
                        x = a @ x
            return self.out(x)

    hops = {"deep_smoothing": 3, "two_hops": 2, "not_normalised": 5}.get(case, 1)
    net = GCN(hops)
    opt = torch.optim.Adam(net.parameters(), lr=1e-6 if case == "low_rate" else 0.01)
    if case == "not_normalised":
        opt = torch.optim.SGD(net.parameters(), lr=0.05)
    monitor = run.watch(net, opt)
    for _ in range(120):
        logits = net(x)
        chosen = torch.zeros_like(known) if case == "mask_empty" else known
        loss = nn.functional.cross_entropy(logits[chosen], target[chosen])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        out = net(x)[~known]
    return accuracy(label[~known.numpy()], out.numpy())


@program(
    plain=0.5,
    baseline=0.5,
    sparse_reward=0.4,
    wrong_sign=fault("wrong sign", twin="baseline"),
    low_rate=fault("rate too low", twin="baseline"),
    detached_choice=fault("detached", twin="baseline"),
)
def policy(run: Run, case: str) -> float:
    """Policy gradients: the loss is signed, noisy and says little; rewards are recorded too."""
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 4))
    right = torch.tensor(run.rng.normal(size=(5, 4)), dtype=torch.float32)
    opt = torch.optim.Adam(net.parameters(), lr=1e-7 if case == "low_rate" else 0.02)
    monitor = run.watch(net, opt)
    for _ in range(300):
        state = torch.randn(32, 5)
        scores = net(state)
        if case == "detached_choice":
            scores = scores.detach() + 0 * net[2].bias
        chance = torch.distributions.Categorical(logits=scores)
        action = chance.sample()
        reward = (action == (state @ right).argmax(1)).float()
        if case == "sparse_reward":
            reward = reward * (torch.rand(32) < 0.5)
        gain = reward - (reward.mean() if case != "plain" else 0.25)
        loss = -(chance.log_prob(action) * gain).mean()
        if case == "wrong_sign":
            loss = -loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, metrics={"reward": reward.mean()})
    with torch.no_grad():
        state = torch.randn(500, 5)
        hit = net(state).argmax(1) == (state @ right).argmax(1)
    return float((hit.float().mean() - 0.25) / 0.75)


@program(
    plain=0.6,
    margin=0.6,
    listwise=0.5,
    pairs_swapped=fault("wrong sign"),
    broadcast=fault("broadcasting"),
    margin_never=fault("representations collapse"),
    constant_score=fault("no gradient required"),
)
def ranking(run: Run, case: str) -> float:
    """Which of two items is preferred."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    rng = run.rng
    items = torch.tensor(rng.normal(size=(400, 6)), dtype=torch.float32)
    worth = (torch.sin(items[:, 0] * 1.5) + items[:, 1] * items[:, 2]).numpy()
    truth = torch.tensor(worth)
    net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    if case == "constant_score":
        for p in net[:4].parameters():
            p.requires_grad = False
        net[4].weight.requires_grad = False
    opt = torch.optim.Adam(net.parameters(), 4e-3)
    monitor = run.watch(net, opt)
    for _ in range(220):
        i, j = torch.randint(0, 300, (2, 48))
        better = torch.sign(truth[i] - truth[j])
        gap = net(items[i])[:, 0] - net(items[j])[:, 0]
        if case in ("margin", "margin_never"):
            limit = 0.0 if case == "margin_never" else 1.0
            loss = F.relu(limit - better * gap).mean()
            if case == "margin_never":
                loss = gap.abs().mean()
        elif case == "listwise":
            scores = net(items[i])[:, 0]
            loss = F.kl_div(scores.log_softmax(0), truth[i].softmax(0), reduction="sum")
        elif case == "broadcast":
            gap = net(items[i]) - net(items[j])
            loss = (gap - (truth[i] - truth[j])).pow(2).mean()
        else:
            sign = -1 if case == "pairs_swapped" else 1
            loss = F.softplus(-better * gap).mean() * sign
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        scores = net(items[300:])[:, 0].numpy()
    i, j = run.rng.integers(0, 100, (2, 2000))
    kept = i != j
    i, j = i[kept], j[kept]
    agree = np.sign(scores[i] - scores[j]) == np.sign(worth[300:][i] - worth[300:][j])
    return float(2 * agree.mean() - 1)


@program(
    plain=0.6,
    wide_and_deep=0.6,
    imbalanced=0.3,
    weighted=0.3,
    unscaled=fault("unscaled inputs"),
    softmax_one=fault("softmax over one unit"),
    saturated=fault("saturated", layer=("deep/0", "deep/1")),
    frozen_tables=0.5,
)
def mixed_table(run: Run, case: str) -> float:
    """Numbers and categories; breast-cancer data with a made-up clinic."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, y, xt, yt = bundled("breast_cancer", run.seed)
    if case == "unscaled":
        x, xt = x * 50, xt * 50
    else:
        x, xt = standardised(x, xt)
    if case in ("imbalanced", "weighted"):
        keep = (y == 1) | (np.arange(len(y)) % 6 == 0)
        x, y = x[keep], y[keep]
    clinic = torch.tensor(np.random.default_rng(run.seed).integers(0, 5, len(x)))
    clinic_t = torch.zeros(len(xt), dtype=torch.long)
    x, xt = torch.tensor(x), torch.tensor(xt)
    y = torch.tensor(y, dtype=torch.float32)

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.clinics = nn.Embedding(5, 4)
            self.clinics.weight.requires_grad = case != "frozen_tables"
            self.deep = nn.Sequential(nn.Linear(34, 24), nn.Tanh(), nn.Linear(24, 1))
            self.wide = nn.Linear(30, 1)
            if case == "saturated":
                nn.init.normal_(self.deep[0].weight, std=100.0)

        def forward(self, x, c):
            h = self.deep(torch.cat([x, self.clinics(c)], 1))
            return h + self.wide(x) if case == "wide_and_deep" else h

    net = Table()
    opt = torch.optim.SGD(net.parameters(), lr=0.5 if case == "unscaled" else 0.1, momentum=0.9)
    weight = torch.tensor(0.2) if case == "weighted" else None
    monitor = run.watch(net, opt)
    for _ in range(150):
        i = torch.randint(0, len(x), (40,))
        out = net(x[i], clinic[i])
        if case == "softmax_one":
            loss = F.binary_cross_entropy(out.softmax(1)[:, 0].clamp(1e-6, 1 - 1e-6), y[i])
        else:
            loss = F.binary_cross_entropy_with_logits(out[:, 0], y[i], pos_weight=weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        out = net(xt, clinic_t)
        if case == "softmax_one":
            out = out.softmax(1) - 0.5
    return accuracy(yt, out.numpy())


@program(
    plain=0.6,
    attention_pool=0.6,
    sum_pool=0.5,
    inputs_rolled=fault("inputs and targets out of order"),
    output_relu=fault("output cannot reach the targets"),
    no_activation=fault("no non-linearity"),
    overfit=fault("overfits"),
)
def sets(run: Run, case: str) -> float:
    """The spread of a set of points, whatever their order."""
    import torch
    from torch import nn

    rng = run.rng
    n = 900
    wide = rng.uniform(0.3, 2, (n, 1, 1))
    points = torch.tensor(rng.normal(size=(n, 8, 2)) * wide, dtype=torch.float32)
    y = torch.tensor(wide[:, 0], dtype=torch.float32) * 2 - 2.3
    if case == "output_relu":
        y = y - 4
    xt, yt, x, y = points[:200], y[:200], points[200:], y[200:]
    if case == "overfit":
        x, y = x[:12], y[:12]
    if case == "inputs_rolled":
        x = x.roll(1, 0)
    act = nn.Identity() if case == "no_activation" else nn.ReLU()
    width = 128 if case == "overfit" else 32
    each = nn.Sequential(nn.Linear(2, width), act, nn.Linear(width, width), act)
    look = nn.Linear(width, 1)
    out = nn.Linear(width, 1)
    model = nn.ModuleDict({"each": each, "look": look, "out": out})
    opt = torch.optim.Adam(model.parameters(), 4e-3)
    monitor = run.watch(model, opt)

    def answer(x):
        h = each(x)
        if case == "attention_pool":
            h = (h * look(h).softmax(1)).sum(1)
        else:
            h = h.sum(1) if case == "sum_pool" else h.mean(1)
        value = out(h)
        return torch.relu(value) if case == "output_relu" else value

    steps = 400 if case == "overfit" else 180
    for step in range(1, steps + 1):
        i = torch.randint(0, len(x), (min(32, len(x)),))
        loss = nn.functional.mse_loss(answer(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, epoch=1 + step // 20)
        if step % 20 == 0:
            with torch.no_grad():
                monitor.record(metrics={"val_loss": nn.functional.mse_loss(answer(xt), yt)})
    with torch.no_grad():
        return score("values", yt.numpy(), answer(xt).numpy())
