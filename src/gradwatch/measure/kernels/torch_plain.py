"""Summaries of torch tensors one by one, by operations of every device and compiler.

Nothing reads a value, so that the graph of a compiled step stays whole and the training thread
does not wait for a device. `torch_cpu` and `torch_cuda` are faster where they apply.
"""

from collections.abc import Sequence
from typing import Any

import torch

from gradwatch.core import BINS_A_SIDE, CELLS, IDENTITY, NONFINITE, ZERO
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS, FLOAT64_BITS, FloatBits


def measure(tensors: Sequence[Any], with_cells: Sequence[int], device: Any) -> tuple[Any, Any]:
    """Packed summaries of all tensors, and histogram cells of those at some positions."""
    rows = torch.stack([_summary(x, device).to(device) for x in tensors])
    counts = [cells(tensors[i], device).to(device) for i in with_cells]
    empty = torch.zeros((0, CELLS), dtype=torch.int64, device=device)
    return rows, torch.stack(counts) if counts else empty


def _summary(x: Any, device: Any) -> Any:
    if x is None or x.numel() == 0:
        return torch.tensor(IDENTITY, dtype=torch.float64, device=device)
    x = widened(x)
    wide = _accumulator(x)
    finite = torch.isfinite(x)
    kept = torch.where(finite, x, 0.0)
    count = torch.full((), x.numel(), dtype=wide, device=x.device)
    row = (
        count,
        torch.isnan(x).sum(),
        (x == torch.inf).sum(),
        (x == -torch.inf).sum(),
        count - torch.count_nonzero(x),
        # Norms and sums of another dtype convert element by element, without a copy of x.
        kept.sum(dtype=wide),
        torch.linalg.vector_norm(kept, 1, dtype=wide),
        torch.linalg.vector_norm(kept, dtype=wide).square(),
        torch.where(finite, x, torch.inf).amin(),
        torch.where(finite, x, -torch.inf).amax(),
    )
    return torch.stack([value.to(wide) for value in row])


def cells(x: Any, device: Any) -> Any:
    """The histogram cells of a tensor; those of None are on the device given."""
    if x is None or x.numel() == 0:
        return torch.zeros(CELLS, dtype=torch.int64, device=device)
    x = widened(x).reshape(-1)
    bits, form = _bits(x)
    magnitude = bits & form.magnitude
    place = ((magnitude >> form.shift) - form.lowest).clamp(-1, BINS_A_SIDE)
    cell = torch.where(bits < 0, ZERO - 2 - place, ZERO + 2 + place)
    cell = torch.where(magnitude == 0, ZERO, cell)
    cell = torch.where(magnitude >= form.infinity, NONFINITE, cell).to(torch.int64)
    # Not torch.bincount, which waits for the device to learn its own size.
    counts = torch.zeros(CELLS, dtype=torch.int64, device=x.device)
    return counts.scatter_add_(0, cell, torch.ones_like(cell))


def dense(x: Any) -> Any:
    """The tensor, detached and not sparse; a complex one raises a TypeError."""
    if x.is_complex():
        raise TypeError(f"Complex tensors cannot be summarised. Received: dtype={x.dtype}")
    x = x.detach()
    return x if x.layout is torch.strided else x.to_dense()


def flat(x: Any) -> Any:
    """All elements in one dimension, in any order; a copy only if they are not contiguous."""
    if x.layout is torch.strided and x.is_contiguous() and not (x.is_complex() or x.is_neg()):
        return x if x.ndim == 1 else x.view(-1)  # Nearly always, and fast.
    x = dense(x)
    if x.is_neg():
        x = x.resolve_neg()  # A view that negates as it is read.
    if not x.is_contiguous():
        # No statistic depends on the order, so transposed and channels-last tensors stay in place.
        stride = x.stride()
        x = x.permute(sorted(range(x.ndim), key=stride.__getitem__, reverse=True))
    return x.reshape(-1)


def widened(x: Any) -> Any:
    """float32 for the narrower floats, which is exact; float64 for whole numbers."""
    x = dense(x)
    if x.is_floating_point():
        return x if x.dtype == torch.float64 else x.to(torch.float32)
    return x.to(_accumulator(x))


def _accumulator(x: Any) -> Any:
    # Apple's GPUs have no float64; there, sums have float32's precision.
    return torch.float32 if x.device.type == "mps" else torch.float64


def _bits(x: Any) -> tuple[Any, FloatBits]:
    form = FLOAT64_BITS if x.dtype == torch.float64 else FLOAT32_BITS
    return x.contiguous().view(getattr(torch, form.integer)), form
