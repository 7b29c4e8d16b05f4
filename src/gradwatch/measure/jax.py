"""Summaries of JAX arrays, inside or outside `jax.jit`, wherever they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

import gradwatch.measure.jax_local as jax_local
import gradwatch.measure.jax_sharded as jax_sharded
from gradwatch.measure.jax_sharded import DeadUnits


def summarize(tensors: Sequence[Any]) -> Any:
    """Packed summaries, one row a tensor; None counts as a tensor without elements."""
    return summarize_and_count(tensors, (), False)[0]


def count_cells(tensors: Sequence[Any], due: Any = True) -> Any:
    """Histogram cells, one row a tensor; all zero where the flag `due` is false."""
    if is_on_one_device() or not tensors or due is False:
        return jax_local.count_cells(tensors, due)
    return summarize_and_count(tensors, range(len(tensors)), due)[1]


def summarize_and_count(
    tensors: Sequence[Any], with_cells: Sequence[int], due: Any = True
) -> tuple[Any, Any]:
    """Both: summaries of all, and the cells of those at some positions.

    Of arrays that lie on several devices, each device measures what it has, and the results of
    all arrays are brought together at once.

    Args:
        tensors: arrays, None, or `DeadUnits`.
        with_cells: the positions of those of which cells are counted, ascending.
        due: a flag: whether to count cells.
    """
    if not is_on_one_device() and tensors:
        return jax_sharded.summarize_and_count(tensors, with_cells, due)
    known = [x.flags() if isinstance(x, DeadUnits) else x for x in tensors]
    rows = jax_local.summarize(known)
    return rows, jax_local.count_cells([known[i] for i in with_cells], due)


def dead_units(outputs: Any, axis: int) -> Any:
    """For each unit along the axis 1.0 if all its outputs are 0, else 0.0; to be summarised."""
    units = DeadUnits(outputs, axis % outputs.ndim)
    # On several devices, whether a unit is dead is known only when their results meet.
    return units.flags() if is_on_one_device() else units


def is_on_one_device() -> bool:
    """Whether all arrays of this process lie on one device, since it has no other."""
    return bool(jax.device_count() == 1)
