"""Sequences: a small transformer on made-up text, a forecast, something to remember."""

from __future__ import annotations

import math

import numpy as np

from ...data import accuracy, score
from ...program import fault, program
from ...run import Run


@program(
    plain=0.3,
    warmed_up=0.3,
    tied=0.3,
    accumulated=0.3,
    post_norm=0.3,
    bf16_weights=0.25,
    softmax_over_queries=fault("softmax over the wrong axis"),
    not_shifted=fault("target leaks"),
    all_padded=fault("mask inverted"),
    logits_times_300=fault("attention saturated"),
    warms_up_for_ever=fault("warm-up without end"),
    sgd_rate_of_thirty=fault("rate too high"),
    small_bf16_updates=fault("rounded away", twin="bf16_weights"),
    embedding_of_thousands=fault("bad start"),
    detached_stream=fault("detached", layer=("embed", "place")),
    rate_of_ten_from_step_80=fault("rate jump", 81),
    targets_of_another_batch=fault("inputs and targets out of order"),
)
def text(run: Run, case: str) -> float:
    """The next letter of a text that is made by a table of pairs."""
    import torch
    from torch import nn
    from torch.nn import functional

    rng, letters, length = run.rng, 24, 20
    table = np.eye(letters)[rng.permutation(letters)] * 0.8 + 0.2 / letters
    text = np.empty((1200, length + 1), "int64")
    text[:, 0] = rng.integers(0, letters, 1200)
    edges = table.cumsum(1)
    for t in range(length):
        text[:, t + 1] = (rng.random((1200, 1)) > edges[text[:, t]]).sum(1).clip(0, letters - 1)
    text = torch.tensor(text)
    wide = 32

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
            self.up, self.down = nn.Linear(wide, 64), nn.Linear(64, wide)
            self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)

        def attend(self, h):
            b, t, _ = h.shape
            q, k, v = self.qkv(h).view(b, t, 3, 4, 8).permute(2, 0, 3, 1, 4)
            logit = q @ k.transpose(-1, -2) / math.sqrt(8)
            if case == "logits_times_300":
                logit = logit * 300
            mask = torch.ones(t, t, dtype=torch.bool).triu(1)
            if case == "all_padded":
                mask = ~mask
            if case != "not_shifted":
                logit = logit.masked_fill(mask, -1e4)
            mix = logit.softmax(-2 if case == "softmax_over_queries" else -1)
            return self.out((mix @ v).transpose(1, 2).reshape(b, t, wide))

        def forward(self, h):
            if case == "post_norm":
                h = self.norm1(h + self.attend(h))
                return self.norm2(h + self.down(functional.gelu(self.up(h))))
            h = h + self.attend(self.norm1(h))
            return h + self.down(functional.gelu(self.up(self.norm2(h))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.place = nn.Embedding(letters, wide), nn.Embedding(length, wide)
            std = 3000.0 if case == "embedding_of_thousands" else 0.1
            nn.init.normal_(self.embed.weight, std=std)
            self.layers = nn.ModuleList(Layer() for _ in range(2))
            self.norm = nn.Identity() if std > 1 else nn.LayerNorm(wide)
            self.head = nn.Linear(wide, letters, bias=False)
            if case == "tied":
                self.head.weight = self.embed.weight

        def forward(self, ids):
            h = self.embed(ids) + self.place.weight[: ids.shape[1]]
            if case == "detached_stream":
                h = h.detach()
            for each in self.layers:
                h = each(h)
            return self.head(self.norm(h))

    model = Model()
    if case in ("bf16_weights", "small_bf16_updates"):
        model.bfloat16()
    if case == "sgd_rate_of_thirty":
        optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
    else:
        rate = 3e-6 if case == "small_bf16_updates" else 3e-3
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    scale = {"warmed_up": 40, "warms_up_for_ever": 1e7}.get(case, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / scale))
    monitor = run.watch(model, optimizer)
    parts = 2 if case == "accumulated" else 1
    for step in range(1, 151):
        if case == "rate_of_ten_from_step_80" and step == 81:
            schedule.base_lrs = [10.0]
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(parts):
            ids = text[torch.randint(0, 1000, (32,))]
            truth = ids[:, :-1] if case == "not_shifted" else ids[:, 1:]
            if case == "targets_of_another_batch":
                truth = text[torch.randint(0, 1000, (32,)), 1:]
            out = model(ids[:, :-1])
            loss = (
                functional.cross_entropy(out.reshape(-1, letters).float(), truth.reshape(-1))
                / parts
            )
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0 if "bf16" not in case else 1e6)
        optimizer.step()
        schedule.step()
        monitor.record(loss=total)
    with torch.no_grad():
        said = model(text[1000:, :-1]).float().reshape(-1, letters).numpy()
    return accuracy(text[1000:, 1:].reshape(-1).numpy(), said)


@program(
    gru=0.4,
    lstm=0.4,
    convolution=0.4,
    teacher=0.4,
    flat_rate=fault("rate too low"),
    prices_in_yen=fault("unscaled targets"),
    future_of_another_series=fault("inputs and targets out of order"),
    hidden_overwritten=fault("detached"),
    state_kept_through_noise=fault("constant inputs"),
    tanh_in_yen=fault("output cannot reach the targets"),
)
def forecast(run: Run, case: str) -> float:
    """What comes after 24 hours of two waves and noise."""
    import torch
    from torch import nn
    from torch.nn import functional

    rng, n = run.rng, 900
    start, pace = rng.uniform(0, 6.28, (n, 1)), rng.uniform(0.2, 0.6, (n, 1))
    time = np.arange(25)
    wave = np.sin(start + pace * time) + 0.1 * rng.normal(size=(n, 25))
    x, y = wave[:, :24, None], wave[:, 24:]
    if case in ("prices_in_yen", "tanh_in_yen"):
        y = 30000 * (y + 3)
    elif case == "state_kept_through_noise":
        x = np.full_like(x, 3.0)
    x, y = (torch.tensor(v, dtype=torch.float32) for v in (x, y))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            kind = {"lstm": nn.LSTM}.get(case, nn.GRU)
            self.cell = kind(1, 32, batch_first=True)
            self.conv = nn.Conv1d(1, 32, 5, dilation=2)
            self.head = nn.Linear(32, 1)

        def forward(self, v):
            if case == "convolution":
                h = functional.relu(self.conv(v.transpose(1, 2)))[:, :, -1]
            else:
                h = self.cell(v)[0][:, -1]
            if case == "hidden_overwritten":
                h = torch.tensor(h.tolist()) + 0.01 * torch.randn_like(h)
            out = self.head(h)
            return torch.tanh(out) if case == "tanh_in_yen" else out

    net = Net()
    rate = 1e-8 if case == "flat_rate" else 5e-3
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    monitor = run.watch(net, optimizer)
    for _ in range(150):
        rows = torch.randint(0, 700, (48,))
        other = torch.randint(0, 700, (48,)) if case == "future_of_another_series" else rows
        inputs = x[rows]
        if case == "teacher":
            inputs = inputs + 0.05 * torch.randn_like(inputs)
        loss = functional.mse_loss(net(inputs), y[other])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return score("values", y[700:].numpy(), net(x[700:]).numpy())


@program(
    short=0.5,
    gated=0.5,
    long_and_plain=fault("vanishing", twin="short"),
    large_recurrent_weights=fault("saturated", twin="short"),
    growing_without_tanh=fault("exploding", twin="short"),
)
def memory(run: Run, case: str) -> float:
    """Which of two letters came first, before a long noise."""
    import torch
    from torch import nn
    from torch.nn import functional

    length = {"short": 6, "gated": 8}.get(case, 80)
    n = 800
    first = torch.tensor(run.rng.integers(0, 2, n))
    x = torch.randn(n, length, 4) * 0.3
    x[:, 0, :2] += 2 * functional.one_hot(first, 2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inward, self.again = nn.Linear(4, 24), nn.Linear(24, 24, bias=False)
            self.gate, self.head = nn.Linear(28, 24), nn.Linear(24, 2)
            scale = {"large_recurrent_weights": 6.0, "growing_without_tanh": 0.6}.get(case)
            if scale:
                nn.init.normal_(self.again.weight, std=scale)

        def forward(self, v):
            h = torch.zeros(len(v), 24)
            for t in range(v.shape[1]):
                new = self.inward(v[:, t]) + self.again(h)
                if case != "growing_without_tanh":
                    new = torch.tanh(new)
                if case == "gated":
                    keep = torch.sigmoid(self.gate(torch.cat([v[:, t], h], 1)) + 2)
                    new = keep * h + (1 - keep) * new
                h = new
            return self.head(h)

    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    monitor = run.watch(net, optimizer)
    for _ in range(120):
        rows = torch.randint(0, 600, (32,))
        loss = functional.cross_entropy(net(x[rows]), first[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(first[600:].numpy(), net(x[600:]).numpy())
