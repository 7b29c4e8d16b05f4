"""torch tensors and parameters: eager or compiled, on any device.

Three modules of `kernels` measure them: `torch_cpu` and `torch_cuda` take all tensors at once,
`torch_plain` takes the others one by one.
"""

import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch

from gradwatch.core import CELLS, FIELDS, Tensor, Tree
from gradwatch.measure.framework import Fetched, vector_axes
from gradwatch.measure.kernels import torch_cpu, torch_cuda, torch_plain
from gradwatch.measure.tensor_groups import measure_groups

NAME = "torch"

_ORDINARY = (torch.Tensor, torch.nn.Parameter)


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(
    tensors: Sequence[Tensor | None], with_cells: Sequence[int] = (), due: Any = True
) -> tuple[Tensor, Tensor]:
    """Packed summaries of all, and histogram cells of some, in one pass where possible.

    Tensors may be on several devices; the results are on that of the first. Without `due` there are
    no rows of cells. A DTensor raises a TypeError.
    """
    _refuse_dtensors(tensors)
    with_cells = with_cells if due else ()
    # Not `next`, which torch before 2.6 does not compile.
    devices = [x.device for x in tensors if x is not None]
    device = devices[0] if devices else torch.device("cpu")
    if not tensors:
        empty = torch.zeros((0, len(FIELDS)), dtype=torch.float64)
        return empty, torch.zeros((0, CELLS), dtype=torch.int64)
    if torch.compiler.is_compiling() or _is_transforming():
        return torch_plain.measure(tensors, with_cells, device)
    kernel = _kernel(device)
    if all(x is None or (type(x) in _ORDINARY and x.device == device) for x in tensors):
        rows, cells = kernel.measure(tensors, with_cells, device)
        return rows, cells
    groups: dict[tuple[ModuleType, torch.device], list[int]] = {}
    for i, x in enumerate(tensors):
        where = device if x is None else x.device
        # A subclass may be distributed over machines, or have no values at all.
        kernel = _kernel(where) if x is None or type(x) in _ORDINARY else torch_plain
        groups.setdefault((kernel, where), []).append(i)
    kernels = iter(groups)

    def measure_group(group: Sequence[int], counted: list[int]) -> tuple[Tensor, Tensor]:
        kernel, where = next(kernels)
        rows, cells = kernel.measure([tensors[i] for i in group], counted, where)
        return rows, cells

    found = measure_groups(groups.values(), with_cells, measure_group)
    return (
        in_order(found.rows, found.row_order, device),
        in_order(found.cells, found.cell_order, device),
    )


def in_order(
    parts: Sequence[Tensor], order: Sequence[int], device: torch.device | None = None
) -> Tensor:
    """The rows of several parts, concatenated and reordered by their indices among all of them.

    If `device` is None, the result is on that of the first part that is not on the CPU, because a
    copy from there to the CPU would wait.
    """
    if device is None:
        elsewhere = (part.device for part in parts if part.device.type != "cpu")
        device = next(elsewhere, parts[0].device)
    joined = torch.cat([part.to(device, non_blocking=True) for part in parts])
    if len(order) == len(joined) and all(map(operator.eq, order, range(len(order)))):
        return joined
    return joined.index_select(0, numbers_on(device, tuple(order)))


@lru_cache(maxsize=64)
def numbers_on(device: torch.device, numbers: tuple[int, ...]) -> Tensor:
    """Whole numbers as a tensor on a device, to index with; kept, since steps repeat them."""
    with torch.inference_mode(False):  # To be usable in every mode of autograd.
        host = torch.tensor(numbers, dtype=torch.int64)
        # From pinned memory the copy joins the queue of the device: nothing waits.
        if device.type == "cuda":
            host = host.pin_memory()
        return host.to(device, non_blocking=True)


def _kernel(device: torch.device) -> ModuleType:
    if device.type == "cpu":
        return torch_cpu
    return torch_cuda if device.type == "cuda" and torch_cuda.is_available() else torch_plain


def _refuse_dtensors(tensors: Sequence[Tensor | None]) -> None:
    module = sys.modules.get("torch.distributed.tensor")
    if module is not None and any(isinstance(x, module.DTensor) for x in tensors):
        # Each operation on it would be a collective, which another rank may never join.
        raise TypeError(
            "A DTensor, which is spread over processes, is recorded only by "
            "gradwatch.watch(module, optimizer). Give record() its part here, tensor.to_local()."
        )


def _is_transforming() -> bool:
    """Whether inside a transformation of `torch.func`, whose tensors stand for others."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def measure_one(tensor: Tensor) -> Tensor:
    return measure([tensor])[0][0]


def constant(number: int) -> Tensor:
    return torch.tensor(number, dtype=torch.int32)


def snapshot(value: Tensor) -> Tensor:
    return value.detach().clone()


def copy(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32), copy=True)


def difference(after: Tensor, before: Tensor) -> Tensor:
    wide = torch.promote_types(after.dtype, torch.float32)
    return after.detach().to(wide) - before.detach().to(wide)


def bias_correction(decay: Any, count: Any) -> Any:
    if isinstance(decay, torch.Tensor):
        return -torch.expm1(count * torch.log(decay))
    logarithm = math.log(decay) if decay > 0 else -math.inf
    if isinstance(count, torch.Tensor):
        return -torch.expm1(count * logarithm)
    return -math.expm1(count * logarithm)


@torch.no_grad()  # type: ignore[untyped-decorator]
def normalized(gradient: Tensor, second: Tensor, correction: Any, floor: Any) -> Tensor:
    root = _at_least(_root(second), floor)
    return torch.div(_wide(gradient), root, out=root).mul_(correction**0.5)


@torch.no_grad()  # type: ignore[untyped-decorator]
def below(second: Tensor, floor: Any) -> Tensor:
    return (_root(second) < floor).float()


@torch.no_grad()  # type: ignore[untyped-decorator]
def cosine(a: Tensor, b: Tensor) -> Tensor:
    a, b = _scaled(a), _scaled(b)
    norms = torch.linalg.vector_norm(a) * torch.linalg.vector_norm(b)
    # Of an empty tensor, or of zeros alone, the norm is 0; of any other it is at least 1.
    return (a * b).sum() / torch.where(norms == 0, 1.0, norms)


def _scaled(x: Tensor) -> Tensor:
    """With 1 as the largest magnitude, so that no square overflows or underflows."""
    x = _wide(x)
    if not x.numel():
        return x
    largest = torch.linalg.vector_norm(x, float("inf"))
    return x / torch.where(largest == 0, 1.0, largest)


def _at_least(x: Tensor, floor: Any) -> Tensor:
    """In place of x."""
    if isinstance(floor, torch.Tensor):
        return torch.maximum(x, floor, out=x)
    return x.clamp_(min=floor)


def _root(x: Tensor) -> Tensor:
    return _wide(x).clamp(min=0).sqrt_()


def _wide(x: Tensor) -> Tensor:
    x = x.detach()
    x = x if x.layout is torch.strided else x.to_dense()
    return x.to(torch.promote_types(x.dtype, torch.float32))


def dead_units(outputs: Tensor, axis: int) -> Tensor | None:
    x = outputs.detach()
    if x.ndim < 2:
        return None
    others = tuple(a for a in range(x.ndim) if a != axis % x.ndim)
    # Not (x == 0).all(), which makes a tensor of that size.
    return x.any(dim=others).logical_not().float()


def outside(x: Tensor, low: float, high: float) -> Tensor:
    x = x.float()
    return ((x <= low) | (x >= high)).float()


def expert_load(scores: Tensor, choices: int) -> Tensor:
    experts = scores.shape[-1]
    chosen = scores.detach().topk(min(choices, experts), dim=-1).indices.flatten()
    counts = torch.zeros(experts, dtype=torch.int64, device=scores.device)
    return counts.scatter_add_(0, chosen, torch.ones_like(chosen)).float()


def residual_ratio(branch: Tensor, stream: Tensor) -> Tensor:
    wide = torch.promote_types(branch.dtype, torch.float32)
    axes = vector_axes(branch.ndim)
    with torch.no_grad():
        norms = [
            torch.linalg.vector_norm(x.detach(), dim=axes, dtype=wide) for x in (branch, stream)
        ]
        return (norms[0] / norms[1]).masked_fill(norms[0] == 0, 0.0)


def is_traced(tensor: Tensor) -> bool:
    return bool(torch.compiler.is_compiling())


def aside() -> AbstractContextManager[None]:
    return nullcontext()


def use_copies(outputs: Tree) -> None:
    pass


def fetch_number(number: Tensor) -> float | Callable[[], float]:
    if not isinstance(number, torch.Tensor) or number.device.type == "cpu":
        return float(number.detach() if isinstance(number, torch.Tensor) else number)
    wait = fetch({"number": copy(number)}, ["number"])
    return lambda: float(wait()["number"].reshape(()))


def fetch(measured: Mapping[str, Tensor], names: Sequence[str]) -> Fetched:
    hosts = {name: _to_host(measured[name]) for name in names}
    copied = [_event(device) for device in {measured[name].device for name in names}]

    def wait() -> dict[str, Any]:
        for event in copied:
            if event is not None:
                event.synchronize()
        return {name: host.cpu().numpy() for name, host in hosts.items()}

    return wait


def _to_host(tensor: Tensor) -> Tensor:
    if not tensor.is_cuda:
        return tensor
    # Into pinned memory, so that the copy joins the queue of the device and the training thread
    # goes on. torch reuses such memory: after the first few times, taking it costs microseconds.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def _event(device: torch.device) -> Any:
    """An event behind all work of a GPU so far; None for other devices."""
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        # Who waits for it sleeps: a thread that spins would take a core from training.
        event = torch.cuda.Event(blocking=True)
        event.record()
    return event
