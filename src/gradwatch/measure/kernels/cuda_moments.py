"""What an optimizer's step did to many variables on a GPU, in a few launches of `triton_moments`.

As in `torch_cuda`, nothing waits for the device, and tables are kept as long as sizes are the same.
The addresses, and the numbers of each variable, go to the device in one copy at every step.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch

from gradwatch.core import FIELDS, Tensor
from gradwatch.measure.kernels import (
    triton_kernel,
    triton_mending,
    triton_moments,
    triton_table,
)
from gradwatch.measure.kernels.torch_cuda import MERGED, elements, to_device

BLOCK, STEPS, PER, WARPS = 1024, 128, 4, 8
"""Elements at a time, how often in a chunk, how many next to each other a thread reads, warps."""
CAREFUL = 1024
ROWS = triton_table.ROLES + 1

_KEPT = 32
_ORDINARY = (torch.Tensor, torch.nn.Parameter)
_NARROW = (torch.float32, torch.bfloat16, torch.float16)


class StepMoments(NamedTuple):
    """Of a variable: its tensors after a step, of one shape; those not there are not measured."""

    gradient: Tensor
    weight: Tensor
    before: Tensor = None
    """The weight before the step."""
    first: Tensor = None
    second: Tensor = None
    """What the update rule takes the root of, before it is divided by `correction`."""
    correction: Any = 1.0
    floor: Any = None
    """As in `HeldMoments`; None if the rule does not divide by a root that is known."""
    is_descent: bool = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.gradient, self.first, self.second, self.weight, self.before


class _MomentForm(NamedTuple):
    """What one launch measures together."""

    dtype: str
    aligned: bool
    has_first: bool
    has_second: bool
    has_floor: bool
    has_before: bool
    is_away: bool
    """Whether correction and floor are tensors on the device."""


@dataclass(frozen=True)
class _MomentPlan:
    """The tables for variables of certain sizes, on the device, but those of `torch_cuda._Plan`."""

    order: list[int]
    groups: list[tuple[_MomentForm, Any, int, int]]
    """Each with the type of its elements, its first chunk, and their number."""
    chunks: int
    sizes: Any
    firsts: Any
    places: Any
    owners: Any
    starts: Any


_plans: OrderedDict[Any, _MomentPlan] = OrderedDict()


def reads(x: Tensor) -> bool:
    """Whether the kernels can read a tensor."""
    return bool(
        x.is_cuda
        and triton_kernel.AVAILABLE
        and type(x) in _ORDINARY
        and x.dtype in _NARROW
        and x.layout is torch.strided
        and x.is_contiguous()
        and not x.is_neg()
    )


def can_measure(one: StepMoments) -> bool:
    """Whether the kernels can read the tensors of a variable together."""
    weight = one.weight
    if not reads(weight):
        return False
    dtype, shape, device = weight.dtype, weight.shape, weight.device
    # Without a call for each: this is asked of all tensors at every step.
    for x in (one.gradient, one.first, one.second, one.before):
        if x is not None and (
            x.dtype is not dtype or x.shape != shape or x.device != device or not reads(x)
        ):
            return False
    return True


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(several: Sequence[StepMoments], device: Any) -> Tensor:
    """Packed summaries: of each role a row for each variable, then a row each for the cosines.

    The roles are those of `triton_table`. Rows of what is not there mean nothing.
    """
    with torch.cuda.device(device):
        return _launch(several, device)


def _launch(several: Sequence[StepMoments], device: Any) -> Tensor:
    addresses = [[0 if x is None else x.data_ptr() for x in each.tensors] for each in several]
    forms = tuple(map(_form, several, addresses))
    plan = _plan(forms, several, device)
    table = to_device(_table([addresses[i] for i in plan.order], several, plan.order), device)
    count, roles = len(several), triton_table.ROLES
    rows = torch.empty((count * ROWS, len(FIELDS)), dtype=torch.float64, device=device)
    shape = (triton_kernel.PARTS, max(plan.chunks, 1) * roles)
    partials = torch.empty(shape, dtype=torch.float64, device=device)
    products = torch.empty(max(plan.chunks, 1), dtype=torch.float64, device=device)
    for form, dtype, first, chunks in plan.groups:
        if chunks:
            _measure_group(plan, form, dtype, first, chunks, table, partials, products)
    triton_kernel.summaries[(count * roles,)](
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
    triton_mending.cosines[(count,)](
        table,
        count,
        plan.firsts,
        plan.places,
        products,
        rows,
        roles=roles,
        fields=len(FIELDS),
        block=MERGED,
        num_warps=4,
    )
    return rows


def _form(one: StepMoments, addresses: Sequence[int]) -> _MomentForm:
    return _MomentForm(
        str(one.weight.dtype),
        all(address % 16 == 0 for address in addresses),
        one.first is not None,
        one.second is not None,
        one.second is not None and one.floor is not None,
        one.before is not None,
        isinstance(one.floor, torch.Tensor),
    )


def _table(
    addresses: Sequence[Sequence[int]], several: Sequence[StepMoments], order: Sequence[int]
) -> Any:
    """A column for each variable: its addresses, then its numbers, or theirs."""
    table = np.empty((8, len(order)), np.int64)
    table[:5] = np.array(addresses, np.int64).T
    ones = [several[i] for i in order]
    is_away = np.array([isinstance(one.floor, torch.Tensor) for one in ones])
    for row, values in ((5, [x.correction for x in ones]), (6, [x.floor for x in ones])):
        pairs = list(zip(values, is_away.tolist(), strict=True))
        pointers = [x.data_ptr() if away else 0 for x, away in pairs]
        numbers = [0.0 if away or x is None else float(x) for x, away in pairs]
        table[row] = np.where(is_away, pointers, np.array(numbers).view(np.int64))
    table[7] = np.array([-1.0 if one.is_descent else 1.0 for one in ones]).view(np.int64)
    return table


def _plan(
    forms: tuple[_MomentForm, ...], several: Sequence[StepMoments], device: Any
) -> _MomentPlan:
    key = device, forms, tuple([each.weight.numel() for each in several])
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _make_plan(forms, key[2], [x.weight.dtype for x in several], device)
        while len(_plans) > _KEPT:
            _plans.popitem(last=False)
    else:
        _plans.move_to_end(key)
    return plan


def _make_plan(
    forms: Sequence[_MomentForm], numbers: Sequence[int], dtypes: Sequence[Any], device: Any
) -> _MomentPlan:
    order = sorted(range(len(forms)), key=forms.__getitem__)
    sizes = np.array([numbers[i] for i in order], np.int64)
    counts = -(-sizes // (BLOCK * STEPS))
    firsts = np.concatenate([[0], np.cumsum(counts)])
    chunks = int(firsts[-1])
    owners = np.repeat(np.arange(len(order)), counts)
    starts = (np.arange(chunks) - firsts[owners]) * (BLOCK * STEPS)
    groups = []
    at = 0
    for form, members in groupby(order, forms.__getitem__):
        those = list(members)
        begin, at = at, at + len(those)
        first, last = int(firsts[begin]), int(firsts[at])
        groups.append((form, dtypes[those[0]], first, last - first))
    roles = range(triton_table.ROLES)
    # Each role has a part of the partial results, as if it were more variables.
    of_all = [
        np.concatenate([sizes for _ in roles]),
        np.concatenate([*(firsts[:-1] + r * chunks for r in roles), [len(roles) * chunks]]),
        np.concatenate([np.array(order) + r * len(order) for r in roles]),
        owners,
        starts,
    ]
    return _MomentPlan(order, groups, chunks, *(to_device(table, device) for table in of_all))


def _measure_group(
    plan: _MomentPlan,
    form: _MomentForm,
    dtype: Any,
    first: int,
    chunks: int,
    table: Tensor,
    partials: Tensor,
    products: Tensor,
) -> None:
    arguments = (
        table,
        len(plan.order),
        plan.sizes,
        plan.owners,
        plan.starts,
        first,
        partials,
        products,
        plan.chunks,
    )
    kinds = {
        "element": elements()[dtype],
        "has_first": form.has_first,
        "has_second": form.has_second,
        "has_floor": form.has_floor,
        "has_weight": True,
        "has_before": form.has_before,
        "is_away": form.is_away,
        "roles": triton_table.ROLES,
    }
    triton_moments.moment_partials[(chunks,)](
        *arguments,
        **kinds,
        aligned=form.aligned,
        block=BLOCK,
        steps=STEPS,
        per=PER,
        num_warps=WARPS,
    )
    triton_mending.mended_moments[(chunks,)](
        *arguments, **kinds, length=BLOCK * STEPS, block=CAREFUL, num_warps=4
    )
