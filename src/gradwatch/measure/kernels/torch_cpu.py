"""Summaries of many torch tensors on the CPU, in few passes and few calls.

Tensors are cut into rows of `ROW` elements, and a block of rows that fits the cache is reduced row
by row in float32 by torch's vectorised kernels. Adding the results of rows, in float64, is then
little work. Small tensors share blocks. The remainder of each tensor, less than a row, is
measured in float64 by NumPy, all remainders at once.

Float32 suffices within a row of ordinary numbers. Where a tensor has others (not finite, squares
beyond the range of float32, or nearly equal numbers), its minimum, maximum and sums show it, and it
is measured again. Small tensors often have nearly equal elements, such as scales around 1. So their
rows are summed as differences from their means, which keeps the spread from being rounded away.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradwatch.core import BINS_A_SIDE, CELLS, FIELDS, IDENTITY, NONFINITE, ZERO, Summary
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS, FLOAT64_BITS, FloatBits
from gradwatch.measure.kernels.row_layout import are_alike
from gradwatch.measure.kernels.torch_plain import flat

Array = NDArray[Any]

# Short enough that float32 is within 1e-6 of float64 in a row, long enough to be fast.
ROW = 256
# Half a million: its buffer of 2 MB stays in the cache, and calls are few.
BLOCK = 1 << 19
# Smaller tensors are copied together, which costs less than calls of their own.
SMALL = 1 << 17
# As many tensors at most share a histogram's counting, for the memory that it takes.
TOGETHER = 64

_kept = threading.local()

_COUNT, _NAN, _POSINF, _NEGINF, _ZEROS, _SUM, _ABS, _SQUARES, _MIN, _MAX = range(len(FIELDS))


def measure(tensors: Sequence[Any], with_cells: Sequence[int], device: Any) -> tuple[Any, Any]:
    """Packed summaries of all tensors, and histogram cells of those at some positions."""
    flats = [torch.empty(0) if x is None else flat(x) for x in tensors]
    dtypes = [x.dtype for x in flats]
    wides = {dtype: _wide(dtype) for dtype in set(dtypes)}
    if len(set(wides.values())) == 1:
        rows = _checked(flats, wides[dtypes[0]])
    else:
        rows = np.tile(IDENTITY, (len(flats), 1))
        for wide in (torch.float32, torch.float64):
            chosen = [i for i, dtype in enumerate(dtypes) if wides[dtype] is wide]
            if chosen:
                rows[chosen] = _checked([flats[i] for i in chosen], wide)
    zeros = torch.from_numpy(rows[list(with_cells), _ZEROS])
    return torch.from_numpy(rows), _count_cells([flats[i] for i in with_cells], zeros)


def _count_cells(flats: Sequence[Any], zeros: Any) -> Any:
    parts, at = [torch.zeros((0, CELLS), dtype=torch.int64)], 0
    for batch in _batches(flats):
        parts.append(_cells(batch, zeros[at : at + len(batch)]))
        at += len(batch)
    return torch.cat(parts)


def _wide(dtype: Any) -> Any:
    """The type that elements of that one are added up in."""
    is_narrow = dtype.is_floating_point and dtype is not torch.float64
    return torch.float32 if is_narrow else torch.float64


def _checked(flats: Sequence[Any], wide: Any) -> Array:
    """Summaries of tensors of one accumulating type, measured again where needed."""
    rows = _quick(flats, wide)
    with np.errstate(invalid="ignore"):
        largest = np.maximum(-rows[:, _MIN], rows[:, _MAX])
        good = np.isfinite(rows[:, _MIN]) & np.isfinite(rows[:, _MAX])
        if wide is torch.float32:
            # The squares of a row fit a float32, or are negligible where they do not.
            enough = rows[:, _SQUARES] >= 1e-30 * rows[:, _COUNT]
            good &= (largest == 0) | ((largest < 1e17) & enough)
            good &= ~(
                (rows[:, _COUNT] >= SMALL)
                & are_alike(rows[:, _SUM], rows[:, _SQUARES], rows[:, _COUNT])
            )
    for i in map(int, np.flatnonzero(~good & (rows[:, _COUNT] > 0))):
        rows[i] = _careful(flats[i], wide)
    return rows


def _quick(flats: Sequence[Any], wide: Any, centred: bool = False) -> Array:
    """Summaries of finite numbers of ordinary size; elsewhere minimum or maximum is not finite.

    With `centred`, rows of large tensors are also summed as differences from their means.
    """
    # By map: with hundreds of tensors, Python adds up.
    lengths = np.array(list(map(torch.Tensor.numel, flats)))
    full = lengths // ROW
    rows = np.tile(IDENTITY, (len(flats), 1))
    rows[:, _COUNT] = lengths
    has_row = full > 0
    # Small ones first, so that they are neighbours and can be copied together.
    order = [
        *np.flatnonzero(has_row & (lengths < SMALL)).tolist(),
        *np.flatnonzero(has_row & (lengths >= SMALL)).tolist(),
    ]
    if order:
        ends = (full * ROW).tolist()
        heads = (
            x if x.numel() == end else x[:end] for x, end in ((flats[i], ends[i]) for i in order)
        )
        found = _row_results(heads, int(full.sum()), wide, centred)
        low, high, middle, rest, norm, magnitudes, nonzero = found
        middle, rest = middle.astype(np.float64), rest.astype(np.float64)
        starts = np.concatenate([[0], np.cumsum(full[order])[:-1]])

        def add(column: Array) -> Array:
            return np.add.reduceat(column, starts, dtype=np.float64)

        # Sums may overflow, or add infinities of both signs: those are measured again.
        with np.errstate(over="ignore", invalid="ignore"):
            rows[order, _ZEROS] = full[order] * ROW - add(nonzero)
            rows[order, _SUM] = add(ROW * middle + rest)
            rows[order, _ABS] = add(magnitudes)
            squares = np.square(norm, dtype=np.float64)
            rows[order, _SQUARES] = add(squares + middle * (ROW * middle + 2.0 * rest))
        rows[order, _MIN] = np.minimum.reduceat(low, starts)
        rows[order, _MAX] = np.maximum.reduceat(high, starts)
    _add_tails(rows, flats, full * ROW)
    return rows


def _row_results(heads: Iterator[Any], count: int, wide: Any, centred: bool) -> Array:
    """Of each row: min, max, a middle, sum and 2-norm of the differences from it, 1-norm, and how
    many are not 0. The middle is the mean in small tensors, and 0 in others unless `centred`."""
    results = torch.zeros((7, count), dtype=wide)
    buffer = _buffer(wide)
    at = 0
    for block, is_large in _blocks(heads, wide):
        columns = results[:, at : at + len(block)].unbind()
        low, high, middle, rest, norm, magnitudes, nonzero = columns
        at += len(block)
        torch.amin(block, 1, out=low)
        torch.amax(block, 1, out=high)
        difference = block
        if centred or not is_large:
            torch.mean(block, 1, out=middle)
            difference = torch.sub(block, middle[:, None], out=buffer[: len(block)])
        torch.sum(difference, 1, out=rest)
        torch.linalg.vector_norm(difference, 2, 1, out=norm)
        positive = torch.abs(block, out=buffer[: len(block)])
        torch.sum(positive, 1, out=magnitudes)
        torch.sum(positive.sign_(), 1, out=nonzero)
    found: Array = results.numpy()
    return found


def _buffer(wide: Any) -> Any:
    """Memory for a block, kept by each thread: allocating it costs as much as a reduction."""
    if not hasattr(_kept, "buffers"):
        _kept.buffers = {}
    if wide not in _kept.buffers:
        with torch.inference_mode(False):  # Otherwise only inference mode could write to it.
            _kept.buffers[wide] = torch.empty((BLOCK // ROW, ROW), dtype=wide)
    return _kept.buffers[wide]


def _blocks(heads: Iterator[Any], wide: Any) -> Iterator[tuple[Any, bool]]:
    """All rows, in order: of large tensors in place, of small ones copied together."""
    waiting: list[Any] = []
    size = 0
    for head in heads:
        length = head.numel()
        is_small = length < SMALL
        if waiting and (not is_small or size + length > BLOCK):
            yield torch.cat(waiting).view(-1, ROW), False
            waiting, size = [], 0
        if is_small:
            waiting.append(head if head.dtype is wide else head.to(wide))
            size += length
        else:
            for part in head.split(BLOCK):
                yield part.to(wide).view(-1, ROW), True
    if waiting:
        yield torch.cat(waiting).view(-1, ROW), False


def _add_tails(rows: Array, flats: Sequence[Any], ends: Array) -> None:
    """Add the elements beyond the last full row of each tensor to the summaries."""
    order = np.flatnonzero(rows[:, _COUNT] > ends).tolist()
    if not order:
        return
    begins = ends.tolist()
    tails = [flats[i][begins[i] :] if begins[i] else flats[i] for i in order]
    if len({tail.dtype for tail in tails}) > 1:
        tails = [tail.to(torch.float64) for tail in tails]
    x = torch.cat(tails).to(torch.float64).numpy()
    lengths = (rows[order, _COUNT] - ends[order]).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    with np.errstate(over="ignore", invalid="ignore"):
        rows[order, _ZEROS] += np.add.reduceat(x == 0, starts, dtype=np.float64)
        rows[order, _SUM] += np.add.reduceat(x, starts)
        rows[order, _ABS] += np.add.reduceat(np.abs(x), starts)
        rows[order, _SQUARES] += np.add.reduceat(np.square(x), starts)
        rows[order, _MIN] = np.minimum(rows[order, _MIN], np.minimum.reduceat(x, starts))
        rows[order, _MAX] = np.maximum(rows[order, _MAX], np.maximum.reduceat(x, starts))


def _careful(x: Any, wide: Any) -> Array:
    """The summary of a tensor with elements of any kind."""
    parts = [_careful_part(part.to(wide), wide) for part in x.split(BLOCK)]
    return Summary.unpack(np.stack(parts)).merge_all().pack()


def _careful_part(x: Any, wide: Any) -> Array:
    # Not torch.where, which is ten times slower.
    low = float(torch.nan_to_num(x, torch.inf, torch.inf, torch.inf).amin())
    high = float(torch.nan_to_num(x, -torch.inf, -torch.inf, -torch.inf).amax())
    kept = torch.nan_to_num(x, 0.0, 0.0, 0.0)
    scale = 1.0
    if wide is torch.float32 and low <= high:
        # By a power of 2, which rounds nothing: the largest comes near 1, or as near as
        # float32's own smallest can, and squares of float32 hold what matters.
        scale = 2.0 ** min(-int(np.frexp(max(-low, high))[1]), 100)
        kept = kept * scale
    row: Array = _quick([kept], wide, centred=True)[0]
    if bool(torch.isnan((x - x).sum())):  # 0 if all are finite.
        row[_NAN] = int(torch.count_nonzero(torch.isnan(x)))
        row[_POSINF] = int(torch.count_nonzero(x == torch.inf))
        row[_NEGINF] = int(torch.count_nonzero(x == -torch.inf))
    row[_ZEROS] = x.numel() - int(torch.count_nonzero(x))
    row[[_SUM, _ABS]] /= scale
    row[_SQUARES] /= scale**2
    row[_MIN], row[_MAX] = low, high
    return row


def _batches(flats: Sequence[Any]) -> Iterator[list[Any]]:
    """The tensors in order, small ones of one accumulating type together."""
    batch: list[Any] = []
    size = 0
    for x in flats:
        fits = size + x.numel() <= BLOCK and len(batch) < TOGETHER
        if batch and not (fits and _wide(x.dtype) is _wide(batch[0].dtype)):
            yield batch
            batch, size = [], 0
        batch.append(x)
        size += x.numel()
    if batch:
        yield batch


def _cells(batch: Sequence[Any], zeros: Any) -> Any:
    """Histogram cells of small tensors together, or of one of any size."""
    wide = _wide(batch[0].dtype)
    form = FLOAT64_BITS if wide is torch.float64 else FLOAT32_BITS
    width = form.keys
    if len(batch) == 1:
        parts = (part.to(wide) for part in batch[0].split(BLOCK))
        counts = sum(
            (torch.bincount(_key(part, form), minlength=width) for part in parts),
            start=torch.zeros(width, dtype=torch.int64),
        )
    else:
        lengths = torch.tensor([x.numel() for x in batch])
        key = _key(torch.cat([x.to(wide) for x in batch]), form)
        key += torch.repeat_interleave(torch.arange(len(batch)) * width, lengths).to(key.dtype)
        counts = torch.bincount(key, minlength=len(batch) * width)
    return _folded(counts.view(len(batch), width), zeros, form)


def _key(x: Any, form: Any) -> Any:
    """The top bits: sign, exponent and the first of the mantissa."""
    # Adding 0 makes -0 into 0 and changes nothing else.
    bits = torch.add(x, 0.0).view(getattr(torch, form.integer))
    return bits.bitwise_right_shift_(form.shift).bitwise_and_(form.keys - 1)


def _folded(counts: Any, zeros: Any, form: FloatBits) -> Any:
    """Histogram cells from counts by top bits, one row a tensor; -0 has been counted as 0."""
    lowest, top = form.lowest, form.lowest + BINS_A_SIDE
    infinity, half = form.infinity >> form.shift, form.keys // 2
    positive, negative = counts[:, :half], counts[:, half:]
    cells = torch.empty((len(counts), CELLS), dtype=torch.int64, device=counts.device)
    cells[:, 0] = negative[:, top:infinity].sum(1)
    cells[:, 1 : ZERO - 1] = negative[:, lowest:top].flip(1)
    cells[:, ZERO - 1] = negative[:, :lowest].sum(1)
    cells[:, ZERO] = zeros
    cells[:, ZERO + 1] = positive[:, :lowest].sum(1) - zeros
    cells[:, ZERO + 2 : NONFINITE - 1] = positive[:, lowest:top]
    cells[:, NONFINITE - 1] = positive[:, top:infinity].sum(1)
    cells[:, NONFINITE] = positive[:, infinity:].sum(1) + negative[:, infinity:].sum(1)
    return cells
