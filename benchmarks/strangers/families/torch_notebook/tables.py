"""Tables: many zeros and few ones, targets of any size, two tasks at once, a policy."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score, standardised
from ...program import fault, program
from ...run import Run


@program(
    plain=0.4,
    absolute=0.4,
    huber=0.4,
    hundreds=0.4,
    quantiles=0.3,
    heavy_tails=0.3,
    counts=0.3,
    spread_too=0.4,
    forty_steps=0.3,
    broadcasts=fault("broadcasting"),
    never_zeroed=fault("gradients accumulate"),
    sigmoid_at_the_end=fault("output cannot reach the targets", twin="hundreds"),
    targets_of_a_million=fault("unscaled targets"),
    hole_in_one_row=fault("NaN in the data", 61),
    sgd_rate_of_two=fault("rate too high"),
    no_bend=fault("no non-linearity"),
    same_weights=fault("symmetric start"),
    outliers_from_step_90=fault("data goes wrong", 91),
    shuffled_once_too_often=fault("inputs and targets out of order"),
)
def curve(run: Run, case: str) -> float:
    """A curved function of ten numbers."""
    import torch
    from torch import nn
    from torch.nn import functional

    rng, n, cut = run.rng, 1600, 1200
    x = rng.normal(size=(n, 10)).astype("float32")
    y = x[:, 0] * x[:, 1] + 2 * np.sin(x[:, 2]) + np.abs(x[:, 3])
    y = y + 0.2 * (rng.standard_t(2, n) if case == "heavy_tails" else rng.normal(size=n))
    if case == "no_bend":
        y = x[:, 0] * x[:, 1] + x[:, 2] ** 2
    elif case == "counts":
        y = rng.poisson(np.exp(0.6 * np.clip(y, -3, 3)))
    elif case in ("hundreds", "sigmoid_at_the_end"):
        y = 300 + 100 * y
    elif case == "targets_of_a_million":
        y = 1e6 * (4 + y)
    x, y = torch.tensor(x), torch.tensor(y, dtype=torch.float32)[:, None]
    truth = y.clone()
    if case == "shuffled_once_too_often":
        truth[:cut] = truth[:cut][torch.randperm(cut)]
    outs = {"quantiles": 3, "spread_too": 2}.get(case, 1)
    bend = nn.Identity() if case == "no_bend" else nn.SiLU()
    net = nn.Sequential(
        nn.Linear(10, 64), bend, nn.Linear(64, 64), bend, nn.Linear(64, outs),
        *([nn.Sigmoid()] if case == "sigmoid_at_the_end" else []),
    )  # fmt: skip
    if case == "same_weights":
        for each in net.parameters():
            nn.init.constant_(each, 0.05)
    if case in ("sgd_rate_of_two", "never_zeroed"):
        rate = 2.0 if case == "sgd_rate_of_two" else 0.02
        optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=0.03 if case == "hundreds" else 5e-3)
    monitor = run.watch(net, optimizer)
    for step in range(1, 41 if case == "forty_steps" else 181):
        rows = torch.randint(0, cut, (64,))
        inputs, target = x[rows], truth[rows]
        if case == "hole_in_one_row" and step > 60:
            inputs[7, 3] = torch.nan
        elif case == "outliers_from_step_90" and step > 90:
            target = target * 200
        out = net(inputs)
        if case == "absolute":
            loss = functional.l1_loss(out, target)
        elif case == "huber":
            loss = functional.smooth_l1_loss(out, target)
        elif case == "quantiles":
            share = torch.tensor([0.1, 0.5, 0.9])
            loss = torch.maximum(share * (target - out), (share - 1) * (target - out)).mean()
        elif case == "counts":
            loss = functional.poisson_nll_loss(out, target)
        elif case == "spread_too":
            spread = functional.softplus(out[:, 1:]) + 1e-3
            loss = functional.gaussian_nll_loss(out[:, :1], target, spread**2)
        elif case == "broadcasts":
            loss = functional.mse_loss(out, target[:, 0])
        else:
            loss = functional.mse_loss(out, target)
        if case != "never_zeroed":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    with torch.no_grad():
        said = net(x[cut:])[:, 1 if case == "quantiles" else 0]
    if case == "counts":
        return score("binary", (y[cut:, 0] > y.median()).numpy().astype(int), said.numpy())
    return score("values", y[cut:].numpy(), said.numpy())


@program(
    weighted=0.4,
    unweighted=0.4,
    focal=0.4,
    sampled=0.4,
    columns_unscaled=fault("unscaled inputs"),
    weight_of_the_wrong_class=fault("class weights wrong"),
    sigmoid_twice=fault("logits or not"),
    relu_before_the_loss=fault("dead units"),
    bce_of_two_columns=fault("softmax over one unit"),
    all_zero_start=fault("symmetric start"),
)
def fraud(run: Run, case: str) -> float:
    """One payment in 25 is a fraud."""
    import torch
    from torch import nn
    from torch.nn import functional

    rng, n, cut = run.rng, 4000, 3000
    x = rng.normal(size=(n, 8))
    risk = x[:, 0] + x[:, 1] * x[:, 2] + 0.3 * rng.normal(size=n)
    y = (risk > np.quantile(risk, 0.96)).astype("float32")
    if case == "columns_unscaled":
        x = x * np.array([1, 1, 1, 1, 1e6, 1, 1e5, 1]) + np.array([0, 0, 0, 0, 1e7, 0, 0, 0])
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    last = 1
    net = nn.Sequential(
        nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, last)
    )
    if case == "relu_before_the_loss":
        nn.init.constant_(net[2].bias, -30.0)
    elif case == "all_zero_start":
        for each in net.parameters():
            nn.init.zeros_(each)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    monitor = run.watch(net, optimizer)
    chance = torch.where(y > 0, 12.0, 1.0)[:cut]
    for _ in range(180):
        rows = torch.randint(0, cut, (64,))
        if case == "sampled":
            rows = torch.multinomial(chance, 64, replacement=True)
        out, truth = net(x[rows])[:, 0], y[rows]
        if case == "focal":
            p = torch.sigmoid(out)
            hard = torch.where(truth > 0, 1 - p, p) ** 2
            loss = (
                hard * functional.binary_cross_entropy_with_logits(out, truth, reduction="none")
            ).mean()
        elif case == "sigmoid_twice":
            loss = functional.binary_cross_entropy_with_logits(torch.sigmoid(out), truth)
        elif case == "bce_of_two_columns":
            loss = functional.binary_cross_entropy(torch.softmax(out[:, None], 1)[:, 0], truth)
        else:
            weight = {"weighted": 12.0, "weight_of_the_wrong_class": 1e-4}.get(case, 1.0)
            loss = functional.binary_cross_entropy_with_logits(
                out, truth, pos_weight=torch.tensor(weight)
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        said = net(x[cut:])
    if case in ("sigmoid_twice", "bce_of_two_columns"):
        # What the program answers is a class, by its own threshold.
        p = torch.sigmoid(torch.sigmoid(said)) if case == "sigmoid_twice" else torch.ones(len(said))
        said = (p.ravel() > 0.5).float()
    return score("binary", y[cut:].numpy().astype(int), said.numpy())


@program(
    both=0.5,
    learned_weights=0.5,
    gated=0.5,
    one_task_in_euros=fault("one loss drowns the other"),
    second_task_detached=fault("detached"),
    tasks_swapped=fault("inputs and targets out of order"),
)
def two_tasks(run: Run, case: str) -> float:
    """Which sort of wine, and how strong: one trunk, two heads."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, y, xt, yt = bundled("wine", run.seed)
    strong, held = x[:, :1].copy(), xt[:, :1]
    x, xt = standardised(np.delete(x, 0, 1), np.delete(xt, 0, 1))
    middle, spread = strong.mean(), strong.std()
    x, xt, y = torch.tensor(x), torch.tensor(xt), torch.tensor(y)
    strong = torch.tensor((strong - middle) / spread)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(12, 32), nn.Tanh())
            self.gate = nn.Linear(12, 32)
            self.sort, self.strength = nn.Linear(32, 3), nn.Linear(32, 1)
            self.weights = nn.Parameter(torch.zeros(2))

        def forward(self, v):
            h = self.trunk(v)
            if case == "gated":
                h = h * torch.sigmoid(self.gate(v))
            second = h.detach() if case == "second_task_detached" else h
            return self.sort(second), self.strength(h)

    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    monitor = run.watch(net, optimizer)
    for _ in range(120):
        rows = torch.randint(0, len(x), (24,))
        sort, strength = net(x[rows])
        other = torch.randint(0, len(x), (24,)) if case == "tasks_swapped" else rows
        one = functional.cross_entropy(sort, y[other])
        two = functional.mse_loss(strength, strong[other])
        if case == "learned_weights":
            loss = (net.weights.neg().exp() * torch.stack([one, two]) + net.weights).sum()
        elif case == "one_task_in_euros":
            loss = one * 1e-6 + two * 1e6
        else:
            loss = one + two
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        sort, strength = (v.numpy() for v in net(xt))
    if not np.isfinite(sort).all():
        return -1.0
    right = (np.mean(sort.argmax(1) == yt) - 0.4) / 0.6
    fit = score("values", held, strength * spread + middle)
    return float(min(right, fit) if case == "one_task_in_euros" else (right + fit) / 2)


@program(
    with_baseline=0.4,
    entropy_bonus=0.4,
    surrogate=0.4,
    sign_forgotten=fault("wrong sign"),
    actions_of_others=fault("inputs and targets out of order"),
    logarithm_detached=fault("detached"),
    bonus_of_a_thousand=fault("one loss drowns the other"),
)
def policy(run: Run, case: str) -> float:
    """Four doors, of which the picture on the wall tells the right one."""
    import torch
    from torch import nn

    walls = torch.tensor(run.rng.normal(size=(4, 12)), dtype=torch.float32)
    net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    monitor = run.watch(net, optimizer)
    baseline = 0.25
    for _ in range(200):
        door = torch.randint(0, 4, (64,))
        seen = walls[door] + torch.randn(64, 12)
        logits = net(seen)
        choice = torch.distributions.Categorical(logits=logits)
        action = choice.sample()
        reward = (action == door).float()
        gain = reward - baseline
        baseline = 0.95 * baseline + 0.05 * reward.mean().item()
        logs = choice.log_prob(action)
        if case == "actions_of_others":
            gain = gain[torch.randperm(64)]
        if case == "logarithm_detached":
            logs = logs.detach() + 0 * logits.sum(1)
        if case == "surrogate":
            ratio = (logs - logs.detach()).exp()
            loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        else:
            loss = -(gain * logs).mean()
        if case == "sign_forgotten":
            loss = -loss
        elif case in ("entropy_bonus", "bonus_of_a_thousand"):
            weight = 0.01 if case == "entropy_bonus" else 1000.0
            loss = loss - weight * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss, metrics={"return": reward.mean().item()})
    door = torch.arange(400) % 4
    with torch.no_grad():
        said = net(walls[door] + torch.randn(400, 12))
    return float((np.mean((said.argmax(1) == door).numpy()) - 0.25) / 0.75)
