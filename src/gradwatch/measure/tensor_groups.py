"""Measuring tensors group by group, and bringing the results back into order."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gradwatch.core import Tensor


class GroupResults(NamedTuple):
    """Rows and cells by group, and their order.

    `row_order` has, for each tensor, the index of its row among those of all groups; `cell_order`
    the same for each tensor whose cells were counted.
    """

    rows: list[Tensor]
    row_order: list[int]
    cells: list[Tensor]
    cell_order: list[int]


def measure_groups(
    groups: Iterable[Sequence[int]],
    with_cells: Sequence[int],
    measure: Callable[[Sequence[int], list[int]], tuple[Tensor, Tensor]],
) -> GroupResults:
    """Measure groups of positions of tensors, each by itself.

    `measure` takes a group, and the indices of those of its members whose cells are counted.
    """
    index_of = {i: k for k, i in enumerate(with_cells)}
    order: list[int] = []
    cell_order: list[int] = []
    rows, cells = [], []
    for group in groups:
        counted = [k for k, i in enumerate(group) if i in index_of]
        group_rows, group_cells = measure(group, counted)
        rows.append(group_rows)
        cells.append(group_cells)
        order += group
        cell_order += [index_of[group[k]] for k in counted]
    return GroupResults(rows, _inverse(order), cells, _inverse(cell_order))


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)
