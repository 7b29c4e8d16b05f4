"""One process of several: runs the scenarios named on the command line, one after the other.

python train.py OUT RANK WORLD_SIZE SCENARIO...
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import gradwatch
from gradwatch.capture.loop import shard_meeting
from gradwatch.capture.torch import torch_ranks
from gradwatch.sinks import Sink, pipeline
from gradwatch.watches.budget import Pacer
from tests.distributed.full_disk import bytes_of_journals
from tests.distributed.patience import PATIENCE, be_patient, until, until_written
from tests.distributed.torch import models

OUT, RANK, RANKS = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
WATCH = [gradwatch.gradients(), gradwatch.weights(), gradwatch.updates()]


def wrapped(how, name):
    model = models.make(name)
    if how == "ddp":
        return DistributedDataParallel(model)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if name == "mixed" else None
    keywords = {} if policy is None else {"mp_policy": policy}
    for child in model:
        if any(True for _ in child.parameters()):
            fully_shard(child, **keywords)
    return fully_shard(model, **keywords)


def backward(how, name, model, step, micro_batches=1):
    """The gradients of a step; over several backward passes, of which only the last is reduced."""
    x, y = models.part(models.batch(name, step), RANK, RANKS)
    total = 0.0
    for i, (xs, ys) in enumerate(zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True)):
        is_last = i == micro_batches - 1
        if how == "fsdp":
            model.set_requires_gradient_sync(is_last)
        with nullcontext() if how == "fsdp" or is_last else model.no_sync():
            loss = models.loss_of(model, xs, ys, how == "ddp" and name == "mixed") / micro_batches
            loss.backward()
        total += loss.detach()
    return total


def train(
    how,
    name,
    directory=None,
    steps=models.STEPS,
    micro_batches=1,
    each_step=None,
    is_in_step=True,
    **options,
):
    """Train, and wait after each step until it is recorded: how fast that is proves nothing here.

    Not if `is_in_step` is False: if ranks do not record together, nothing may ever be.
    """
    model = wrapped(how, name)
    optimizer = models.optimizer_of(model)
    monitor = None
    if directory is not None:
        options = {"every": 1, "watch": WATCH, "sinks": [gradwatch.Store()], **options}
        place = OUT / directory if isinstance(directory, str) else directory
        monitor = gradwatch.watch(model, optimizer, place, **options)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = backward(how, name, model, step, micro_batches)
        optimizer.step()
        if monitor is not None:
            monitor.record(loss=loss)
            if is_in_step:
                until_written(monitor)
        if each_step is not None:
            each_step(step, monitor)
    if monitor is not None:
        monitor.close()
    return whole(model)


def whole(model):
    """All weights and buffers, on every rank."""
    return {
        key.removeprefix("module."): x.full_tensor() if isinstance(x, DTensor) else x
        for key, x in model.state_dict().items()
    }


def save(name, content):
    torch.save(content, OUT / f"{name}-rank{RANK}.pt")


def truth():
    """All models, with and without the monitor."""
    for how in ("ddp", "fsdp"):
        for name in models.MODELS:
            micro_batches = 2 if name == "plain" else 1
            bare = train(how, name, None, micro_batches=micro_batches)
            watched = train(how, name, f"{how}-{name}", micro_batches=micro_batches)
            save(f"{how}-{name}", {"bare": bare, "watched": watched})


def collectives():
    """How many collectives there are, of training's and of ours."""
    counts = {}
    for how in ("ddp", "fsdp"):
        for directory in (None, f"{how}-counted"):
            ours = count_ours()
            with torch.profiler.profile() as profile:
                train(how, "plain", directory, steps=6, every=3)
            theirs = Counter(e.name for e in profile.events() if e.name.startswith("c10d::"))
            if directory == "fsdp-counted":
                # That they all leave together is told in one more.
                until(lambda ours=ours: len(ours) >= 6)
            counts[how, directory is not None] = (dict(theirs), list(ours))
    save("collectives", counts)


def count_ours():
    sizes = []
    reduced = torch_ranks.TorchRanks._reduced

    def counted(self, numbers, how):
        sizes.append(len(numbers))
        return reduced(self, numbers, how)

    torch_ranks.TorchRanks._reduced = counted
    return sizes


class Hanging(Sink):
    of_each_rank = True

    def write(self, reading):
        time.sleep(1000)


def trouble():
    """A rank whose disk is full, whose sink hangs, whose monitor is closed, or is not there."""
    is_first = RANK == 0
    bare = train("fsdp", "plain", steps=12)
    found = {"bare": bare}
    (OUT / f"file-{RANK}").write_text("in the way")
    place = "no-disk" if is_first else f"file-{RANK}/run"
    found["no-disk"] = train("fsdp", "plain", place, steps=12)
    found["full"], number = {}, 0
    for full in (0, 1):
        for how in ("ddp", "fsdp"):
            name, place = f"full-{full}-{how}", OUT / "disk" / f"run{number}"
            directory = place if full == RANK else OUT / name
            found[name] = train(how, "plain", directory, steps=12)
            found["full"][name] = bytes_of_journals(place)
            number += 1
    found["bare-ddp"] = train("ddp", "plain", steps=12)
    sinks = [gradwatch.Store()] if is_first else [Hanging()]
    pipeline.CLOSING_TIME = 2.0  # It will hang.
    found["hanging"] = train("fsdp", "plain", "hanging", steps=12, sinks=sinks, is_in_step=is_first)
    be_patient()

    def close_early(step, monitor):
        if step == 5 and not is_first:
            monitor.close()

    alone = {"steps": 12, "is_in_step": False}
    found["closed"] = train("fsdp", "plain", "closed", each_step=close_early, **alone)
    every = 1 if is_first else gradwatch.schedule.never()
    found["paused"] = train("fsdp", "plain", "paused", every=every, **alone)
    found["alone"] = train("fsdp", "plain", "alone" if is_first else None, **alone)

    def epochs_of_the_first(step, monitor):
        if is_first:
            monitor.record(epoch=1 if step < 3 else 2)

    found["epochs"] = train(
        "fsdp",
        "plain",
        "epochs",
        steps=12,
        every=2,
        watch=gradwatch.gradients(histogram="epoch"),
        each_step=epochs_of_the_first,
    )
    save("trouble", found)


def failing():
    """Measuring fails on one rank at one step."""
    from gradwatch.capture.torch.torch_sharded import Shards

    is_counted = Shards.is_counted
    calls = []

    def sometimes(self, tensor):
        calls.append(1)
        if RANK == 1 and len(calls) == 20:
            raise MemoryError("no room on rank 1")
        return is_counted(self, tensor)

    Shards.is_counted = sometimes
    save("failing", train("fsdp", "plain", "failing", steps=12))
    Shards.is_counted = is_counted


def budget():
    """No schedule but the budget; each rank would choose for itself."""
    own_wish = 7 + 2 * RANK
    Pacer.pace = property(lambda pacer: (own_wish, False))
    options = {"every": None, "budget": 0.05, "watch": None}
    save("budget", train("fsdp", "plain", "budget", steps=150, **options))


def others():
    """Modules that are not wrapped, wrapped in what is refused, or looked into."""
    kinds = [gradwatch.gradients(), gradwatch.outputs(), gradwatch.output_gradients()]
    options = {"every": 1, "watch": kinds, "sinks": [gradwatch.Store()], "diagnose": False}
    for how in ("ddp", "fsdp"):
        train(how, "plain", f"outputs-{how}", **options)
    os.chdir(OUT)
    found = {}
    model = models.make("plain")
    optimizer = models.optimizer_of(model)
    monitor = gradwatch.watch(model, optimizer, **options)  # In a directory that nobody names.
    x, y = models.part(models.batch("plain", 1), RANK, RANKS)
    models.loss_of(model, x, y).backward()
    found["own"] = {name: p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    monitor.close()
    found["directory"] = str(monitor.directory)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        old = FullyShardedDataParallel(models.make("plain"), device_id=torch.device("cpu"))
        gradwatch.watch(old, models.optimizer_of(old), OUT / "fsdp1", **options).close()
        sharded = wrapped("fsdp", "plain")
        backward("fsdp", "plain", sharded, 1)
        with gradwatch.Monitor(OUT / "recorded", **options) as monitor:
            monitor.record(variables=sharded)
    found["said"] = [str(each.message) for each in said]
    # As on two machines; it is uploaded when the process ends.
    remote = gradwatch.store.Remote(f"file://{OUT}/remote/run", staging=OUT / f"staging-{RANK}")
    train("fsdp", "plain", remote)
    save("others", found)


def hybrid():
    """Four ranks: sharded in pairs, and each pair a copy of the other."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
    model = fully_shard(models.make("plain"), mesh=mesh)
    optimizer = models.optimizer_of(model)
    options = {"every": 1, "watch": WATCH, "sinks": [gradwatch.Store()]}
    with gradwatch.watch(model, optimizer, OUT / "hybrid", **options):
        for step in range(1, models.STEPS + 1):
            optimizer.zero_grad()
            backward("fsdp", "plain", model, step)
            optimizer.step()


def killed():
    """One rank is killed in the midst of training."""

    def kill(step, monitor):
        if step == 7 and RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        train("ddp", "plain", "killed", steps=100, each_step=kill)
    except RuntimeError as error:
        print("the training of rank 0 has ended:", type(error).__name__)


def met():
    """The store of the first rank, at a port that it is given, and tells in a file."""
    told = OUT / "port"
    if RANK == 0:
        store = dist.TCPStore("127.0.0.1", 0, RANKS, is_master=True, wait_for_workers=False)
        told.with_suffix(".new").write_text(str(store.port))
        told.with_suffix(".new").rename(told)
        return store
    until(told.exists)
    return dist.TCPStore("127.0.0.1", int(told.read_text()), RANKS)


def main():
    warnings.simplefilter("ignore", gradwatch.GradwatchWarning)
    torch.set_num_threads(1)
    be_patient()
    shard_meeting.PATIENCE = PATIENCE
    dist.init_process_group("gloo", store=met(), rank=RANK, world_size=RANKS)
    for scenario in sys.argv[4:]:
        began = time.perf_counter()
        globals()[scenario]()
        if RANK == 0:
            print(f"{scenario}: {time.perf_counter() - began:.1f} s", flush=True)
    if "killed" not in sys.argv:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
