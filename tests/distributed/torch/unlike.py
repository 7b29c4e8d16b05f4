"""One of several processes, of which one may be unlike the others: runs what it is told.

python unlike.py OUT RANK WORLD_SIZE SCENARIO...
"""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gradwatch
from gradwatch.capture.loop import shard_meeting
from gradwatch.capture.torch import torch_own_time
from tests.distributed.patience import PATIENCE, be_patient

OUT, RANK, RANKS = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
UNLIKE = RANKS - 1
"""The rank that is."""
STEPS, AT = 25, 15
WATCH = [gradwatch.gradients(), gradwatch.weights(), gradwatch.outputs()]


class Root(nn.Module):
    """Not finite where it is given something very negative."""

    def forward(self, x):
        return torch.sqrt(x + 50.0) - 7.0


class Clock:
    """Time that passes as it is told to, whatever the machine has to do."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def model_of(has_buffers=False):
    torch.manual_seed(1)
    norm = nn.BatchNorm1d(8) if has_buffers else nn.Identity()
    return nn.Sequential(nn.Linear(5, 8), norm, Root(), nn.Linear(8, 1))


def batch(step):
    chance = torch.Generator().manual_seed(100 * step + RANK)
    return torch.randn((6, 5), generator=chance), torch.randn((6, 1), generator=chance)


def through(parallel, x):
    return parallel(x)


def train(
    directory,
    *,
    before=None,
    after=None,
    loading=None,
    call=through,
    has_buffers=False,
    wrap=DistributedDataParallel,
    **options,
):
    """Train, with things done before and after some steps; returns the weights, and findings."""
    parallel = wrap(model_of(has_buffers))
    hooks = len(parallel._forward_hooks), len(parallel._forward_pre_hooks)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.001, momentum=0.5)
    clock = torch_own_time.clock = Clock()
    options = {"every": 1, "watch": WATCH, "sinks": [gradwatch.Store()], **options}
    monitor = None
    if directory is not None:
        monitor = gradwatch.watch(parallel, optimizer, OUT / directory, **options)
    for step in range(1, STEPS + 1):
        began = clock.now
        x, y = batch(step)
        if before is not None:
            x = before(step, x)
        clock.now += 0.010 if loading is None else loading(step)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(call(parallel, x), y)
        loss.backward()
        clock.now = began + 0.050  # All have waited for the slowest.
        optimizer.step()
        if monitor is not None:
            monitor.record(loss=loss)
        if after is not None:
            with torch.no_grad():
                after(step, parallel.module)
    if monitor is None:
        return parallel.state_dict(), []
    monitor.close()
    assert hooks == (len(parallel._forward_hooks), len(parallel._forward_pre_hooks))
    return parallel.state_dict(), [finding.title for finding in monitor.findings]


def healthy():
    """Without and with the monitor."""
    found = {}
    for has_buffers in (False, True):
        bare, _ = train(None, has_buffers=has_buffers)
        watched, _ = train(f"healthy-{has_buffers}", has_buffers=has_buffers)
        found[has_buffers] = bare, watched
    torch.save(found, OUT / f"healthy-{RANK}.pt")


def copied():
    """A module that is watched is copied, pickled and compiled."""
    parallel = DistributedDataParallel(model_of())
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.001)
    with gradwatch.watch(parallel, optimizer, OUT / "copied", every=1, watch=WATCH[:2]):
        own = copy.deepcopy(parallel.module)
        pickle.loads(pickle.dumps(parallel.module))
        hooks = [*parallel._forward_pre_hooks.values(), *parallel._forward_hooks.values()]
        copy.deepcopy(hooks), pickle.dumps(hooks)
        x, _ = batch(1)
        for module in (parallel.module, parallel):
            whole = torch.compile(lambda x, module=module: module(x), backend="eager")
            assert torch.equal(whole(x), own(x))


def counted():
    """How many collectives there are, without and with the monitor."""
    counts = []
    for directory in (None, "counted"):
        with torch.profiler.profile() as profile:
            train(directory)
        counts.append(Counter(e.name for e in profile.events() if e.name.startswith("c10d::")))
    torch.save(counts, OUT / f"counted-{RANK}.pt")


def nan():
    """One rank is given what a layer in the middle makes NaN of."""

    def poison(step, x):
        return x - 1e9 if step == AT and RANK == UNLIKE else x

    _, found = train("nan", before=poison)
    torch.save(found, OUT / f"nan-{RANK}.pt")


def corrupted(name, change):
    def corrupt(step, module):
        if step == AT and RANK == UNLIKE:
            flat = module[3].weight.view(-1)
            flat[2] = change(flat[2])

    train(name, after=corrupt)


def corrupted_little():
    """One weight of one rank is changed by one unit in its last place."""
    corrupted("corrupted_little", lambda x: torch.nextafter(x, torch.tensor(9.0)))


def corrupted_much():
    """One weight of one rank is changed by a lot."""
    corrupted("corrupted_much", lambda x: x + 1.0)


def repaired():
    """It is changed, and later made right again."""

    def change(step, module):
        weight = module[3].weight
        if step == 5 and RANK == UNLIKE:
            weight += 1.0
        if step == AT:
            dist.broadcast(weight, 0)

    train("repaired", after=change)


def apart():
    """Nobody averages gradients: the module is called past its wrapper."""
    train("apart", call=lambda parallel, x: parallel.module(x))


def slow():
    """One rank takes long to load its data."""
    seconds = 0.030 if RANK == UNLIKE else 0.010
    train("slow", loading=lambda step: seconds)


def slow_with_buffers():
    """The same where the forward pass begins with a broadcast."""
    seconds = 0.030 if RANK == UNLIKE else 0.010
    train("slow_with_buffers", loading=lambda step: seconds, has_buffers=True)


def gathering(module, args):
    """Stands for the time in which a sharded module waits for the others' parameters."""
    if RANK != UNLIKE:
        torch_own_time.clock.now += 0.020


def slow_sharded():
    """The same where the forward pass begins with waiting for the parameters."""

    def sharded(module):
        module = fully_shard(module)
        module.register_forward_pre_hook(gathering, prepend=True)
        return module

    seconds = 0.030 if RANK == UNLIKE else 0.010
    train("slow_sharded", loading=lambda step: seconds, wrap=sharded)


def budgets():
    """No schedule but the budget, which is another on each rank."""
    own = {"every": None, "budget": 0.01 * (1 + 9 * RANK), "watch": None}
    train("budgets", **own)


def main():
    be_patient()
    shard_meeting.PATIENCE = PATIENCE
    warnings.simplefilter("ignore", gradwatch.GradwatchWarning)
    torch.set_num_threads(1)
    # By a file: no port that another process may take first.
    store = f"file://{OUT.absolute()}/store"
    dist.init_process_group("gloo", init_method=store, rank=RANK, world_size=RANKS)
    for scenario in sys.argv[4:]:
        globals()[scenario]()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
