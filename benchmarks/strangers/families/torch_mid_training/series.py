"""Sequences: a recurrent forecast, and a small language model; something changes on the way."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, score
from ...program import fault, program
from ...run import Run


@program(
    plain=0.5,
    own_forecasts=0.4,
    longer=0.4,
    rate_drop=0.5,
    other_unit=fault("data goes wrong", step=91),
    rate_jump=fault("rate jump", step=81),
    targets_shifted=fault("labels go wrong", step=71),
    nan_target=fault("NaN in the data", step=64),
    recurrent_lost=fault("weights lost", step=118, layer="rnn"),
)
def forecast(run: Run, case: str) -> float:
    """A GRU says the next value of a sum of two waves."""
    import torch
    from torch import nn

    t = np.arange(1300)
    wave = np.sin(t / 4) + 0.6 * np.sin(t / 9 + run.seed) + 0.05 * run.rng.normal(size=1300)
    wave = torch.tensor(wave.astype("float32"))

    class Forecast(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(1, 24, batch_first=True)
            self.out = nn.Linear(24, 1)

        def forward(self, x):
            return self.out(self.rnn(x)[0])

    net = Forecast()
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    monitor = run.watch(net, opt)
    for step in range(1, 121):
        length = 24 if case == "longer" and step > 60 else 14
        starts = torch.randint(0, 1000 - length, (24,))
        window = torch.stack([wave[s : s + length + 1] for s in starts])[..., None]
        if case == "other_unit" and step >= 91:
            window = window * 1000 + 5000
        x, y = window[:, :-1], window[:, 1:]
        if case == "rate_drop" and step == 70:
            opt.param_groups[0]["lr"] = 1e-3
        elif case == "rate_jump" and step == 81:
            opt.param_groups[0]["lr"] = 5.0
        elif case == "targets_shifted" and step >= 71:
            y = y[torch.randperm(24)]
        elif case == "nan_target" and step == 64:
            y = y.clone()
            y[2, 3] = torch.nan
        elif case == "recurrent_lost" and step == 118:
            nn.init.normal_(net.rnn.weight_hh_l0, 0, 5.0)
        elif case == "own_forecasts" and step > 50:
            with torch.no_grad():
                own = net(x)
            x = torch.where(torch.rand(24, length, 1) < 0.1, torch.roll(own, 1, 1), x)
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    test = torch.stack([wave[s : s + 15] for s in range(1000, 1280, 3)])[..., None]
    with torch.no_grad():
        answer = net(test[:, :-1])[:, -1]
    return score("values", test[:, -1].numpy(), answer.numpy())


@program(
    plain=0.4,
    warmup_again=0.4,
    longer_sequences=0.4,
    embeddings_released=0.3,
    rate_jump=fault("rate jump", step=101),
    embeddings_reset=fault("weights lost", step=126, layer="embed"),
    divided_by_zero=fault("NaN forward", step=57),
    random_tokens=fault("labels go wrong", step=51),
    head_frozen_and_lost=fault("layer zeroed", step=90, layer="head"),
)
def tokens(run: Run, case: str) -> float:
    """After each token comes one of its own two successors, by the token before."""
    import torch
    from torch import nn

    size, width = 12, 32
    table = np.random.default_rng(1).permuted(np.tile(np.arange(size), (size, 1)), axis=1)

    def sample(n, length):
        ids = run.rng.integers(0, size, (n, length + 1))
        for k in range(2, length + 1):
            ids[:, k] = table[ids[:, k - 1], ids[:, k - 2] % 2]
        return torch.tensor(ids)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(size, width)
            self.place = nn.Embedding(16, width)
            self.layer = nn.TransformerEncoderLayer(
                width, 2, 64, dropout=0.0, batch_first=True, norm_first=True
            )
            self.head = nn.Linear(width, size)
            self.broken = False

        def forward(self, ids):
            n = ids.shape[1]
            mask = torch.full((n, n), -torch.inf).triu(1)
            h = self.embed(ids) + self.place(torch.arange(n))
            h = self.layer(h, src_mask=mask)
            return self.head(h / (0.0 if self.broken else 1.0))

    net = Model()
    if case == "embeddings_released":
        net.embed.requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), 5e-3)
    monitor = run.watch(net, opt)
    for step in range(1, 131):
        ids = sample(32, 15 if case == "longer_sequences" and step > 60 else 10)
        if case == "warmup_again":
            opt.param_groups[0]["lr"] = 5e-3 * min(1, (step % 65 + 1) / 20)
        elif case == "embeddings_released" and step == 60:
            net.embed.requires_grad_(True)
        elif case == "rate_jump" and step == 101:
            opt.param_groups[0]["lr"] = 2.0
        elif case == "embeddings_reset" and step >= 126:
            nn.init.normal_(net.embed.weight)
        elif case == "divided_by_zero" and step == 57:
            net.broken = True
        elif case == "random_tokens" and step >= 51:
            ids = torch.randint(0, size, ids.shape)
        elif case == "head_frozen_and_lost" and step == 90:
            nn.init.zeros_(net.head.weight), nn.init.zeros_(net.head.bias)
            net.head.requires_grad_(False)
        loss = nn.functional.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    test = sample(200, 10)
    with torch.no_grad():
        answer = net(test[:, :-1])[:, 2:].flatten(0, 1)
    return accuracy(test[:, 3:].flatten().numpy(), answer.numpy())
