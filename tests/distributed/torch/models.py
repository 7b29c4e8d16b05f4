"""Models and batches that all processes, and the one that knows the truth, make alike."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import nn

STEPS, BATCH, LEARNING_RATE = 4, 8, 0.01
MODELS = ("plain", "batchnorm", "embedding", "mixed")


def make(name):
    torch.manual_seed(1234)
    if name == "batchnorm":
        return nn.Sequential(
            nn.Conv1d(3, 5, 3, bias=False),
            nn.BatchNorm1d(5),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(20, 2),
        )
    if name == "embedding":
        return nn.Sequential(nn.Embedding(11, 7), nn.Flatten(), nn.Linear(42, 2))
    # 301 does not divide by the number of ranks, and 1 is less than it.
    return nn.Sequential(nn.Linear(6, 301), nn.Tanh(), nn.Linear(301, 1))


def batch(name, step):
    """The global batch of a step, of all ranks together."""
    chance = torch.Generator().manual_seed(step)
    if name == "embedding":
        x = torch.randint(11, (BATCH, 6), generator=chance)
    elif name == "batchnorm":
        x = torch.randn((BATCH, 3, 6), generator=chance)
    else:
        x = torch.randn((BATCH, 6), generator=chance)
    width = 1 if name in ("plain", "mixed") else 2
    return x, torch.randn((BATCH, width), generator=chance)


def part(tensors, rank, count):
    """What of a batch a rank is given."""
    return [x.chunk(count)[rank] for x in tensors]


def loss_of(model, x, y, autocast=False):
    with torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
        answer = model(x)
    return nn.functional.mse_loss(answer.float(), y)


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.5)
