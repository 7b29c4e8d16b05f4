"""Regression on series: wear, signals and waves."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


@program(
    gru=0.5,
    dilated=0.5,
    attention_pooled=0.5,
    chrono_lstm=0.3,
    tbptt=0.4,
    batch_axis_first=fault("information missing"),
    percent_through_sigmoid=fault("output cannot reach the targets"),
    closed_gates=fault("gates closed", layer="rnn", twin="chrono_lstm"),
    half_range=fault("overflow", step=1),
)
def battery(run: Run, case: str) -> float:
    """The capacity that is left, from 60 readings of current and voltage."""
    import torch
    from torch import nn

    rng, n, length = run.rng, 700, 60
    current = rng.normal(size=(n, length)).cumsum(1) * 0.1 + rng.normal(size=(n, length)) * 0.3
    left = 1 - np.tanh(np.abs(current).mean(1) * 0.9)
    voltage = 3.2 + left[:, None] * np.linspace(1, 0.7, length) + 0.1 * rng.normal(size=(n, length))
    x = np.stack([current, voltage - 3.5], -1).astype("float32")
    y = 100 * left if case == "percent_through_sigmoid" else (left - left.mean()) / left.std()
    x, y = torch.tensor(x), torch.tensor(y.astype("float32"))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            if case == "dilated":
                self.convs = nn.ModuleList(
                    nn.Conv1d(2 if k == 0 else 20, 20, 3, dilation=2**k, padding=2 * 2**k)
                    for k in range(4)
                )
            elif case in ("chrono_lstm", "closed_gates"):
                self.rnn = nn.LSTM(2, 20, batch_first=True)
                with torch.no_grad():
                    self.rnn.bias_hh_l0.zero_()
                    self.rnn.bias_ih_l0[20:40] = torch.log(torch.rand(20) * 40 + 1)
                    if case == "closed_gates":
                        self.rnn.bias_ih_l0[:20] = -40.0
                        self.rnn.bias_ih_l0[60:] = -40.0
            else:
                self.rnn = nn.GRU(2, 24, batch_first=case != "batch_axis_first")
            self.query = nn.Linear(24, 1) if case == "attention_pooled" else None
            narrow = case in ("dilated", "chrono_lstm", "closed_gates")
            self.out = nn.Linear(20 if narrow else 24, 1)

        def forward(self, x):
            if case == "dilated":
                h = x.transpose(1, 2)
                for conv in self.convs:
                    h = torch.relu(conv(h)[..., : x.shape[1]])
                return self.out(h[..., -1])[:, 0]
            if case == "tbptt":
                _, state = self.rnn(x[:, :40])
                h, _ = self.rnn(x[:, 40:], state.detach())
            else:
                h, _ = self.rnn(x)
            if case == "half_range":
                h = (h * 3e4 * 4).half().float()
            if self.query is not None:
                return self.out((self.query(h).softmax(1) * h).sum(1))[:, 0]
            out = self.out(h[:, -1])[:, 0]
            return out.sigmoid() if case == "percent_through_sigmoid" else out

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 8e-3)
    monitor = run.watch(net, opt)
    for _ in range(100):
        i = torch.randint(0, 500, (32,))
        loss = nn.functional.mse_loss(net(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return score("values", y[500:].numpy(), net(x[500:]).numpy())


@program(
    fourier=0.6,
    siren=0.6,
    slow_plateau=0.4,
    weight_norm=0.5,
    huge_frequencies=fault("overfits"),
    rate_restart=fault("rate jump", step=201),
    layer_zeroed=fault("layer zeroed", step=231, layer="2"),
)
def signal(run: Run, case: str) -> float:
    """A signal of several frequencies as a function of time, half of its points held out."""
    import torch
    from torch import nn

    t = np.linspace(0, 1, 400)
    y = np.sin(2 * np.pi * 3 * t) + 0.5 * np.sin(2 * np.pi * 11 * t + run.seed)
    y = y + 0.05 * run.rng.normal(size=400)
    order = run.rng.permutation(400)
    t, y = (torch.tensor(v[order].astype("float32"))[:, None] for v in (t, y))
    scale = 3000.0 if case == "huge_frequencies" else 8.0
    waves = torch.randn(1, 24) * scale

    def features(t):
        if case == "siren":
            return 2 * t - 1
        phase = 2 * np.pi * t @ waves
        return torch.cat((phase.sin(), phase.cos()), 1)

    class Sine(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.w = w

        def forward(self, x):
            return torch.sin(self.w * x)

    size = features(t[:1]).shape[1]
    first, second = (Sine(30), Sine(3)) if case == "siren" else (nn.ReLU(), nn.ReLU())
    net = nn.Sequential(nn.Linear(size, 64), first, nn.Linear(64, 64), second, nn.Linear(64, 1))
    if case == "weight_norm":
        net[0], net[2] = (nn.utils.parametrizations.weight_norm(net[k]) for k in (0, 2))
    if case == "slow_plateau":
        # Starts next to a saddle: all of the last two layers is tiny.
        for k in (2, 4):
            nn.init.normal_(net[k].weight, 0, 1e-4)
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    if case == "slow_plateau":
        opt = torch.optim.Adam(net.parameters(), 3e-4)
    monitor = run.watch(net, opt)
    for step in range(1, 241):
        if case == "rate_restart" and step == 201:
            opt.param_groups[0]["lr"] = 3.0
        if case == "layer_zeroed" and step == 231:
            nn.init.zeros_(net[2].weight)
            nn.init.constant_(net[2].bias, -1.0)
        i = torch.randint(0, 200, (50,))
        loss = nn.functional.mse_loss(net(features(t[i])), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
        if step % 20 == 0:
            with torch.no_grad():
                held = nn.functional.mse_loss(net(features(t[200:])), y[200:])
            monitor.record(metrics={"val_loss": held})
    with torch.no_grad():
        return score("values", y[200:].numpy(), net(features(t[200:])).numpy())
