"""What is alike lies near: two views of a thing, and what people like."""

from __future__ import annotations

from ...program import fault, program
from ...run import Run


@program(
    two_views=0.5,
    variance_and_covariance=0.5,
    momentum_encoder=0.4,
    predictor_and_stop=0.4,
    temperature_of_a_thousand=0.5,
    same_view_twice=fault("trivial solution"),
    itself_is_not_left_out=fault("trivial solution"),
    invariance_only=fault("representations collapse"),
    views_of_different_things=fault("inputs and targets out of order"),
    not_normalised_and_cold=fault("temperature"),
)
def signals(run: Run, case: str) -> float:
    """Signals of six sources in loud rooms; the score is of the nearest neighbours' sources."""
    import copy

    import torch
    from torch import nn
    from torch.nn import functional

    sources, n = 6, 1500
    mixing = torch.tensor(run.rng.normal(size=(16, 64)), dtype=torch.float32) / 4
    source = torch.tensor(run.rng.integers(0, sources, n))
    centres = torch.tensor(2.0 * run.rng.normal(size=(sources, 8)), dtype=torch.float32)
    clean = centres[source] + 0.4 * torch.randn(n, 8)

    def view(rows):
        room = 6 * torch.randn(len(rows), 8)
        return torch.cat([clean[rows], room], 1) @ mixing

    encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(),
                            nn.Linear(96, 16))  # fmt: skip
    net = nn.ModuleDict({"encoder": encoder, "predictor": nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))})  # fmt: skip
    if case not in ("momentum_encoder", "predictor_and_stop"):
        del net["predictor"]
    slow = copy.deepcopy(encoder).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    monitor = run.watch(net, optimizer)
    named = {"temperature_of_a_thousand": 1000.0, "not_normalised_and_cold": 1e-4}
    temperature = named.get(case, 0.2)

    def contrast(a, b):
        both = torch.cat([a, b])
        if case != "not_normalised_and_cold":
            both = functional.normalize(both, dim=1)
        likeness = both @ both.T / temperature
        size = len(a)
        if case == "itself_is_not_left_out":
            return functional.cross_entropy(likeness, torch.arange(2 * size))
        likeness = likeness.masked_fill(torch.eye(2 * size, dtype=torch.bool), -1e9)
        return functional.cross_entropy(likeness, torch.arange(2 * size).roll(size))

    def spread(a, b):
        loss = 25 * functional.mse_loss(a, b)
        if case == "invariance_only":
            return loss
        for each in (a, b):
            loss = loss + 25 * (1 - (each.var(0) + 1e-4).sqrt()).relu().mean()
            each = each - each.mean(0)
            shared = (each.T @ each / len(each)).fill_diagonal_(0)
            loss = loss + (shared**2).sum() / 16
        return loss

    for _ in range(300):
        rows = torch.randint(0, n, (96,))
        one, two = view(rows), view(rows)
        if case == "same_view_twice":
            two = one
        elif case == "views_of_different_things":
            two = view(torch.randint(0, n, (96,)))
        a, b = encoder(one), encoder(two)
        if case in ("variance_and_covariance", "invariance_only"):
            loss = spread(a, b)
        elif case in ("momentum_encoder", "predictor_and_stop"):
            if case == "momentum_encoder":
                with torch.no_grad():
                    a_, b_ = slow(one), slow(two)
            else:
                a_, b_ = a.detach(), b.detach()
            p, q = net["predictor"](a), net["predictor"](b)
            loss = -functional.cosine_similarity(p, b_).mean()
            loss = 2 + loss - functional.cosine_similarity(q, a_).mean()
        else:
            loss = contrast(a, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for old, new in zip(slow.parameters(), encoder.parameters(), strict=True):
            old.data.lerp_(new.data, 0.02)
        monitor.record(loss=loss.item())
    with torch.no_grad():
        codes = functional.normalize(encoder(view(torch.arange(n))), dim=1)
        near = codes[1000:] @ codes[:1000].T
    votes = source[:1000][near.topk(9).indices]
    told = torch.stack([(votes == each).sum(1) for each in range(sources)], 1).argmax(1)
    right = float((told == source[1000:]).float().mean())
    return (right - 1 / sources) / (1 - 1 / sources)


@program(
    pairwise=0.4,
    logistic=0.4,
    with_biases=0.4,
    stars=0.3,
    liked_beside_itself=fault("loss cancels"),
    other_way_round=fault("wrong sign"),
    all_factors_zero=fault("symmetric start"),
    decay_of_all_factors=fault("weight decay"),
    users_shuffled=fault("inputs and targets out of order"),
)
def songs(run: Run, case: str) -> float:
    """Who likes which song, by factors; the score is of pairs that were not shown."""
    import torch
    from torch import nn
    from torch.nn import functional

    people, many = 200, 120
    taste = run.rng.normal(size=(people, 4)) @ run.rng.normal(size=(4, many))
    taste = torch.tensor(taste / 2, dtype=torch.float32)
    shown = torch.tensor(run.rng.random((people, many)) < 0.5)

    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(people, 12), nn.Embedding(many, 12)
            self.popular = nn.Embedding(many, 1)
            for each in (self.users, self.items):
                nn.init.normal_(each.weight, std=0.0 if case == "all_factors_zero" else 0.3)
            nn.init.zeros_(self.popular.weight)

        def forward(self, user, item):
            out = (self.users(user) * self.items(item)).sum(-1)
            return out + self.popular(item).squeeze(-1) if case == "with_biases" else out

    net = Factors()
    if case != "with_biases":
        del net.popular
    decay = 20.0 if case == "decay_of_all_factors" else 0.0
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02, weight_decay=decay)
    monitor = run.watch(net, optimizer)
    pool = shown.nonzero()
    for _ in range(400):
        user, one = pool[torch.randint(0, len(pool), (256,))].T
        two = torch.randint(0, many, (256,))
        two = torch.where(shown[user, two], two, one)
        first = taste[user, one] >= taste[user, two]
        liked, other = torch.where(first, one, two), torch.where(first, two, one)
        if case == "liked_beside_itself":
            other = liked
        elif case == "other_way_round":
            liked, other = other, liked
        who = user[torch.randperm(256)] if case == "users_shuffled" else user
        if case == "stars":
            loss = functional.mse_loss(net(who, one), taste[user, one])
        elif case == "logistic":
            likes = (taste[user, one] > 0.7).float()
            out = net(who, one)
            loss = functional.binary_cross_entropy_with_logits(out, likes)
        else:
            loss = -functional.logsigmoid(net(who, liked) - net(who, other)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    user, item = (~shown).nonzero().T
    with torch.no_grad():
        said, truth = net(user, item), taste[user, item]
        order = torch.argsort(user * 1000 + torch.rand(len(user)))
        said, truth, user = said[order], truth[order], user[order]
        same = user[1:] == user[:-1]
        up = (said[1:] > said[:-1]) & (truth[1:] > truth[:-1])
        down = (said[1:] < said[:-1]) & (truth[1:] < truth[:-1])
        right = float((up | down)[same].float().mean())
    return 2 * right - 1
