"""Tables with categories, and prices that are found by trying."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


def _shop(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of shop, weekday and offer; distance and temperature; what is sold."""
    fixed = np.random.default_rng(11)
    effects = [fixed.normal(size=size) * s for size, s in ((25, 0.6), (7, 0.4), (3, 0.4))]
    codes = np.stack([rng.integers(0, size, n) for size in (25, 7, 3)], 1)
    numbers = rng.normal(size=(n, 2)).astype("float32")
    log_sales = 3 + sum(effect[code] for effect, code in zip(effects, codes.T, strict=True))
    log_sales = log_sales + 0.3 * numbers[:, 0] - 0.2 * numbers[:, 1] ** 2
    log_sales = log_sales + 0.15 * rng.normal(size=n)
    return codes, numbers, np.exp(log_sales).astype("float32")


@program(
    logarithms=0.5,
    standardised=0.4,
    counts=0.4,
    with_norm_and_dropout=0.4,
    one_hot=0.5,
    small_shop=0.2,
    codes_as_numbers=fault("ids as numbers"),
    same_code_thrice=fault("information missing"),
    sales_in_cents=fault("unscaled targets"),
    exponent_of_the_sales=fault("overflow"),
    no_spread=fault("NaN in the data"),
    first_rows_of_the_targets=fault("inputs and targets out of order"),
    squeezed_in_one_place=fault("broadcasting"),
    embeddings_of_size_100=fault("exploding"),
    mean_of_the_log_of_a_zero=fault("overflow"),
)
def shops(run: Run, case: str) -> float:
    """What a shop sells on a day; codes become vectors. Judged by the logarithm."""
    import torch
    from torch import nn
    from torch.nn import functional

    codes, numbers, sales = _shop(run.rng, 500 if case == "small_shop" else 2000)
    cut = len(codes) * 4 // 5
    if case == "no_spread":
        fixed = np.ones((len(numbers), 1), "float32")
        numbers = np.concatenate([numbers, fixed], 1)
        numbers = (numbers - numbers.mean(0)) / numbers.std(0)
    truth = np.log(sales)
    mean, deviation = truth[:cut].mean(), truth[:cut].std()
    target = (truth - mean) / deviation
    if case in ("counts", "exponent_of_the_sales", "sales_in_cents"):
        target = 1e5 * sales if case == "sales_in_cents" else sales
    elif case == "mean_of_the_log_of_a_zero":
        closed = run.rng.random(len(sales)) < 0.02
        target = np.log(np.where(closed, 0, sales))
    codes, numbers = torch.tensor(codes), torch.tensor(numbers, dtype=torch.float32)
    target = torch.tensor(target, dtype=torch.float32)

    class Tabular(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = (25, 25, 25) if case == "same_code_thrice" else (25, 7, 3)
            self.embeddings = nn.ModuleList(nn.Embedding(size, 6) for size in sizes)
            if case == "embeddings_of_size_100":
                for each in self.embeddings:
                    nn.init.normal_(each.weight, 0, 3000.0)
            width = {"codes_as_numbers": 3, "one_hot": 35}.get(case, 18) + numbers.shape[1]
            if case in ("codes_as_numbers", "one_hot"):
                del self.embeddings
            norm = nn.BatchNorm1d(48) if case == "with_norm_and_dropout" else nn.Identity()
            drop = nn.Dropout(0.3 if case == "with_norm_and_dropout" else 0.0)
            self.rest = nn.Sequential(nn.Linear(width, 48), norm, nn.ReLU(), drop, nn.Linear(48, 1))

        def forward(self, codes, numbers):
            if case == "codes_as_numbers":
                columns = [codes.float()]
            elif case == "one_hot":
                sizes = zip(codes.T, (25, 7, 3), strict=True)
                columns = [functional.one_hot(code, size).float() for code, size in sizes]
            else:
                taken = (0, 0, 0) if case == "same_code_thrice" else (0, 1, 2)
                columns = [
                    each(codes[:, i]) for each, i in zip(self.embeddings, taken, strict=True)
                ]
            return self.rest(torch.cat([*columns, numbers], 1))

    net = Tabular()
    if case == "embeddings_of_size_100":
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    monitor = run.watch(net, optimizer)
    for step in range(240):
        at = step * 64 % (cut - 64)
        rows = slice(at, at + 64)
        out = net(codes[rows], numbers[rows])
        wanted = target[:64] if case == "first_rows_of_the_targets" else target[rows]
        if case != "squeezed_in_one_place":
            out = out[:, 0]
        if case == "counts":
            loss = functional.poisson_nll_loss(out, wanted)
        elif case == "exponent_of_the_sales":
            loss = functional.mse_loss((30 * out).exp(), wanted)
        else:
            loss = functional.mse_loss(out, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    net.eval()
    with torch.no_grad():
        said = net(codes[cut:], numbers[cut:])[:, 0].numpy()
    if case in ("counts", "exponent_of_the_sales", "sales_in_cents"):
        said = np.log(np.maximum(said, 1e-3)) if case == "sales_in_cents" else said
        if case == "exponent_of_the_sales":
            said = 30 * said
        elif case == "sales_in_cents":
            said = said - np.log(1e5)
        return score("values", truth[cut:], said)
    if case == "mean_of_the_log_of_a_zero":
        return score("values", truth[cut:], said)
    return score("values", truth[cut:], said * deviation + mean)


@program(
    with_a_baseline=0.5,
    normalised_rewards=0.5,
    with_entropy=0.4,
    many_customers=0.4,
    descends=fault("wrong sign"),
    in_cents=fault("unscaled rewards", twin="many_customers"),
    log_probability_detached=fault("detached"),
    rewards_of_others=fault("labels shuffled"),
    spread_of_a_hundred=fault("bad start"),
)
def pricing(run: Run, case: str) -> float:
    """What to ask of a customer; tried, and paid. 1 is the best price, 0 the best for all alike."""
    import torch
    from torch import nn

    rng = run.rng
    weights = rng.normal(size=4)

    def best(customers):
        return torch.tensor(1.5 * np.tanh(customers @ weights), dtype=torch.float32)

    def paid(price, customers):
        return 2.0 - (price - best(customers)) ** 2 + 0.1 * torch.randn(len(customers))

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
            self.mean, self.value = nn.Linear(32, 1), nn.Linear(32, 1)
            start = 4.6 if case == "spread_of_a_hundred" else -0.7
            self.log_spread = nn.Parameter(torch.tensor(start))

        def forward(self, customers):
            h = self.body(customers)
            return self.mean(h)[:, 0], self.value(h)[:, 0]

    net = Policy()
    if case in ("in_cents", "many_customers"):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    monitor = run.watch(net, optimizer)
    for _ in range(260):
        customers = rng.normal(size=(256 if case == "many_customers" else 96, 4))
        mean, value = net(torch.tensor(customers, dtype=torch.float32))
        asked = torch.distributions.Normal(mean, net.log_spread.exp().clamp(1e-3))
        price = asked.sample()
        reward = paid(price, customers)
        if case == "in_cents":
            reward = 100 * reward
        elif case == "rewards_of_others":
            reward = reward[torch.randperm(len(reward))]
        if case in ("in_cents", "normalised_rewards", "many_customers"):
            gain = reward - reward.mean()
            if case == "normalised_rewards":
                gain = gain / (reward.std() + 1e-6)
        else:
            gain = reward - value.detach()
        log_p = asked.log_prob(price)
        if case == "log_probability_detached":
            log_p = log_p.detach()
        loss = -(log_p * gain).mean()
        if case == "descends":
            loss = -loss
        if case not in ("in_cents", "normalised_rewards", "many_customers"):
            loss = loss + 0.5 * (value - reward).pow(2).mean()
        if case == "with_entropy":
            loss = loss - 0.02 * net.log_spread
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item(), metrics={"reward": reward.mean()})
    customers = rng.normal(size=(500, 4))
    with torch.no_grad():
        mean, _ = net(torch.tensor(customers, dtype=torch.float32))
        return score("values", best(customers).numpy(), mean.numpy())
