"""What the programs of this family share: a loop, and small networks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ...run import Run


def train(
    run: Run, net: Any, opt: Any, steps: int, loss_of: Callable[[int], Any], scheduler: Any = None
) -> None:
    """The loop of most programs, with the monitor in it.

    Args:
        loss_of: gives the loss of a step; it draws its batch itself.
        scheduler: stepped after each step.
    """
    monitor = run.watch(net, opt)
    for step in range(steps):
        loss = loss_of(step)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if scheduler is not None:
            scheduler.step()
        monitor.record(loss=loss)


def mlp(*sizes: int, act: Any = None, out: Any = None) -> Any:
    """Linear layers with an activation between them."""
    from torch import nn

    layers: list[Any] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), (act or nn.ReLU)()]
    return nn.Sequential(*layers[:-1], *([out] if out is not None else []))


def moons(rng: Any, n: int) -> Any:
    """Two half circles that reach into each other, with mean 0 and deviation 1: x and y."""
    import sklearn.datasets

    x, y = sklearn.datasets.make_moons(n, noise=0.07, random_state=int(rng.integers(1 << 30)))
    return ((x - x.mean(0)) / x.std(0)).astype("float32"), y
