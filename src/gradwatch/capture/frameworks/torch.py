"""torch's tensors and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gradwatch.measure import torch as measure

summarize = measure.summarize


def count_cells(tensors: Sequence[Any], due: Any = True) -> Any:
    return measure.count_cells(tensors if due else [])


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
    return (x == 0).all(dim=others).float()


def is_traced(tensor: Any) -> bool:
    return bool(torch.compiler.is_compiling())


def fetch(measured: Mapping[str, Any], names: Sequence[str]) -> Callable[[], dict[str, Any]]:
    waits = {name: _copy_to_host(measured[name]) for name in names}
    return lambda: {name: wait() for name, wait in waits.items()}


def _copy_to_host(tensor: Any) -> Callable[[], Any]:
    if not tensor.is_cuda:
        return lambda: tensor.cpu().numpy()
    # Into pinned memory, so that the copy joins the device's own queue and the
    # training thread goes on.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()

    def wait() -> Any:
        copied.synchronize()
        return host.numpy()

    return wait
