"""Measures the tensors of an eager torch step as they arise.

Tensors that wait for the end of the step occupy memory that the training would have freed. So
they are measured in batches before; their rows, which are small, stay on the device until the
end. Nothing here waits for the device.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from threading import Lock

import torch

from gradwatch.core import CELLS, Tensor
from gradwatch.measure.torch import in_order, measure

MOST_WAITING = 16 * 2**20
"""Bytes of tensors that may always wait for their measurement."""
SHARE_WAITING = 1 / 25
"""More may wait, up to this share of the bytes of the parameters."""


class MeasuredRow:
    """Where the row of a tensor is, or will be: the batch, and the indices in it."""

    __slots__ = ("batch", "cells", "row")

    def __init__(self) -> None:
        self.batch = self.row = self.cells = -1


class EagerStep:
    """The measurements of one step, made as its tensors arise.

    `parameters` is the size of the model's parameters in bytes; histograms are due if `counts`.
    """

    def __init__(self, parameters: int, counts: bool) -> None:
        self._most = max(MOST_WAITING, int(parameters * SHARE_WAITING))
        self.counts = counts
        self._waiting: list[tuple[Tensor, bool, MeasuredRow]] = []
        self._bytes = 0
        self._batches: list[tuple[Tensor, Tensor]] = []
        self._error: Exception | None = None
        # The backward pass of several devices has a thread for each.
        self._lock = Lock()

    def add(self, tensor: Tensor | None, with_cells: bool) -> MeasuredRow | None:
        """Measure a tensor, now or in a later batch; it must not change until then.

        It may be called in the backward pass, so `measure` raises its exceptions later.
        """
        if tensor is None:
            return None
        row = MeasuredRow()
        with self._lock:
            try:
                if self._error is None:
                    self._waiting.append((tensor, with_cells and self.counts, row))
                    self._bytes += tensor.numel() * tensor.element_size()
                    if self._bytes >= self._most:
                        self._measure_batch(self._take_waiting())
            except Exception as error:
                self._error, self._waiting = error, []
        return row

    def add_now(
        self, tensors: Sequence[Tensor | None], with_cells: Sequence[bool]
    ) -> list[MeasuredRow]:
        """Measure several tensors at once, now; see `add`."""
        rows = [MeasuredRow() for _ in tensors]
        counted = [is_counted and self.counts for is_counted in with_cells]
        if rows:
            self._measure_batch(list(zip(tensors, counted, rows, strict=True)))
        return rows

    def add_measured(self, rows: Tensor) -> list[MeasuredRow]:
        """Take rows that have been measured already, and have no histograms."""
        cells = torch.zeros((0, CELLS), dtype=torch.int64, device=rows.device)
        places = [MeasuredRow() for _ in range(len(rows))]
        with self._lock:
            self._batches.append((rows, cells))
            for i, place in enumerate(places):
                place.batch, place.row = len(self._batches) - 1, i
        return places

    def measure(
        self, tensors: Sequence[Tensor | MeasuredRow | None], with_cells: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Summaries of all, and histogram cells of some, if due.

        The rows are those that `add` returned; `with_cells` is ascending, as they were added.
        """
        counted = set(with_cells) if self.counts else set()
        with self._lock:
            late = self._take_waiting()
            error, self._error = self._error, None
        if error is not None:
            raise error
        if not (late or self._batches):
            rows, cells = measure(tensors, sorted(counted))
            return rows, cells
        places: list[MeasuredRow] = []
        for i, x in enumerate(tensors):
            if isinstance(x, MeasuredRow):
                places.append(x)
            else:
                places.append(MeasuredRow())
                late.append((x, i in counted, places[-1]))
        if late:
            self._measure_batch(late)
        all_rows, all_cells = map(list, zip(*self._batches, strict=True))
        first, first_cell = _firsts(all_rows), _firsts(all_cells)
        order = [first[p.batch] + p.row for p in places]
        cell_order = [first_cell[p.batch] + p.cells for i, p in enumerate(places) if i in counted]
        return in_order(all_rows, order), in_order(all_cells, cell_order)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def snapshots(self, values: Sequence[Tensor]) -> list[Tensor]:
        copies = [torch.empty_like(value) for value in values]
        if copies:
            # In one call: with hundreds of them, calls take longer than copying.
            torch._foreach_copy_(copies, list(values))
        return copies

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def changes(
        self,
        after: Sequence[Tensor],
        before: Sequence[Tensor],
        keep: Callable[[int, Tensor], Tensor | MeasuredRow | None],
    ) -> list[Tensor | MeasuredRow | None]:
        """after - before of each, in at least float32; of floats this wide, in place of `before`.

        `before` comes from `snapshots`. `keep` returns a substitute for each narrower difference.
        """
        wide = [x.dtype in (torch.float32, torch.float64) for x in before]
        in_place = [x for x, is_wide in zip(before, wide, strict=True) if is_wide]
        if in_place:
            # As exact as a difference, and in two calls.
            torch._foreach_neg_(in_place)
            torch._foreach_add_(in_place, [x for x, yes in zip(after, wide, strict=True) if yes])
        return [
            old if is_wide else keep(i, new.detach().to(torch.float32) - old.to(torch.float32))
            for i, (new, old, is_wide) in enumerate(zip(after, before, wide, strict=True))
        ]

    def _take_waiting(self) -> list[tuple[Tensor, bool, MeasuredRow]]:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        return waiting

    def _measure_batch(self, batch: Sequence[tuple[Tensor, bool, MeasuredRow]]) -> None:
        with_cells = [i for i, (_, is_counted, _) in enumerate(batch) if is_counted]
        self._batches.append(measure([x for x, _, _ in batch], with_cells))
        for i, (_, _, row) in enumerate(batch):
            row.batch, row.row = len(self._batches) - 1, i
        for k, i in enumerate(with_cells):
            batch[i][2].cells = k


def _firsts(batches: Sequence[Tensor]) -> list[int]:
    """The index of the first row of each batch among those of all."""
    return [0, *accumulate(map(len, batches))]
