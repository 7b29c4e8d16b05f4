"""Copies of a module that must be the same on all ranks, recorded now and then to be compared.

Whoever reads the run compares them: nothing is sent from rank to rank.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from gradwatch.core import FIELDS
from gradwatch.measure.torch import numbers_on

EVERY = 1000
"""Steps from one check to the next, once there were the first few."""
_FIRST = frozenset({10, 20, 50, 100, 200, 500})
_SUM = FIELDS.index("sum")
_ADDED = frozenset({torch.float64, torch.float32, torch.bfloat16, torch.float16})


def is_check(step: int) -> bool:
    """Whether all ranks record their weights at a step, whatever else they measure at it.

    The same steps on all ranks, so it depends on nothing but the step. A budget, which chooses
    multiples of 1, 2, 5, 10, ..., measures nearly all of them anyway.

    >>> from gradwatch.capture.torch.torch_replicas import is_check
    >>> [step for step in range(3001) if is_check(step)]
    [10, 20, 50, 100, 200, 500, 1000, 2000, 3000]
    """
    return step in _FIRST or (step > 0 and step % EVERY == 0)


class Replica:
    """What this rank says of its copy of a module, beside the weights themselves.

    Args:
        parallel: the DistributedDataParallel that keeps the copies alike.

    Attributes:
        own: ids of parameters that it was told to leave alone, which may differ.
    """

    def __init__(self, parallel: Any) -> None:
        self._first = dist.get_process_group_ranks(parallel.process_group)[0]
        self._devices = sorted({p.device for p in parallel.module.parameters()}, key=str)
        left_alone = getattr(parallel, "parameters_to_ignore", ())
        named = parallel.module.named_parameters()
        self.own: Collection[int] = {id(p) for name, p in named if name in left_alone}

    def numbers(self) -> dict[str, float]:
        """`replica_of`, the first of the ranks that have copies, and `replica_hardware`, which
        stands for what this rank computes on: where that is the same, so is every bit."""
        computers = [torch.__version__, *map(_computer, self._devices)]
        hardware = zlib.crc32(repr(computers).encode())
        return {"replica_of": float(self._first), "replica_hardware": float(hardware)}


def with_exact_sums(rows: Any, tensors: Sequence[Any]) -> Any:
    """Summaries whose sums are of float64's precision, where a tensor is given.

    Others are of that of the fastest way to measure. Added in float64, a change by one unit in
    the last place of one float32 in a hundred million of about its size is seen.

    Args:
        rows: packed summaries.
        tensors: for each row the tensor, or None to leave it.
    """
    chosen = tuple(i for i, x in enumerate(tensors) if x is not None and _can_be_added(x))
    if not chosen:
        return rows
    added = [tensors[i].detach().sum(dtype=torch.float64).to(rows.device) for i in chosen]
    sums, place = torch.stack(added), numbers_on(rows.device, chosen)
    known = rows[place, _SUM]
    # Sums of summaries are of the finite elements.
    rows[place, _SUM] = torch.where(torch.isfinite(sums), sums, known)
    return rows


def _can_be_added(x: Any) -> bool:
    # Apple's GPUs have no float64, and float8 no sums.
    return x.layout is torch.strided and x.dtype in _ADDED and x.device.type != "mps"


def _computer(device: Any) -> tuple[Any, ...]:
    """What computes on a device, as far as its rounding may depend on it."""
    if device.type == "cuda":
        return "cuda", torch.cuda.get_device_name(device), torch.version.cuda
    capability = torch.backends.cpu.get_cpu_capability()
    return device.type, _processor(), capability, torch.get_num_threads()


@cache
def _processor() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line for line in lines if line.startswith("model name")), "")
    return ""
