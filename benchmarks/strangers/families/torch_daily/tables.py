"""Tables in torch loops: prices of houses, customers who leave."""

from __future__ import annotations

import numpy as np

from ...data import score, standardised
from ...program import fault, program
from ...run import Run


def ranked(truth, answer) -> float:
    """Twice the area under the ROC curve, less 1."""
    answer = np.asarray(answer, "float64").ravel()
    if not np.isfinite(answer).all():
        return -1.0
    from sklearn.metrics import roc_auc_score

    return float(2 * roc_auc_score(truth, answer) - 1)


def houses(rng, n: int = 2000):
    """Eight facts of each house, and its price in dollars."""
    area, rooms = rng.gamma(6, 18, n), rng.integers(1, 8, n)
    age, distance = rng.uniform(0, 90, n), rng.exponential(8, n)
    more = rng.normal(size=(n, 4))
    x = np.column_stack([area, rooms, age, distance, more]).astype("float32")
    price = 1800 * area * np.exp(-distance / 15) + 9000 * rooms * (age < 40) + 15000 * more[:, 0]
    return x, (60000 + price + 8000 * rng.normal(size=n)).astype("float32")


@program(
    thousands=0.5,
    dollars_in_the_loss=0.5,
    variance_too=0.5,
    lbfgs=0.5,
    tiny_data=0.3,
    sgd=0.5,
    column_for_row=fault("broadcasting"),
    raw_dollars=fault("unscaled targets"),
    raw_inputs=fault("unscaled inputs", twin="sgd"),
    ends_in_relu=fault("output cannot reach the targets"),
    sorted_targets=fault("inputs and targets out of order"),
    one_missing_value=fault("NaN in the data", 101),
    gathers_gradients=fault("gradients accumulate", twin="sgd"),
    logarithm_of_a_loss=fault("NaN forward", 61),
)
def house(run: Run, case: str) -> float:
    """The price of a house."""
    import torch
    from torch import nn

    x, price = houses(run.rng, 400 if case == "tiny_data" else 2000)
    cut = len(x) * 3 // 4
    if case != "raw_inputs":
        scaled, rest = standardised(x[:cut], x[cut:])
        x = np.concatenate([scaled, rest])
    mean, deviation = float(price[:cut].mean()), float(price[:cut].std())
    y = price if case == "raw_dollars" else (price - mean) / deviation
    if case == "sorted_targets":
        y[:cut] = np.sort(y[:cut])
    low = 1e-3 - y.min()
    x, y = torch.tensor(x), torch.tensor(y)
    net = nn.Sequential(
        nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
        nn.Linear(64, 2 if case == "variance_too" else 1),
    )  # fmt: skip
    if case == "ends_in_relu":
        net.append(nn.ReLU())
    if case == "lbfgs":
        optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4, history_size=10)
    elif case in ("raw_inputs", "gathers_gradients", "sgd"):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    monitor = run.watch(net, optimizer)

    def loss_of(rows, step):
        inputs, truth = x[rows], y[rows, None]
        if case == "one_missing_value" and step > 100:
            # The file of the third day has a hole.
            inputs[3, 5] = torch.nan
        out = net(inputs)
        if case == "column_for_row":
            return ((out - y[rows]) ** 2).mean()
        if case == "variance_too":
            return nn.functional.gaussian_nll_loss(out[:, :1], truth, out[:, 1:].exp())
        if case == "dollars_in_the_loss":
            return ((out * deviation - truth * deviation) ** 2).mean()
        if case == "logarithm_of_a_loss" and step > 60:
            # From here on the relative error is what counts.
            return ((out + low).log() - (truth + low).log()).square().mean()
        return nn.functional.mse_loss(out, truth)

    step, size = 0, 32
    for epoch in range(1, 9 if case != "tiny_data" else 12):
        for rows in torch.randperm(cut).split(size):
            step += 1
            if case == "lbfgs":
                if step > 80:
                    break

                def closure():
                    optimizer.zero_grad()
                    loss = loss_of(torch.arange(cut), 0)
                    loss.backward()
                    return loss

                loss = optimizer.step(closure)
            else:
                if case != "gathers_gradients":
                    optimizer.zero_grad()
                loss = loss_of(rows, step)
                loss.backward()
                optimizer.step()
            monitor.record(loss=loss.item(), epoch=epoch)
    with torch.no_grad():
        out = net(x[cut:])[:, :1].numpy()
    return score("values", y[cut:].numpy()[:, None], out)


@program(
    weighted=0.3,
    focal=0.3,
    whole_batch=0.3,
    entities=0.3,
    silent_halves=0.3,
    zeroed_too_early=fault("zeroed before the step", layer=("tower.0", "tower", "embed")),
    weights_in_integers=fault("class weights wrong"),
    probabilities_as_logits=fault("logits or not", twin="whole_batch"),
    made_leaf_again=fault("detached"),
    column_of_dollars=fault("unscaled inputs"),
    rate_of_another_paper=fault("rate too low"),
    all_negative_start=fault("dead units"),
)
def churn(run: Run, case: str) -> float:
    """Which of the customers leave: few of them; numbers, and the codes of two categories."""
    import torch
    from torch import nn

    rng, n = run.rng, 4000
    plan, town = rng.integers(0, 6, n), rng.integers(0, 40, n)
    numbers = rng.normal(size=(n, 6))
    taste, place = rng.normal(size=6), rng.normal(size=40)
    score_ = 1.6 * taste[plan] + place[town] + 1.5 * numbers[:, 0] * numbers[:, 1]
    score_ += 1.5 * np.abs(numbers[:, 2]) + 0.5 * rng.normal(size=n)
    left = (score_ > np.quantile(score_, 0.85)).astype("int64")
    if case == "column_of_dollars":
        numbers[:, 5] = 250000 + 90000 * numbers[:, 5]
    codes = torch.tensor(np.column_stack([plan, town + 6]))
    numbers, y = torch.tensor(numbers, dtype=torch.float32), torch.tensor(left)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(46, 8)
            self.tower = nn.Sequential(
                nn.Linear(22, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2)
            )

        def forward(self, codes, numbers):
            embedded = self.embed(codes).flatten(1)
            return self.tower(torch.cat([embedded, numbers], 1))

    net = Net()
    if case == "all_negative_start":
        nn.init.constant_(net.tower[2].bias, -6)
    elif case == "silent_halves":
        # Sparse on purpose: most units say nothing about most customers.
        nn.init.constant_(net.tower[0].bias, -1.5)
    elif case == "entities":
        net.embed.weight.requires_grad_(False).normal_(0, 1.5)
    rate = 1e-7 if case == "rate_of_another_paper" else 4e-3
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=rate)
    run.watch(net, optimizer)
    counts = torch.bincount(y[:3000])
    weight = counts.min() / counts if case == "weighted" else None
    if case == "weights_in_integers":
        weight = (counts.min() // counts).float() * 1.0
    whole = case in ("whole_batch", "probabilities_as_logits")
    for _ in range(120 if whole else 5):
        for rows in torch.randperm(3000).split(3000 if whole else 64):
            optimizer.zero_grad(set_to_none=case != "zeroed_too_early")
            out = net(codes[rows], numbers[rows])
            if case == "focal":
                logp = out.log_softmax(1).gather(1, y[rows, None])
                loss = -((1 - logp.exp()) ** 2 * logp).mean()
            elif case == "probabilities_as_logits":
                chance = (out[:, 1] - out[:, 0]).sigmoid()
                truth = y[rows].float()
                loss = nn.functional.binary_cross_entropy_with_logits(chance, truth)
            else:
                loss = nn.functional.cross_entropy(out, y[rows], weight=weight)
            if case == "made_leaf_again":
                loss = torch.tensor(loss.item(), requires_grad=True)
            loss.backward()
            if case == "zeroed_too_early":
                optimizer.zero_grad(set_to_none=False)
            optimizer.step()
    with torch.no_grad():
        out = net(codes[3000:], numbers[3000:])
    return ranked(y[3000:], out[:, 1] - out[:, 0])
