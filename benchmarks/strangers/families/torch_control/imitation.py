"""A network does as an expert did."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


@program(
    squared=0.5,
    tanh_policy=0.5,
    binned=0.4,
    history=0.4,
    small_rate=0.3,
    noisy_expert=0.4,
    actions_in_degrees=fault("output cannot reach the targets", twin="tanh_policy"),
    one_step_late=fault("inputs and targets out of order"),
    output_bias_of_40=fault("saturated", layer=("6", "7"), twin="tanh_policy"),
    rate_decays=fault("rate decays to nothing"),
    heavy_dropout=fault("too much dropout"),
)
def arm(run: Run, case: str) -> float:
    """An arm of two joints reaches for points; the torques of a controller are to be copied."""
    import torch
    from torch import nn

    rng = run.rng
    n = 2400
    state = rng.uniform(-1, 1, (n, 6)).astype("float32")
    angle, speed, goal = state[:, :2], state[:, 2:4], state[:, 4:]
    torque = np.tanh(2.5 * (goal - angle) - 1.2 * speed + 0.5 * np.sin(3 * angle[:, ::-1]))
    clean = torque.astype("float32")
    shown = clean + (0.5 if case == "noisy_expert" else 0.02) * rng.normal(size=clean.shape)
    if case == "actions_in_degrees":
        shown, clean = shown * 57.3 + 90, clean * 57.3 + 90
    elif case == "one_step_late":
        shown = np.roll(shown, 1, 0)
    x, y = torch.tensor(state), torch.tensor(shown.astype("float32"))

    class History(nn.Module):
        """The goal first, then what the joints do."""

        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(2, 32, batch_first=True)
            self.out = nn.Linear(32, 2)

        def forward(self, x):
            return self.out(self.rnn(x.reshape(-1, 3, 2).flip(1))[0][:, -1])

    squashed = ("tanh_policy", "actions_in_degrees", "output_bias_of_40")
    act = nn.Tanh if case in squashed else nn.ReLU
    p = 0.97 if case == "heavy_dropout" else 0.0
    net = nn.Sequential(nn.Linear(6, 64), act(), nn.Dropout(p), nn.Linear(64, 64), act(),
                        nn.Dropout(p), nn.Linear(64, 22 if case == "binned" else 2))  # fmt: skip
    if case in squashed:
        net.append(nn.Tanh())
    elif case == "history":
        net = History()
    if case == "output_bias_of_40":
        nn.init.constant_(net[6].bias, 40.0)
    rate = 2e-4 if case == "small_rate" else 2e-3
    opt = torch.optim.AdamW(net.parameters(), rate)
    plan = torch.optim.lr_scheduler.ExponentialLR(opt, 0.7)
    monitor = run.watch(net, opt)
    bins = torch.linspace(-1, 1, 11)
    for _ in range(300 if case == "small_rate" else 140):
        i = torch.randint(0, 2000, (40,))
        out = net(x[i])
        if case == "binned":
            nearest = (y[i][..., None] - bins).abs().argmin(-1)
            loss = nn.functional.cross_entropy(out.reshape(-1, 11), nearest.reshape(-1))
        else:
            loss = nn.functional.mse_loss(out, y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if case == "rate_decays":
            plan.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        out = net(x[2000:])
        if case == "binned":
            out = (out.reshape(-1, 2, 11).softmax(-1) * bins).sum(-1)
    return score("values", clean[2000:], out.numpy())
