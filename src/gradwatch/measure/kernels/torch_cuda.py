"""Summaries of many torch tensors on a GPU, in a few launches of `triton_kernel`.

Nothing here waits for the device. The host prepares tables for the kernels and keeps them: how
tensors are cut into chunks as long as their sizes are the same, and their addresses on the device
as long as those are.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch

from gradwatch.core import BINS_A_SIDE, CELLS, FIELDS, NONFINITE, ZERO, Tensor
from gradwatch.measure.kernels import cuda_kernel, torch_plain, triton_kernel
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS

BLOCK, STEPS, WARPS = 2048, 32, 8
"""Of the kernel without histograms: elements at a time, how often in a chunk, warps."""
CAREFUL = 1024
MERGED = 512

_KEPT = 32
_KEPT_TABLES = 8


class _Form(NamedTuple):
    """What a plan depends on: a value for each tensor, or the positions of some."""

    dtypes: tuple[Any, ...]
    aligned: tuple[bool, ...]
    counted: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class _Group:
    """Tensors that one launch measures; their chunks are contiguous."""

    dtype: Any
    aligned: bool
    with_cells: bool
    first_chunk: int
    chunks: int


@dataclass
class _Plan:
    """The tables of the kernels for tensors of certain sizes, on the device."""

    order: list[int]
    """The tensors' positions, group by group."""
    groups: list[_Group]
    chunks: int
    largest: int
    sizes: Any
    firsts: Any
    places: Any
    owners: Any
    starts: Any
    counted: Any
    """The places of tensors with histograms in `order`."""
    rows_counted: Any
    """The rows of the same tensors."""
    tables: OrderedDict[tuple[int, ...], Any] = field(default_factory=OrderedDict)
    """The last addresses of such tensors, on the device: those of weights, and of gradients, for
    which torch takes the same memory again and again."""

    @property
    def counter(self) -> Any:
        """An integer type that can count the elements of the largest tensor."""
        return torch.int64 if self.largest >= 2**31 else torch.int32


_plans: OrderedDict[tuple[Any, _Form], _Plan] = OrderedDict()


def is_available() -> bool:
    """Whether Triton is installed."""
    return triton_kernel.AVAILABLE


def measure(tensors: Sequence[Any], with_cells: Sequence[int], device: Any) -> tuple[Any, Any]:
    """Packed summaries of all tensors, and histogram cells of those at some positions."""
    with torch.cuda.device(device):
        flats = [_readable(x, elements()) for x in tensors]
        dtypes = [x.dtype for x in flats]
        counting = {dtype for dtype in set(dtypes) if cuda_kernel.reads(dtype)}
        counted = {i for i in with_cells if dtypes[i] in counting}
        # By map: with hundreds of tensors, what Python does for each adds up.
        addresses = tuple(map(torch.Tensor.data_ptr, flats))
        form = _Form(
            tuple(dtypes),
            tuple([address % 16 == 0 for address in addresses]),
            tuple(sorted(counted)),
            tuple(map(torch.Tensor.numel, flats)),
        )
        plan = _plan(form, device)
        rows, cells = _launch(plan, _addresses(plan, addresses, device), len(flats), device)
        if len(counted) == len(with_cells):
            return rows, cells
        found = iter(cells)
        several = [
            next(found) if i in counted else torch_plain.cells(flats[i], device) for i in with_cells
        ]
        return rows, torch.stack(several)


def _readable(x: Tensor | None, elements: Mapping[torch.dtype, Any]) -> Tensor:
    """A tensor that the kernels can read, nearly always the one given.

    Its elements are contiguous and of one of the types given. Whole numbers become float64.
    """
    if x is None:
        return torch.empty(0, device="cuda")
    is_strided = x.layout is torch.strided and x.is_contiguous() and not x.is_neg()
    if is_strided and x.dtype in elements:
        return x
    x = torch_plain.flat(x)
    if x.dtype in elements:
        return x
    return x.to(torch.float32 if x.is_floating_point() else torch.float64)


@cache
def elements() -> dict[torch.dtype, Any]:
    """The types that the kernels can read, as Triton names them."""
    import triton.language as tl

    elements = {
        torch.float32: tl.float32,
        torch.float64: tl.float64,
        torch.float16: tl.float16,
        torch.bfloat16: tl.bfloat16,
    }
    if torch.cuda.get_device_capability() >= (8, 9):
        elements[torch.float8_e4m3fn] = tl.float8e4nv
        elements[torch.float8_e5m2] = tl.float8e5
    return elements


def _plan(form: _Form, device: Any) -> _Plan:
    plan = _plans.get((device, form))
    if plan is None:
        plan = _plans[device, form] = _make_plan(form, device)
        while len(_plans) > _KEPT:
            _plans.popitem(last=False)
    else:
        _plans.move_to_end((device, form))
    return plan


def _addresses(plan: _Plan, addresses: tuple[int, ...], device: Any) -> Any:
    """The addresses of a plan's tensors, on the device."""
    table = plan.tables.get(addresses)
    if table is None:
        table = to_device([addresses[i] for i in plan.order], device)
        plan.tables[addresses] = table
        while len(plan.tables) > _KEPT_TABLES:
            plan.tables.popitem(last=False)
    else:
        plan.tables.move_to_end(addresses)
    return table


def _make_plan(form: _Form, device: Any) -> _Plan:
    counted = set(form.counted)

    def launch(i: int) -> tuple[bool, str, bool]:
        return i in counted, str(form.dtypes[i]), form.aligned[i]

    order = sorted(range(len(form.sizes)), key=launch)
    sizes = np.array([form.sizes[i] for i in order], np.int64)
    lengths = np.array([_length(i in counted) for i in order])
    counts = -(-sizes // lengths)
    firsts = np.concatenate([[0], np.cumsum(counts)])
    owners = np.repeat(np.arange(len(order)), counts)
    starts = (np.arange(firsts[-1]) - firsts[owners]) * lengths[owners]
    groups = []
    at = 0
    for (with_cells, _, aligned), members in groupby(order, launch):
        several = list(members)
        first, at = at, at + len(several)
        chunks = int(firsts[at] - firsts[first])
        dtype = form.dtypes[several[0]]
        groups.append(_Group(dtype, aligned, with_cells, int(firsts[first]), chunks))
    tables = [to_device(table, device) for table in (sizes, firsts, order, owners, starts)]
    place = {i: at for at, i in enumerate(order)}
    tables.append(to_device([place[i] for i in form.counted], device))
    tables.append(to_device(form.counted, device))
    return _Plan(order, groups, int(firsts[-1]), int(sizes.max()), *tables)


def to_device(numbers: Any, device: Any) -> Any:
    # From pinned memory, so that the copy joins the queue of the device and nothing waits.
    # torch keeps such memory until the copy is made.
    host = torch.from_numpy(np.asarray(numbers, np.int64)).pin_memory()
    return host.to(device, non_blocking=True)


def _length(with_cells: bool) -> int:
    return cuda_kernel.CHUNK if with_cells else BLOCK * STEPS


def _launch(plan: _Plan, addresses: Any, count: int, device: Any) -> tuple[Any, Any]:
    rows = torch.empty((count, len(FIELDS)), dtype=torch.float64, device=device)
    shape = (triton_kernel.PARTS, max(plan.chunks, 1))
    partials = torch.empty(shape, dtype=torch.float64, device=device)
    number = len(plan.counted)
    counts = None
    if number:
        counts = torch.zeros((count, cuda_kernel.KEYS), dtype=plan.counter, device=device)
    for group in plan.groups:
        if group.chunks:
            _measure_group(plan, addresses, group, partials, counts)
    triton_kernel.summaries[(count,)](
        plan.sizes,
        plan.firsts,
        plan.places,
        partials,
        partials.shape[1],
        rows,
        fields=len(FIELDS),
        block=MERGED,
        num_warps=4,
    )
    cells = torch.empty((number, CELLS), dtype=torch.int64, device=device)
    if number:
        triton_kernel.cells[(number,)](
            counts,
            plan.counted,
            plan.rows_counted,
            rows,
            cells,
            fields=len(FIELDS),
            cells=CELLS,
            zero=ZERO,
            nonfinite=NONFINITE,
            keys=cuda_kernel.KEYS,
            lowest=FLOAT32_BITS.lowest,
            top=FLOAT32_BITS.lowest + BINS_A_SIDE,
            infinity=FLOAT32_BITS.infinity >> FLOAT32_BITS.shift,
            num_warps=8,
        )
    return rows, cells


def _measure_group(plan: _Plan, addresses: Any, group: _Group, partials: Any, counts: Any) -> None:
    import triton.language as tl

    tables = (addresses, plan.sizes, plan.owners, plan.starts)
    columns = partials.shape[1]
    kinds = {
        "element": elements()[group.dtype],
        "wide": tl.float64 if group.dtype is torch.float64 else tl.float32,
    }
    if group.with_cells:
        kernel = cuda_kernel.kernel(group.dtype, plan.counter, torch.cuda.current_device())
        kernel(
            grid=(group.chunks, 1, 1),
            block=(cuda_kernel.THREADS, 1, 1),
            args=[*tables, partials, counts, group.first_chunk, columns],
        )
    else:
        triton_kernel.partial_summaries[(group.chunks,)](
            *tables,
            group.first_chunk,
            partials,
            columns,
            **kinds,
            aligned=group.aligned,
            block=BLOCK,
            steps=STEPS,
            num_warps=WARPS,
        )
    triton_kernel.mended_summaries[(group.chunks,)](
        *tables,
        group.first_chunk,
        partials,
        columns,
        **kinds,
        block=CAREFUL,
        steps=_length(group.with_cells) // CAREFUL,
        num_warps=4,
    )
