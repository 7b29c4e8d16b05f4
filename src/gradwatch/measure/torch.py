"""Summaries of torch tensors: eager or compiled, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradwatch.histogram import BINS_A_SIDE, CELLS, NONFINITE, ZERO
from gradwatch.measure.layout import FLOAT32_BITS, FLOAT64_BITS, FloatBits
from gradwatch.summary import FIELDS, IDENTITY


@torch.no_grad()  # type: ignore[untyped-decorator]
def summarize(tensors: Sequence[Any]) -> Any:
    """Packed summaries, one row a tensor; None counts as a tensor without elements."""
    device = _device(tensors)
    if not tensors:
        return torch.zeros((0, len(FIELDS)), dtype=torch.float64)
    # Tensors of one model may sit on several devices; the rows meet on the first.
    return torch.stack([_summary(x, device).to(device) for x in tensors])


@torch.no_grad()  # type: ignore[untyped-decorator]
def count_cells(tensors: Sequence[Any]) -> Any:
    """Histogram cells, one row a tensor."""
    device = _device(tensors)
    if not tensors:
        return torch.zeros((0, CELLS), dtype=torch.int64)
    return torch.stack([_cells(x, device).to(device) for x in tensors])


def _summary(x: Any, device: Any) -> Any:
    if x is None or x.numel() == 0:
        return torch.tensor(IDENTITY, dtype=torch.float64, device=device)
    x = _widen(x)
    wide = _accumulator(x)
    # Norms and sums of another dtype convert element by element, without a copy of x.
    squares = torch.linalg.vector_norm(x, dtype=wide).square()
    if _may_look(x) and bool(torch.isfinite(squares)):
        none = torch.zeros_like(squares)
        nan, posinf, neginf, kept = none, none, none, x
        low, high = torch.aminmax(x)
    else:
        finite = torch.isfinite(x)
        nan, posinf, neginf = torch.isnan(x).sum(), (x == torch.inf).sum(), (x == -torch.inf).sum()
        kept = torch.where(finite, x, 0.0)
        squares = torch.linalg.vector_norm(kept, dtype=wide).square()
        low = torch.where(finite, x, torch.inf).amin()
        high = torch.where(finite, x, -torch.inf).amax()
    count = torch.full((), x.numel(), dtype=wide, device=x.device)
    row = (
        count,
        nan,
        posinf,
        neginf,
        count - torch.count_nonzero(x),
        kept.sum(dtype=wide),
        torch.linalg.vector_norm(kept, 1, dtype=wide),
        squares,
        low,
        high,
    )
    return torch.stack([value.to(wide) for value in row])


def _may_look(x: Any) -> bool:
    # On the CPU a value is there to be looked at; elsewhere looking would make
    # the training thread wait for the device, and in a compiled step break the graph.
    return bool(x.device.type == "cpu" and not torch.compiler.is_compiling())


def _cells(x: Any, device: Any) -> Any:
    if x is None or x.numel() == 0:
        return torch.zeros(CELLS, dtype=torch.int64, device=device)
    x = _widen(x).reshape(-1)
    bits, form = _bits(x)
    magnitude = bits & form.magnitude
    place = ((magnitude >> form.shift) - form.lowest).clamp(-1, BINS_A_SIDE)
    cell = torch.where(bits < 0, ZERO - 2 - place, ZERO + 2 + place)
    cell = torch.where(magnitude == 0, ZERO, cell)
    cell = torch.where(magnitude >= form.infinity, NONFINITE, cell).to(torch.int64)
    # Not torch.bincount, which waits for the device to learn its own size.
    cells = torch.zeros(CELLS, dtype=torch.int64, device=x.device)
    return cells.scatter_add_(0, cell, torch.ones_like(cell))


def _widen(x: Any) -> Any:
    """float32 for the narrower floats, which is exact; float64 for whole numbers."""
    if x.is_complex():
        raise TypeError(f"Complex tensors cannot be summarised. Received: dtype={x.dtype}")
    x = x.detach()
    if x.layout is not torch.strided:
        x = x.to_dense()
    if x.is_floating_point():
        return x if x.dtype == torch.float64 else x.to(torch.float32)
    return x.to(_accumulator(x))


def _accumulator(x: Any) -> Any:
    # Apple's GPUs have no float64; there, sums have float32's precision.
    return torch.float32 if x.device.type == "mps" else torch.float64


def _bits(x: Any) -> tuple[Any, FloatBits]:
    form = FLOAT64_BITS if x.dtype == torch.float64 else FLOAT32_BITS
    return x.contiguous().view(getattr(torch, form.integer)), form


def _device(tensors: Sequence[Any]) -> Any:
    return next((x.device for x in tensors if x is not None), torch.device("cpu"))
