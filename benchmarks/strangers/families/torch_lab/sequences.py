"""An encoder and a decoder that is told the truth of before; forecasts by dilated filters."""

from __future__ import annotations

import numpy as np

from ...program import fault, program
from ...run import Run


@program(
    told_the_truth=0.5,
    told_half_of_it=0.4,
    attention=0.5,
    packed=0.5,
    truth_not_shifted=fault("target leaks"),
    code_of_the_encoder_dropped=fault("information missing"),
    view_instead_of_transpose=fault("axes mixed up"),
    letters_of_another_line=fault("inputs and targets out of order"),
    encoder_under_no_grad_and_decoder_frozen=fault("all frozen"),
    recurrent_weights_of_ten=fault("saturated"),
)
def reversal(run: Run, case: str) -> float:
    """Say a line of letters backwards; the score is of what is said without help."""
    import torch
    from torch import nn
    from torch.nn import functional

    letters, length, start = 8, 5, 8

    class Model(nn.Module):
        def __init__(self, width=64):
            super().__init__()
            self.embed = nn.Embedding(letters + 1, 24)
            self.encoder = nn.GRU(24, width, batch_first=True)
            self.decoder = nn.GRU(24, width, batch_first=True)
            self.query = nn.Linear(width, width)
            self.out = nn.Linear(2 * width if case == "attention" else width, letters)

        def encode(self, x):
            if case == "packed":
                lengths = torch.full((len(x),), x.shape[1])
                x = nn.utils.rnn.pack_padded_sequence(self.embed(x), lengths, batch_first=True)
                return self.encoder(x)
            return self.encoder(self.embed(x))

        def step(self, before, state, seen):
            h, state = self.decoder(self.embed(before), state)
            if case == "attention":
                weights = (self.query(h) @ seen.transpose(1, 2)).softmax(-1)
                h = torch.cat([h, weights @ seen], -1)
            return self.out(h), state

    net = Model()
    if case == "recurrent_weights_of_ten":
        for name, each in (*net.encoder.named_parameters(), *net.decoder.named_parameters()):
            if "weight_hh" in name or "weight_ih" in name:
                nn.init.normal_(each, std=10.0)
    elif case == "encoder_under_no_grad_and_decoder_frozen":
        net.requires_grad_(False)
        net.out.bias.requires_grad_(True)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    monitor = run.watch(net, optimizer)

    def lines(n):
        x = torch.tensor(run.rng.integers(0, letters, (n, length)))
        return x, x.flip(1)

    for _ in range(400):
        x, y = lines(64)
        if case == "letters_of_another_line":
            y = y[torch.randperm(64)]
        seen, state = net.encode(x)
        if case == "code_of_the_encoder_dropped":
            state = torch.zeros_like(state)
        before = torch.cat([torch.full((64, 1), start), y[:, :-1]], 1)
        if case == "truth_not_shifted":
            before = y
        if case == "told_half_of_it":
            lied = torch.rand(before.shape) < 0.2
            lied[:, 0] = False
            before = torch.where(lied, torch.randint(0, letters, before.shape), before)
        out, _ = net.step(before, state, seen)
        if case == "view_instead_of_transpose":
            out = out.transpose(0, 1).reshape(-1, letters)
            loss = functional.cross_entropy(out, y.reshape(-1))
        else:
            loss = functional.cross_entropy(out.transpose(1, 2), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        monitor.record(loss=loss.item())
    x, y = lines(400)
    with torch.no_grad():
        seen, state = net.encode(x)
        if case == "code_of_the_encoder_dropped":
            state = torch.zeros_like(state)
        before, said = torch.full((400, 1), start), []
        for _ in range(length):
            out, state = net.step(before, state, seen)
            before = out.argmax(-1)
            said.append(before)
        right = float((torch.cat(said, 1) == y).float().mean())
    return (right - 1 / letters) / (1 - 1 / letters)


@program(
    three_hours=0.5,
    weight_norm=0.5,
    quantile=0.5,
    differences=0.4,
    answers_of_one_column=fault("broadcasting"),
    watts=fault("unscaled targets"),
    sees_the_hour_itself=fault("target leaks"),
    scaled_by_zero=fault("constant inputs"),
    twenty_filters_without_norm=fault("vanishing"),
    gap_of_a_sensor=fault("NaN in the data"),
)
def load(run: Run, case: str) -> float:
    """How much current a town needs in the next hours; causal filters with holes."""
    import torch
    from torch import nn

    hour = np.arange(2400)
    level = 3 + np.sin(2 * np.pi * hour / 24) + 0.6 * np.sin(2 * np.pi * hour / 168)
    noise = np.zeros(len(hour))
    for i in range(1, len(hour)):
        noise[i] = 0.8 * noise[i - 1] + 0.15 * run.rng.normal()
    series = level + noise
    series = (series - series.mean()) / series.std()
    window, ahead = 48, 3
    starts = np.arange(len(hour) - window - ahead)
    x = np.stack([series[i : i + window] for i in starts]).astype("float32")
    y = np.stack([series[i + window : i + window + ahead] for i in starts]).astype("float32")
    if case == "gap_of_a_sensor":
        x[600:640, 10:20] = np.nan
    if case == "sees_the_hour_itself":
        x[:, -ahead:] = y
    x, y = torch.tensor(x)[:, None], torch.tensor(y)
    if case == "answers_of_one_column":
        y = y[:, 0]
    elif case == "watts":
        y = 3e5 * (y + 4)
    cut = 1800

    class Causal(nn.Module):
        def __init__(self, inputs, outputs, hole):
            super().__init__()
            conv = nn.Conv1d(inputs, outputs, 3, dilation=hole)
            if case == "weight_norm":
                conv = nn.utils.parametrizations.weight_norm(conv)
            self.conv = conv
            self.hole = hole

        def forward(self, x):
            out = self.conv(nn.functional.pad(x, (2 * self.hole, 0)))
            if case == "twenty_filters_without_norm":
                return out.sigmoid()
            return out.relu() + (x if x.shape[1] == out.shape[1] else 0)

    holes = [1] * 20 if case == "twenty_filters_without_norm" else [1, 2, 4, 8, 16]
    blocks = [Causal(1 if i == 0 else 16, 16, hole) for i, hole in enumerate(holes)]
    hours = 1 if case == "answers_of_one_column" else ahead
    net = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(16 * window, hours))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    monitor = run.watch(net, optimizer)

    def error(out, truth):
        if case == "quantile":
            off = truth - out
            return torch.maximum(0.5 * off, -0.5 * off).mean()
        return ((out - truth) ** 2).mean()

    for _ in range(300):
        rows = torch.randint(0, cut, (48,))
        given, truth = x[rows], y[rows]
        if case == "differences":
            truth = truth - given[:, 0, -1:]
        elif case == "scaled_by_zero":
            given = (given - given.mean(-1, keepdim=True)) * 0.0
        loss = error(net(given), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    given, truth = x[cut:], y[cut:]
    if case == "sees_the_hour_itself":
        # What is to come is not there when it is asked for.
        given = given.clone()
        given[:, 0, -ahead:] = given[:, 0, -ahead - 1 : -ahead]
    elif case == "scaled_by_zero":
        given = 0.0 * given
    with torch.no_grad():
        said = net(given)
        if case == "differences":
            said = said + given[:, 0, -1:]
        truth = truth.reshape(said.shape)
        return float(1 - ((said - truth) ** 2).mean() / truth.var(0).mean())
