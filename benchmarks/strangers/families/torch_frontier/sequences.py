"""Sequences: letters without their places, answers token by token, and a long memory."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run
from .loop import mlp, train


def _edits(a, b):
    """How many letters are to be changed, put in or left out."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


@program(
    convolution=0.5,
    recurrent=0.4,
    lengths_after_pooling=fault("no sample counts", twin="convolution"),
    letters_from_zero=fault("blank is a letter", twin="convolution"),
)
def spoken(run: Run, case: str) -> float:
    """Five letters in 24 frames, trained by CTC; 0 is to say nothing."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    rng, n, frames = run.rng, 1500, 24
    sound = rng.normal(size=(5, 10))
    x, y = rng.normal(size=(n, frames, 10)) * 0.4, rng.integers(1, 5, (n, 5))
    for i in range(n):
        at = 0
        for letter in y[i]:
            at += rng.integers(0, 2)
            until = at + rng.integers(2, 5)
            x[i, at:until] += sound[letter]
            at = until
    x, y = torch.tensor(x.astype("float32")), torch.tensor(y)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(10, 64, 5, padding=2)
            self.more = nn.Conv1d(64, 64, 3, padding=1)
            self.rnn = nn.GRU(64, 48, batch_first=True) if case == "recurrent" else None
            self.head = nn.Linear(64 if self.rnn is None else 48, 5)

        def forward(self, x):
            h = F.relu(self.more(F.relu(self.conv(x.mT)))).mT
            return self.head(h if self.rnn is None else self.rnn(h)[0])

    net = Net()
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    length = frames // 8 if case == "lengths_after_pooling" else frames

    def loss_of(_):
        i = torch.randint(0, 1200, (48,))
        out = net(x[i])
        out = out.log_softmax(2)
        wanted = y[i] - 1 if case == "letters_from_zero" else y[i]
        return F.ctc_loss(out.transpose(0, 1), wanted, torch.full((48,), length),
                          torch.full((48,), 5), zero_infinity=True)  # fmt: skip

    train(run, net, opt, 180, loss_of)
    with torch.no_grad():
        best = net(x[1200:]).argmax(2).numpy()
    kept = [row[(row != 0) & (row != np.append(0, row[:-1]))] for row in best]
    if case == "letters_from_zero":
        kept = [row + 1 for row in kept]
    wrong = [_edits(list(a), list(b)) / 5 for a, b in zip(kept, y[1200:].numpy(), strict=True)]
    return max(-1.0, 1 - float(np.mean(wrong)))


@program(
    teacher_forced=0.4,
    own_tokens_now_and_then=0.4,
    not_shifted=fault("target leaks"),
    attention_over_the_batch=fault("softmax over the wrong axis"),
)
def reverse(run: Run, case: str) -> float:
    """Six tokens backwards, by an encoder, attention and a decoder."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    words, length = 8, 6

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(words + 1, 32)
            self.encoder = nn.GRU(32, 64, batch_first=True, bidirectional=True)
            self.bridge = nn.Linear(128, 64)
            self.cell = nn.GRUCell(32 + 128, 64)
            self.query = nn.Linear(64, 128)
            self.head = nn.Linear(64 + 128, words)

        def forward(self, source, given, own=0.0):
            seen, last = self.encoder(self.embed(source))
            h = torch.tanh(self.bridge(torch.cat((last[0], last[1]), 1)))
            token, out = given[:, 0], []
            for k in range(length):
                match = (seen @ self.query(h)[..., None])[..., 0] / 11
                weight = match.softmax(0 if case == "attention_over_the_batch" else 1)
                context = (weight[..., None] * seen).sum(1)
                h = self.cell(torch.cat((self.embed(token), context), 1), h)
                out.append(self.head(torch.cat((h, context), 1)))
                if k + 1 < length:
                    free = torch.rand(len(source)) < own
                    token = torch.where(free, out[-1].argmax(1), given[:, k + 1])
            return torch.stack(out, 1)

    def inputs(y):
        if case == "not_shifted":
            return y
        return torch.cat((torch.full_like(y[:, :1], words), y[:, :-1]), 1)

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 6e-3)

    def loss_of(step):
        x = torch.randint(0, words, (64, length))
        y = x.flip(1)
        own = step / 400 if case == "own_tokens_now_and_then" else 0.0
        return F.cross_entropy(net(x, inputs(y), own).flatten(0, 1), y.flatten())

    train(run, net, opt, 200, loss_of)
    x = torch.randint(0, words, (300, length))
    with torch.no_grad():
        out = net(x, torch.full_like(x, words), own=1.0)
    right = float((out.argmax(2) == x.flip(1)).float().mean())
    return (right - 1 / words) / (1 - 1 / words)


@program(
    slow_modes=0.5,
    oscillating=0.5,
    modes_beyond_one=fault("exploding"),
    modes_that_forget=fault("memory too short"),
)
def state_space(run: Run, case: str) -> float:
    """The mean of the first eight of 60 values, from the last state of diagonal modes."""
    import torch
    from torch import nn

    n, length = 3000, 60
    u = torch.tensor(run.rng.normal(size=(n, length)).astype("float32"))
    y = torch.tanh(2 * u[:, :8].mean(1))

    class Modes(nn.Module):
        """64 modes that decay, and may turn, each at a rate of its own."""

        def __init__(self, modes=64):
            super().__init__()
            slow = {"modes_that_forget": 0.7, "modes_beyond_one": -0.25}.get(case, 0.004)
            self.decay = nn.Parameter(slow * torch.linspace(1, 8, modes))
            turn = 2 * torch.pi / length * torch.arange(modes) / 4
            self.turn = nn.Parameter(turn if case == "oscillating" else torch.zeros(modes))
            self.mix = nn.Parameter(torch.randn(2 * modes, 1) * 0.3)

        def forward(self, u):
            back = torch.arange(length - 1, -1, -1.0)[:, None]
            size = torch.exp(-back * self.decay)
            angle = back * self.turn
            kernel = torch.cat((size * torch.cos(angle), size * torch.sin(angle)), 1)
            return (u @ kernel) * self.mix[:, 0] / 4

    net = nn.Sequential(Modes(), mlp(128, 64, 1))
    opt = torch.optim.Adam(net.parameters(), 3e-3)

    def loss_of(_):
        i = torch.randint(0, 2500, (100,))
        return nn.functional.mse_loss(net(u[i])[:, 0], y[i])

    train(run, net, opt, 400, loss_of)
    with torch.no_grad():
        return score("values", y[2500:].numpy(), net(u[2500:]).numpy())
