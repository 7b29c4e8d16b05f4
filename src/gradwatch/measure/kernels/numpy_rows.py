"""Summaries and histogram cells of many NumPy arrays, in few calls.

All arrays are copied together, as float64, a batch at a time that fits the cache, and reduced
between the places where they begin. Nothing is rounded on the way to the sums but the sums.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import (
    BINS_A_SIDE,
    CELLS,
    FIELDS,
    IDENTITY,
    NONFINITE,
    ZERO,
    Summary,
    Tensor,
    reference,
)
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS

Array = NDArray[Any]
Part = tuple[int, Array]
"""Some elements of an array, by its number."""

BATCH = 1 << 17
"""Elements. Its two buffers of 1 MB stay in the cache."""
_COUNT, _NAN, _POSINF, _NEGINF, _ZEROS, _SUM, _ABS, _SQUARES, _MIN, _MAX = range(len(FIELDS))


def summarize(tensors: Sequence[Tensor | None]) -> Array:
    """Packed summaries, one row an array; None counts as an array without elements."""
    flats = _flat(tensors)
    rows = np.tile(IDENTITY, (len(flats), 1))
    buffers = np.empty((2, min(BATCH, sum(x.size for x in flats))))
    tables, owners = _by_batches(flats, lambda parts: _of_batch(parts, buffers))
    if owners:
        which, starts = np.unique(owners, return_index=True)
        rows[which] = Summary.merged_runs(np.concatenate(tables).T, starts).pack()
    # Anything that is not finite shows in the sum of magnitudes.
    for i in map(int, np.flatnonzero(~np.isfinite(rows[:, _ABS]))):
        rows[i] = reference.summarize(flats[i])
    return rows


def count_cells(tensors: Sequence[Tensor | None]) -> Array:
    """Histogram cells, one row an array."""
    flats = _flat(tensors)
    cells = np.zeros((len(flats), CELLS), np.int64)
    for i, x in enumerate(flats):
        if x.dtype == np.float64:
            cells[i] = reference.count_cells(x)
    floats = [x if x.dtype == np.float32 else x[:0] for x in flats]
    tables, owners = _by_batches(floats, _cells_of_batch)
    for owner, counts in zip(owners, itertools.chain(*tables), strict=True):
        cells[owner] += counts
    return cells


def _by_batches(
    flats: Sequence[Array], reduce: Callable[[Sequence[Array]], Array]
) -> tuple[list[Array], list[int]]:
    """What parts of the arrays are reduced to, batch by batch; and the array of each part."""
    batches = list(_batches(flats))
    tables = [reduce([part for _, part in batch]) for batch in batches]
    return tables, [owner for batch in batches for owner, _ in batch]


def _flat(tensors: Sequence[Tensor | None]) -> list[Array]:
    """Arrays with one axis, of float32 for it and narrower floats, which is exact; else float64."""
    flats = []
    for tensor in tensors:
        x = np.empty(0, np.float32) if tensor is None else np.asarray(tensor).reshape(-1)
        if x.dtype not in (np.float32, np.float64):
            if np.iscomplexobj(x):
                raise TypeError(f"Complex tensors cannot be summarised. Received: dtype={x.dtype}")
            # Narrow floats of other libraries are of no kind that NumPy knows.
            is_narrow = x.dtype.itemsize <= 2 and x.dtype.kind in "fV"
            x = x.astype(np.float32 if is_narrow else np.float64)
        flats.append(x)
    return flats


def _batches(flats: Sequence[Array]) -> Iterator[list[Part]]:
    """The arrays in order, small ones together and large ones in parts."""
    batch: list[Part] = []
    room = BATCH
    for i, x in enumerate(flats):
        start = 0
        while start < x.size:
            part = x[start : start + room]
            batch.append((i, part))
            start, room = start + part.size, room - part.size
            if not room:
                yield batch
                batch, room = [], BATCH
    if batch:
        yield batch


def _of_batch(parts: Sequence[Array], buffers: Array) -> Array:
    sizes = [part.size for part in parts]
    starts = np.cumsum([0, *sizes[:-1]])
    x, y = buffers[:, : sum(sizes)]
    np.concatenate(parts, out=x)
    rows = np.zeros((len(parts), len(FIELDS)))
    # What is not finite is summarised again; of float64, squares may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        rows[:, _COUNT] = sizes
        rows[:, _ZEROS] = np.add.reduceat(np.equal(x, 0.0, out=y), starts)
        rows[:, _SUM] = np.add.reduceat(x, starts)
        rows[:, _ABS] = np.add.reduceat(np.abs(x, out=y), starts)
        rows[:, _SQUARES] = np.add.reduceat(np.square(x, out=y), starts)
    rows[:, _MIN] = np.minimum.reduceat(x, starts)
    rows[:, _MAX] = np.maximum.reduceat(x, starts)
    return rows


def _cells_of_batch(parts: Sequence[Array]) -> Array:
    """Cells of float32 arrays."""
    form = FLOAT32_BITS
    x = np.concatenate(parts)
    bits = x.view(np.int32)
    cell = _CELL_OF_KEY[(bits >> form.shift) & np.int32(form.keys - 1)]
    cell[x == 0] = ZERO
    first = np.arange(len(parts), dtype=np.int32) * np.int32(CELLS)
    cell += np.repeat(first, [part.size for part in parts])
    return np.bincount(cell, minlength=len(parts) * CELLS).reshape(-1, CELLS)


def _cell_of_key() -> Array:
    """The cell of numbers with these top bits: sign, exponent and the first of the mantissa."""
    form = FLOAT32_BITS
    key = np.arange(form.keys, dtype=np.int32)
    magnitude = key % (form.keys // 2)
    place = np.clip(magnitude - form.lowest, -1, BINS_A_SIDE)
    cell = np.where(key == magnitude, ZERO + 2 + place, ZERO - 2 - place)
    cell[magnitude >= form.infinity >> form.shift] = NONFINITE
    return cell.astype(np.int32)


_CELL_OF_KEY = _cell_of_key()
