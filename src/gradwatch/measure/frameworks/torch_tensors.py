"""torch's tensors and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gradwatch.measure import torch as measure

summarize = measure.summarize
numbers_on = measure.numbers_on


def count_cells(tensors: Sequence[Any], due: Any = True) -> Any:
    return measure.count_cells(tensors if due else [])


def summarize_and_count(
    tensors: Sequence[Any], with_cells: Sequence[int], due: Any = True
) -> tuple[Any, Any]:
    rows, cells = measure.measure(tensors, with_cells if due else ())
    return rows, cells


def constant(number: int) -> Any:
    return torch.tensor(number, dtype=torch.int32)


def snapshot(value: Any) -> Any:
    return value.detach().clone()


def copy(tensor: Any) -> Any:
    tensor = tensor.detach()
    tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32), copy=True)


def difference(after: Any, before: Any) -> Any:
    wide = torch.promote_types(after.dtype, torch.float32)
    return after.detach().to(wide) - before.detach().to(wide)


def dead_units(outputs: Any, axis: int) -> Any:
    x = outputs.detach()
    if x.ndim < 2:
        return None
    others = tuple(a for a in range(x.ndim) if a != axis % x.ndim)
    # Not (x == 0).all(), which has a tensor of that size made.
    return x.any(dim=others).logical_not().float()


def is_traced(tensor: Any) -> bool:
    return bool(torch.compiler.is_compiling())


def apart() -> AbstractContextManager[None]:
    return nullcontext()


def fetch(measured: Mapping[str, Any], names: Sequence[str]) -> Callable[[], dict[str, Any]]:
    hosts = {name: _to_host(measured[name]) for name in names}
    copied = [_mark(device) for device in {measured[name].device for name in names}]

    def wait() -> dict[str, Any]:
        for event in copied:
            if event is not None:
                event.synchronize()
        return {name: host.cpu().numpy() for name, host in hosts.items()}

    return wait


def _to_host(tensor: Any) -> Any:
    if not tensor.is_cuda:
        return tensor
    # Into pinned memory, so that the copy joins the device's own queue and the training
    # thread goes on. torch keeps such memory once it is free: taking it costs microseconds
    # and waits for nothing, save the first few times.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def _mark(device: Any) -> Any:
    """An event behind all that a GPU was told so far; None for other devices."""
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        event = torch.cuda.Event()
        event.record()
    return event
