"""Recurrent networks in torch loops."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made, score
from ..program import fault, program
from ..run import Run


@program(
    plain=0.6,
    gru=0.6,
    bidirectional=0.6,
    small_batch=0.5,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    shuffled=fault("labels shuffled"),
    saturated=fault("saturated", layer="rnn"),
    no_zero_grad=fault("gradients accumulate", twin="sgd"),
    sgd=0.5,
    double_softmax=fault("two softmaxes", twin="sgd"),
    clip=fault("clipped to nothing", twin="sgd"),
)
def signal_classes(run: Run, case: str) -> float:
    import torch
    from torch import nn

    data = made("waves", run.seed, 600, length=10)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    if case == "shuffled":
        y = y[torch.randperm(len(y))]

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            both = case == "bidirectional"
            cell = nn.RNN if case == "saturated" else nn.GRU if case == "gru" else nn.LSTM
            self.rnn = cell(2, 16, batch_first=True, bidirectional=both)
            self.out = nn.Linear(32 if both else 16, 3)

        def forward(self, x):
            states, _ = self.rnn(x)
            return self.out(states[:, -1] if case != "bidirectional" else states.mean(1))

    model = Reader()
    if case == "saturated":
        nn.init.normal_(model.rnn.weight_ih_l0, std=40)
        nn.init.normal_(model.rnn.weight_hh_l0, std=40)
    if case in ("sgd", "no_zero_grad", "double_softmax", "clip"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    else:
        rate = {"low_rate": 1e-6, "high_rate": 5.0}.get(case, 0.01)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    if case == "double_softmax":
        optimizer.param_groups[0]["lr"] = 0.03
    size = 4 if case == "small_batch" else 32
    monitor = run.watch(model, optimizer)
    for _ in range(200):
        batch = torch.randint(0, len(x), (size,))
        logits = model(x[batch])
        if case == "double_softmax":
            logits = torch.softmax(logits, dim=-1)
        loss = nn.functional.cross_entropy(logits, y[batch])
        if case != "no_zero_grad":
            optimizer.zero_grad()
        loss.backward()
        if case == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 1e-7)
        optimizer.step()
        monitor.record(loss=loss.item())
    with torch.no_grad():
        return accuracy(data.truth, model(torch.from_numpy(data.judged_x)).numpy())


@program(
    plain=0.6,
    teacher_noise=0.5,
    stateful=0.5,
    unscaled=fault("unscaled inputs"),
    broadcast=fault("broadcasting"),
    detach_state=fault("detached", layer="gru"),
    sqrt_zero=fault("NaN backward", step=81),
    rate_jump=fault("rate jump", step=101),
)
def forecast(run: Run, case: str) -> float:
    """The next value of a series, by a GRU."""
    import torch
    from torch import nn

    rng = run.rng
    t = np.arange(13) * 0.6
    speed, phase = rng.uniform(0.5, 1.4, (800, 1)), rng.uniform(0, 6.28, (800, 1))
    series = np.sin(speed * t + phase) + 0.05 * rng.normal(size=(800, 13))
    series = torch.tensor(series, dtype=torch.float32)
    if case == "unscaled":
        series = series * 3000 + 20000
    x, y = series[:, :-1, None], series[:, -1]
    xt, yt, x, y = x[:200], y[:200], x[200:], y[200:]
    gru, out = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)
    model = nn.ModuleDict({"gru": gru, "out": out})
    opt = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    monitor = run.watch(model, opt)

    def predict(x):
        h = gru(x)[1][0]
        if case == "detach_state":
            h = h.detach() * 0.05
        return out(h)

    for step in range(1, 221):
        if case == "rate_jump" and step == 101:
            opt.param_groups[0]["lr"] = 3.0
        i = torch.randint(0, len(x), (40,))
        given = x[i] + 0.1 * torch.randn_like(x[i]) if case == "teacher_noise" else x[i]
        pred = predict(given)
        if case == "broadcast":
            loss = nn.functional.mse_loss(pred, y[i])
        else:
            loss = nn.functional.mse_loss(pred[:, 0], y[i])
        if case == "sqrt_zero" and step == 81:
            loss = loss + torch.sqrt((pred - pred).pow(2)).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, metrics={"rmse": loss.detach().clamp(min=0) ** 0.5})
    with torch.no_grad():
        return score("values", yt.numpy(), predict(xt).numpy())


@program(
    plain=0.5,
    char_sgd=0.3,
    dropout=0.4,
    embedding_left_out=0.3,
    explodes=fault("exploding"),
    wrong_targets=fault("inputs and targets out of order"),
    cells_in_a_list=fault("modules in a plain list"),
)
def characters(run: Run, case: str) -> float:
    """A recurrent cell, unrolled by hand, predicts the next letter of a rhyme."""
    import torch
    from torch import nn

    text = "the cat sat on the mat and the rat ran at the hat of the fat bat. " * 12
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(c) for c in text])
    n, d = len(letters), 32
    length = 24 if case == "explodes" else 12

    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.i, self.h = nn.Linear(d, d), nn.Linear(d, d)

        def forward(self, x, h):
            if case == "explodes":
                return torch.relu(self.i(x) + self.h(h))
            return torch.tanh(self.i(x) + self.h(h))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(n, d)
            cells = [Cell() for _ in range(3 if case == "cells_in_a_list" else 1)]
            self.cells = cells if case == "cells_in_a_list" else nn.ModuleList(cells)
            self.drop = nn.Dropout(0.4 if case == "dropout" else 0)
            self.out = nn.Linear(d, n)
            if case == "embedding_left_out":
                self.emb.weight.requires_grad = False

        def forward(self, ids):
            e = self.emb(ids)
            h = [torch.zeros(len(ids), d) for _ in self.cells]
            outs = []
            for t in range(ids.shape[1]):
                x = e[:, t]
                for k, cell in enumerate(self.cells):
                    x = h[k] = cell(x, h[k])
                outs.append(x)
            return self.out(self.drop(torch.stack(outs, 1)))

    net = Net()
    if case == "explodes":
        nn.init.eye_(net.cells[0].h.weight)
        with torch.no_grad():
            net.cells[0].h.weight.mul_(2.0)
    elif case == "cells_in_a_list":
        for cell in net.cells:
            nn.init.normal_(cell.i.weight, std=0.02)
    if case in ("char_sgd", "explodes"):
        opt = torch.optim.SGD(net.parameters(), lr=0.5)
    else:
        opt = torch.optim.Adam(net.parameters(), 5e-3)
    monitor = run.watch(net, opt)
    for _ in range(160):
        at = torch.randint(0, len(ids) - length - 1, (20,))
        x = torch.stack([ids[a : a + length] for a in at])
        y = torch.stack([ids[a + 1 : a + length + 1] for a in at])
        if case == "wrong_targets":
            y = y[torch.randperm(20)]
        logits = net(x)
        loss = nn.functional.cross_entropy(logits.reshape(-1, n), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        x = torch.stack([ids[a : a + length] for a in range(0, 300, 3)])
        y = torch.stack([ids[a + 1 : a + length + 1] for a in range(0, 300, 3)])
        logits = net(x)
    return accuracy(y.reshape(-1).numpy(), logits.reshape(-1, n).numpy())
