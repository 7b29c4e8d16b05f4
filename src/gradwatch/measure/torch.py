"""Summaries of torch tensors: eager or compiled, on any device.

There are three ways to measure: `torch_cpu` and `torch_cuda` take all tensors at once,
`torch_plain` takes one by one what those do not.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch

import gradwatch.measure.torch_cpu as torch_cpu
import gradwatch.measure.torch_cuda as torch_cuda
import gradwatch.measure.torch_plain as torch_plain
from gradwatch.core import CELLS, FIELDS

_ORDINARY = (torch.Tensor, torch.nn.Parameter)


def summarize(tensors: Sequence[Any]) -> Any:
    """Packed summaries, one row a tensor; None counts as a tensor without elements."""
    return measure(tensors, ())[0]


def count_cells(tensors: Sequence[Any]) -> Any:
    """Histogram cells, one row a tensor."""
    return measure(tensors, range(len(tensors)))[1]


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(tensors: Sequence[Any], with_cells: Sequence[int]) -> tuple[Any, Any]:
    """Packed summaries of all, and histogram cells of some, in one pass where possible.

    Args:
        tensors: may be on several devices; None counts as a tensor without elements.
        with_cells: the positions of those whose cells are counted.

    Returns:
        The summaries, one row a tensor, and the cells, one row for each of `with_cells`;
        both on the device of the first tensor.

    Raises:
        TypeError: one is spread over processes, as a DTensor.

    Example:

    >>> import torch
    >>> from gradwatch.measure.torch import measure
    >>> rows, cells = measure([torch.ones(3), torch.zeros(2)], [1])
    >>> rows.shape, int(cells.sum())
    (torch.Size([2, 10]), 2)
    """
    _refuse_spread(tensors)
    device = next((x.device for x in tensors if x is not None), torch.device("cpu"))
    if not tensors:
        empty = torch.zeros((0, len(FIELDS)), dtype=torch.float64)
        return empty, torch.zeros((0, CELLS), dtype=torch.int64)
    if torch.compiler.is_compiling() or _is_transforming():
        return torch_plain.measure(tensors, with_cells, device)
    return _by_device(tensors, with_cells, device)


def _by_device(tensors: Sequence[Any], with_cells: Sequence[int], device: Any) -> tuple[Any, Any]:
    """Each device's tensors measured together."""
    usual = _way(device)
    if all(x is None or (type(x) in _ORDINARY and x.device == device) for x in tensors):
        rows, cells = usual.measure(tensors, with_cells, device)
        return rows, cells
    groups: dict[tuple[ModuleType, Any], list[int]] = {}
    for i, x in enumerate(tensors):
        where = device if x is None else x.device
        # A subclass may be spread over machines, or have no values at all.
        way = _way(where) if x is None or type(x) in _ORDINARY else torch_plain
        groups.setdefault((way, where), []).append(i)
    order: list[int] = []
    order_of_cells: list[int] = []
    rows, cells = [], []
    place_of_cells = {i: place for place, i in enumerate(with_cells)}
    for (way, where), positions in groups.items():
        chosen = [at for at, i in enumerate(positions) if i in place_of_cells]
        part = way.measure([tensors[i] for i in positions], chosen, where)
        rows.append(part[0])
        cells.append(part[1])
        order += positions
        order_of_cells += [place_of_cells[positions[at]] for at in chosen]
    return (
        in_order(rows, _inverse(order), device),
        in_order(cells, _inverse(order_of_cells), device),
    )


def _inverse(order: Sequence[int]) -> list[int]:
    """For each number from 0 on, its place in the order."""
    return sorted(range(len(order)), key=order.__getitem__)


def in_order(parts: Sequence[Any], order: Sequence[int], device: Any = None) -> Any:
    """Rows of several parts, brought together.

    Args:
        parts: rows, perhaps on several devices.
        order: for each row of the result, its place among those of all parts.
        device: where they meet; if None that of the first part that is not on the CPU, since a
            copy to there would have to be waited for.
    """
    if device is None:
        elsewhere = (part.device for part in parts if part.device.type != "cpu")
        device = next(elsewhere, parts[0].device)
    together = torch.cat([part.to(device, non_blocking=True) for part in parts])
    if len(order) == len(together) and all(map(operator.eq, order, range(len(order)))):
        return together
    return together.index_select(0, numbers_on(device, tuple(order)))


@lru_cache(maxsize=64)
def numbers_on(device: Any, numbers: tuple[int, ...]) -> Any:
    """Whole numbers as a tensor on a device, to index with."""
    # Kept, as the same are asked for at each step; under any mode of autograd's.
    with torch.inference_mode(False):
        host = torch.tensor(numbers, dtype=torch.int64)
        # From pinned memory the copy joins the device's own queue, and nobody waits for it.
        if device.type == "cuda":
            host = host.pin_memory()
        return host.to(device, non_blocking=True)


def _way(device: Any) -> ModuleType:
    if device.type == "cpu":
        return torch_cpu
    return torch_cuda if device.type == "cuda" and torch_cuda.is_available() else torch_plain


def _refuse_spread(tensors: Sequence[Any]) -> None:
    spread = sys.modules.get("torch.distributed.tensor")
    if spread is not None and any(isinstance(x, spread.DTensor) for x in tensors):
        # Each operation on it would be a collective, for which another rank may never come.
        raise TypeError(
            "A DTensor, which is spread over processes, is recorded only by "
            "gradwatch.watch(module, optimizer). Give record() its part here, tensor.to_local()."
        )


def _is_transforming() -> bool:
    """Whether inside of `torch.func`'s transformations, whose tensors stand for others."""
    return torch._C._functorch.peek_interpreter_stack() is not None
