"""Records copies of a module that must be equal on all ranks, so that a reader can compare them.

Nothing is sent from rank to rank.
"""

import zlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from gradwatch.core import FIELDS, Tensor, TorchModule
from gradwatch.measure.torch import numbers_on

EVERY = 1000
"""Steps from one check to the next, after the first few."""
_FIRST = frozenset({10, 20, 50, 100, 200, 500})
_SUM = FIELDS.index("sum")
_ADDED = frozenset({torch.float64, torch.float32, torch.bfloat16, torch.float16})


def is_check(step: int) -> bool:
    """Whether all ranks record their weights at a step, whatever else they measure.

    It depends only on the step, so it is the same on all ranks. A budget, which chooses
    multiples of 1, 2, 5, 10, ..., measures nearly all of them anyway.
    """
    return step in _FIRST or (step > 0 and step % EVERY == 0)


class Replica:
    """Describes this rank's copy of a module.

    `own` has the ids of parameters that DistributedDataParallel ignores, which may differ.
    """

    def __init__(self, parallel: TorchModule) -> None:
        self._first = dist.get_process_group_ranks(parallel.process_group)[0]
        self._devices = sorted({p.device for p in parallel.module.parameters()}, key=str)
        ignored = getattr(parallel, "parameters_to_ignore", ())
        named = parallel.module.named_parameters()
        self.own: Collection[int] = {id(p) for name, p in named if name in ignored}

    def numbers(self) -> dict[str, float]:
        """`replica_of`, the first rank that has a copy, and `replica_hardware`, a checksum of the
        hardware: copies on equal hardware are equal in every bit."""
        hardware = [torch.__version__, *map(_hardware, self._devices)]
        checksum = zlib.crc32(repr(hardware).encode())
        return {"replica_of": float(self._first), "replica_hardware": float(checksum)}


def with_exact_sums(rows: Tensor, tensors: Sequence[Tensor | None]) -> Tensor:
    """Packed summaries with sums in float64, for the rows whose tensor is not None.

    Other sums are as precise as the fastest kernel. A float64 sum shows a change by one unit in the
    last place of one float32 among a hundred million of about its size.
    """
    chosen = {i: x for i, x in enumerate(tensors) if x is not None and _can_be_added(x)}
    if not chosen:
        return rows
    added = [x.detach().sum(dtype=torch.float64).to(rows.device) for x in chosen.values()]
    sums, place = torch.stack(added), numbers_on(rows.device, tuple(chosen))
    known = rows[place, _SUM]
    # Sums of summaries are of the finite elements.
    rows[place, _SUM] = torch.where(torch.isfinite(sums), sums, known)
    return rows


def _can_be_added(x: Tensor) -> bool:
    # Apple's GPUs have no float64, and float8 has no sums.
    return x.layout is torch.strided and x.dtype in _ADDED and x.device.type != "mps"


def _hardware(device: torch.device) -> tuple[Any, ...]:
    """The hardware of a device, as far as rounding may depend on it."""
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
