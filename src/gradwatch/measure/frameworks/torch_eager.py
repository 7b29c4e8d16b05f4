"""Measuring a torch step that runs eagerly, where tensors are there before the step has ended.

Whatever waits for the end is memory that the training would have given back. So tensors are
measured in batches as they arise; their rows, which are small, stay on the device until all are
brought together. Nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import torch

from gradwatch.measure import torch as measure

MOST_WAITING = 16 * 2**20
"""Bytes of tensors that may wait for their measurement in any case."""
SHARE_WAITING = 1 / 25
"""As a share of the parameters' bytes, of which a training holds two to four times as much."""


class Place:
    """Where the row of a tensor is that has been measured already, or is about to be."""

    __slots__ = ("cells", "part", "row")

    def __init__(self) -> None:
        self.part = self.row = self.cells = -1


class EagerStep:
    """The measurements of one step, made as its tensors arise.

    Args:
        parameters: the bytes of the model's parameters.
        counts: whether histograms are due.

    Example:

    >>> import torch
    >>> from gradwatch.measure.frameworks.torch_eager import EagerStep
    >>> step = EagerStep(parameters=0, counts=False)
    >>> place = step.add(torch.ones(3), with_cells=False)
    >>> rows, _ = step.together([torch.ones(2), place, None], with_cells=[])
    >>> rows[:, 0].tolist()
    [2.0, 3.0, 0.0]
    """

    def __init__(self, parameters: int, counts: bool) -> None:
        self._most = max(MOST_WAITING, int(parameters * SHARE_WAITING))
        self._counts = counts
        self._waiting: list[tuple[Any, bool, Place]] = []
        self._bytes = 0
        self._parts: list[tuple[Any, Any]] = []
        self._error: Exception | None = None
        # The backward pass of several devices has a thread for each.
        self._lock = Lock()

    def add(self, tensor: Any, with_cells: bool) -> Place | None:
        """Measure a tensor, now or with others that come; it must not change until then.

        It raises nothing, as it may be called in the midst of the backward pass: what went wrong
        is raised by `together`.

        Args:
            tensor: the tensor; of None there is nothing to measure.
            with_cells: whether its histogram is wanted where one is due.
        """
        if tensor is None:
            return None
        place = Place()
        with self._lock:
            try:
                if self._error is None:
                    self._waiting.append((tensor, with_cells and self._counts, place))
                    self._bytes += tensor.numel() * tensor.element_size()
                    if self._bytes >= self._most:
                        self._measure_waiting()
            except Exception as error:
                self._error, self._waiting = error, []
        return place

    def together(self, tensors: Sequence[Any], with_cells: Sequence[int]) -> tuple[Any, Any]:
        """Summaries of all, and histogram cells of those at some positions, if due.

        Args:
            tensors: tensors, or the places of such as were measured before.
            with_cells: the positions, ascending; the same as when they were added.
        """
        counted = set(with_cells) if self._counts else set()
        with self._lock:
            late, self._waiting, self._bytes = self._waiting, [], 0
            error, self._error = self._error, None
        if error is not None:
            raise error
        if not (late or self._parts):
            rows, cells = measure.measure(tensors, sorted(counted))
            return rows, cells
        places: list[Place] = []
        for i, x in enumerate(tensors):
            if type(x) is Place:
                places.append(x)
            else:
                places.append(Place())
                late.append((x, i in counted, places[-1]))
        if late:
            self._measure(late)
        all_rows, all_cells = map(list, zip(*self._parts, strict=True))
        firsts, firsts_of_cells = _firsts(all_rows), _firsts(all_cells)
        with_histogram = [place for i, place in enumerate(places) if i in counted]
        return (
            measure.in_order(all_rows, [firsts[p.part] + p.row for p in places]),
            measure.in_order(
                all_cells, [firsts_of_cells[p.part] + p.cells for p in with_histogram]
            ),
        )

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def snapshots(self, values: Sequence[Any]) -> list[Any]:
        """Copies of variables' values, safe from being updated in place."""
        copies = [torch.empty_like(value) for value in values]
        if copies:
            # In one call: with hundreds of them, calls take longer than copying.
            torch._foreach_copy_(copies, list(values))
        return copies

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def changes(
        self, after: Sequence[Any], before: Sequence[Any], keep: Callable[[int, Any], Any]
    ) -> list[Any]:
        """after - before of each, in at least float32; of floats this wide, in `before`'s memory.

        Args:
            after: variables' values.
            before: `snapshots` of them.
            keep: of narrower ones, takes the position and a difference that was made; gives what
                is put in its place.
        """
        wide = [x.dtype in (torch.float32, torch.float64) for x in before]
        there = [x for x, is_wide in zip(before, wide, strict=True) if is_wide]
        if there:
            # As exact as a difference, and in two calls.
            torch._foreach_neg_(there)
            torch._foreach_add_(there, [x for x, yes in zip(after, wide, strict=True) if yes])
        return [
            old if is_wide else keep(i, new.detach().to(torch.float32) - old.to(torch.float32))
            for i, (new, old, is_wide) in enumerate(zip(after, before, wide, strict=True))
        ]

    def _measure_waiting(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._measure(waiting)

    def _measure(self, several: Sequence[tuple[Any, bool, Place]]) -> None:
        with_cells = [i for i, (_, is_counted, _) in enumerate(several) if is_counted]
        part = measure.measure([x for x, _, _ in several], with_cells)
        number = len(self._parts)
        self._parts.append(part)
        for row, (_, _, place) in enumerate(several):
            place.part, place.row = number, row
        for row, i in enumerate(with_cells):
            several[i][2].cells = row


def _firsts(parts: Sequence[Any]) -> list[int]:
    """Where the rows of each part begin among those of all."""
    firsts = [0]
    for part in parts:
        firsts.append(firsts[-1] + len(part))
    return firsts
