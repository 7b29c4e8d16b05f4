"""Triton kernels that measure many tensors in one launch.

Tensors are cut into chunks, a program each. `partial_summaries` reads each chunk once,
accumulates in registers, and writes one column of partial results: nothing is shared
between programs, so no atomics. Full chunks, nearly all, are read without masks and, of
aligned tensors, 16 bytes at a time. It takes all numbers for finite and of ordinary size;
a chunk whose sums show otherwise is measured again by `mended_summaries`, in float64.
`summaries` then merges the chunks of each tensor, in float64.

Where histograms are due `cuda_kernel` does what `partial_summaries` does, and counts as
well; `cells` makes histograms of its counts.
"""

# mypy: ignore-errors
# Triton has a type system of its own.
# Not `from __future__ import annotations`: Triton reads these.
from importlib.util import find_spec

AVAILABLE = find_spec("triton") is not None

# The partial results of a chunk: a packed summary without its count.
PARTS = 9

if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit
    def _chunk(
        addresses, sizes, owners, starts, first, element: tl.constexpr, aligned: tl.constexpr
    ):
        """The chunk's number, a pointer to its elements, and how many follow."""
        chunk = first + tl.program_id(0)
        owner = tl.load(owners + chunk)
        start = tl.load(starts + chunk)
        pointer = tl.load(addresses + owner).to(tl.pointer_type(element)) + start
        if aligned:
            pointer = tl.multiple_of(pointer, 16)
        return chunk, pointer, tl.load(sizes + owner) - start

    # Numbers that change from plan to plan, and need no kernel of their own.
    @triton.jit(do_not_specialize=["first", "chunks"])
    def partial_summaries(
        addresses, sizes, owners, starts, first, partials, chunks,
        element: tl.constexpr, wide: tl.constexpr, aligned: tl.constexpr,
        block: tl.constexpr, steps: tl.constexpr,
    ):  # fmt: skip
        """Measure a chunk of block * steps elements."""
        chunk, pointer, left = _chunk(addresses, sizes, owners, starts, first, element, aligned)
        offsets = tl.arange(0, block)
        total = tl.zeros([block], wide)
        magnitudes = tl.zeros([block], wide)
        squares = tl.zeros([block], wide)
        low = tl.full([block], float("inf"), wide)
        high = tl.full([block], float("-inf"), wide)
        zeros = tl.zeros([block], tl.int32)
        if left >= block * steps:
            for step in tl.static_range(steps):
                x = tl.load(pointer + step * block + offsets).to(wide)
                total += x
                magnitudes += tl.abs(x)
                squares += x * x
                low = tl.minimum(low, x)
                high = tl.maximum(high, x)
                zeros += (x == 0).to(tl.int32)
        else:
            for at in range(0, left, block):
                there = at + offsets < left
                x = tl.load(pointer + at + offsets, mask=there, other=0.0).to(wide)
                total += x
                magnitudes += tl.abs(x)
                squares += x * x
                low = tl.minimum(low, tl.where(there, x, float("inf")))
                high = tl.maximum(high, tl.where(there, x, float("-inf")))
                zeros += ((x == 0) & there).to(tl.int32)
        column = partials + chunk
        tl.store(column + 3 * chunks, tl.sum(zeros).to(tl.float64))
        tl.store(column + 4 * chunks, tl.sum(total.to(tl.float64)))
        tl.store(column + 5 * chunks, tl.sum(magnitudes.to(tl.float64)))
        tl.store(column + 6 * chunks, tl.sum(squares.to(tl.float64)))
        tl.store(column + 7 * chunks, tl.min(low).to(tl.float64))
        tl.store(column + 8 * chunks, tl.max(high).to(tl.float64))

    @triton.jit(do_not_specialize=["first", "chunks"])
    def mended_summaries(
        addresses, sizes, owners, starts, first, partials, chunks,
        element: tl.constexpr, wide: tl.constexpr, block: tl.constexpr, steps: tl.constexpr,
    ):  # fmt: skip
        """Measure a chunk again, if its sums say that it needs care."""
        chunk, pointer, left = _chunk(addresses, sizes, owners, starts, first, element, False)
        column = partials + chunk
        left = tl.minimum(left, block * steps)
        total = tl.load(column + 4 * chunks)
        magnitudes = tl.load(column + 5 * chunks)
        squares = tl.load(column + 6 * chunks)
        nan = tl.full([], 0, tl.int32)
        posinf = tl.full([], 0, tl.int32)
        neginf = tl.full([], 0, tl.int32)
        # Nearly all alike: their spread, a small difference of large sums, needs float64.
        alike = left * squares - total * total < 0.01 * left * squares
        # Not finite, or near the end of float32; or so small that squares have been lost.
        if ~(squares < 1e37) | ((squares < left * 1e-30) & (magnitudes > 0)) | alike:
            total = tl.full([], 0.0, tl.float64)
            magnitudes = tl.full([], 0.0, tl.float64)
            squares = tl.full([], 0.0, tl.float64)
            low = tl.full([], float("inf"), tl.float64)
            high = tl.full([], float("-inf"), tl.float64)
            for at in range(0, left, block):
                offsets = at + tl.arange(0, block)
                there = offsets < left
                x = tl.load(pointer + offsets, mask=there, other=0.0).to(wide).to(tl.float64)
                finite = there & (tl.abs(x) < float("inf"))
                kept = tl.where(finite, x, 0.0)
                nan += tl.sum((x != x).to(tl.int32))
                posinf += tl.sum((x == float("inf")).to(tl.int32))
                neginf += tl.sum((x == float("-inf")).to(tl.int32))
                total += tl.sum(kept)
                magnitudes += tl.sum(tl.abs(kept))
                squares += tl.sum(kept * kept)
                low = tl.minimum(low, tl.min(tl.where(finite, x, float("inf"))))
                high = tl.maximum(high, tl.max(tl.where(finite, x, float("-inf"))))
            tl.store(column + 4 * chunks, total)
            tl.store(column + 5 * chunks, magnitudes)
            tl.store(column + 6 * chunks, squares)
            tl.store(column + 7 * chunks, low)
            tl.store(column + 8 * chunks, high)
        tl.store(column, nan.to(tl.float64))
        tl.store(column + chunks, posinf.to(tl.float64))
        tl.store(column + 2 * chunks, neginf.to(tl.float64))

    @triton.jit(do_not_specialize=["chunks"])
    def summaries(
        sizes, firsts, places, partials, chunks, rows, fields: tl.constexpr, block: tl.constexpr
    ):
        """The summary of a tensor: its size, and its chunks merged."""
        tensor = tl.program_id(0)
        first = tl.load(firsts + tensor)
        last = tl.load(firsts + tensor + 1)
        row = rows + tl.load(places + tensor) * fields
        tl.store(row, tl.load(sizes + tensor).to(tl.float64))
        for field in tl.static_range(7):
            added = tl.zeros([block], tl.float64)
            for at in range(first, last, block):
                offsets = at + tl.arange(0, block)
                column = partials + field * chunks + offsets
                added += tl.load(column, mask=offsets < last, other=0.0)
            tl.store(row + 1 + field, tl.sum(added))
        low = tl.full([block], float("inf"), tl.float64)
        high = tl.full([block], float("-inf"), tl.float64)
        for at in range(first, last, block):
            offsets = at + tl.arange(0, block)
            there = offsets < last
            found = tl.load(partials + 7 * chunks + offsets, mask=there, other=float("inf"))
            low = tl.minimum(low, found)
            found = tl.load(partials + 8 * chunks + offsets, mask=there, other=float("-inf"))
            high = tl.maximum(high, found)
        tl.store(row + 8, tl.min(low))
        tl.store(row + 9, tl.max(high))

    @triton.jit
    def cells(
        counts, tensors, places, rows, result,
        fields: tl.constexpr, cells: tl.constexpr, zero: tl.constexpr, nonfinite: tl.constexpr,
        keys: tl.constexpr, lowest: tl.constexpr, top: tl.constexpr, infinity: tl.constexpr,
    ):  # fmt: skip
        """The histogram of a tensor from its counts by top bits; see `torch_cpu._folded`."""
        key = tl.arange(0, keys)
        counted = tl.load(counts + tl.load(tensors + tl.program_id(0)) * keys + key).to(tl.int64)
        place = tl.load(places + tl.program_id(0))
        result += tl.program_id(0).to(tl.int64) * cells
        zeros = tl.load(rows + place * fields + 4).to(tl.int64)
        negative = key >= keys // 2
        size = key & (keys // 2 - 1)
        bin = size - lowest + 2
        inside = (size >= lowest) & (size < top)
        tl.store(result + tl.where(negative, zero - bin, zero + bin), counted, mask=inside)
        under = tl.where(size < lowest, counted, 0)
        over = tl.where((size >= top) & (size < infinity), counted, 0)
        tl.store(result, tl.sum(tl.where(negative, over, 0)))
        tl.store(result + zero - 1, tl.sum(tl.where(negative, under, 0)))
        tl.store(result + zero, zeros)
        tl.store(result + zero + 1, tl.sum(tl.where(negative, 0, under)) - zeros)
        tl.store(result + nonfinite - 1, tl.sum(tl.where(negative, 0, over)))
        tl.store(result + nonfinite, tl.sum(tl.where(size >= infinity, counted, 0)))
