"""Triton kernels that follow `triton_moments`: what needs float64, and cosines."""

# mypy: ignore-errors
# Triton has a type system of its own.
from gradwatch.measure.kernels.triton_kernel import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

    from gradwatch.measure.kernels.triton_table import (
        CORRECTION,
        ENLARGED,
        FIRST,
        FLOOR,
        GRADIENT,
        NORMALIZED,
        RULED,
        SECOND,
        SIGN,
        TO_BEFORE,
        TO_FIRST,
        TO_GRADIENT,
        TO_SECOND,
        TO_WEIGHT,
        UPDATE,
        WEIGHT,
        number_of,
        pointer_to,
        store_shares,
    )

    @triton.jit
    def _needs_care(partials, columns, column, left, unit):
        """Whether the sums of a chunk say so; see `triton_kernel.mended_summaries`."""
        total = tl.load(partials + 4 * columns + column) * unit
        magnitudes = tl.load(partials + 5 * columns + column)
        squares = tl.load(partials + 6 * columns + column) * unit * unit
        alike = left * squares - total * total < 0.01 * left * squares
        return ~(squares < 1e37) | ((squares < left * 1e-30) & (magnitudes > 0)) | alike

    @triton.jit
    def _merge(nan, posinf, neginf, zeros, total, magnitudes, squares, low, high, x, there):
        finite = there & (tl.abs(x) < float("inf"))
        kept = tl.where(finite, x, 0.0)
        nan += tl.sum((there & (x != x)).to(tl.int32))
        posinf += tl.sum((there & (x == float("inf"))).to(tl.int32))
        neginf += tl.sum((there & (x == float("-inf"))).to(tl.int32))
        zeros += tl.sum((there & (x == 0)).to(tl.int32))
        total += tl.sum(kept)
        magnitudes += tl.sum(tl.abs(kept))
        squares += tl.sum(kept * kept)
        low = tl.minimum(low, tl.min(tl.where(finite, x, float("inf"))))
        high = tl.maximum(high, tl.max(tl.where(finite, x, float("-inf"))))
        return nan, posinf, neginf, zeros, total, magnitudes, squares, low, high

    @triton.jit
    def _mend(
        role: tl.constexpr, partials, columns, column, to_x, to_y, left, scale, floor,
        block: tl.constexpr,
    ):  # fmt: skip
        """Measure a chunk again, of x, or of what follows from x and y in that role."""
        nan = tl.full([], 0, tl.int32)
        posinf = tl.full([], 0, tl.int32)
        neginf = tl.full([], 0, tl.int32)
        zeros = tl.full([], 0, tl.int32)
        total = tl.full([], 0.0, tl.float64)
        magnitudes = tl.full([], 0.0, tl.float64)
        squares = tl.full([], 0.0, tl.float64)
        low = tl.full([], float("inf"), tl.float64)
        high = tl.full([], float("-inf"), tl.float64)
        for begin in range(0, left, block):
            at = begin + tl.arange(0, block)
            there = at < left
            x = tl.load(to_x + at, mask=there, other=0.0).to(tl.float32)
            if role == UPDATE:
                x = x - tl.load(to_y + at, mask=there, other=0.0).to(tl.float32)
            x = x.to(tl.float64)
            if role == NORMALIZED:
                v = tl.load(to_y + at, mask=there, other=1.0).to(tl.float64)
                root = tl.sqrt(tl.maximum(v, 0.0, tl.PropagateNan.ALL))
                x = x / tl.maximum(root, floor, tl.PropagateNan.ALL) * scale
            nan, posinf, neginf, zeros, total, magnitudes, squares, low, high = _merge(
                nan, posinf, neginf, zeros, total, magnitudes, squares, low, high, x, there
            )
        at = partials + column
        tl.store(at, nan.to(tl.float64))
        tl.store(at + columns, posinf.to(tl.float64))
        tl.store(at + 2 * columns, neginf.to(tl.float64))
        tl.store(at + 3 * columns, zeros.to(tl.float64))
        tl.store(at + 4 * columns, total)
        tl.store(at + 5 * columns, magnitudes)
        tl.store(at + 6 * columns, squares)
        tl.store(at + 7 * columns, low)
        tl.store(at + 8 * columns, high)

    @triton.jit
    def _check(
        role: tl.constexpr, partials, columns, chunks, chunk, to_x, to_y, left, unit,
        is_wrong, scale, floor, block: tl.constexpr,
    ):  # fmt: skip
        """Measure a chunk again if that is needed; returns whether it was."""
        column = role * chunks + chunk
        needed = _needs_care(partials, columns, column, left, unit) | is_wrong
        if needed:
            _mend(role, partials, columns, column, to_x, to_y, left, scale, floor, block)
        else:
            tl.store(partials + column, 0.0)
            tl.store(partials + columns + column, 0.0)
            tl.store(partials + 2 * columns + column, 0.0)
        return needed

    @triton.jit(do_not_specialize=["variables", "first", "chunks"])
    def mended_moments(
        table, variables, sizes, owners, starts, first, partials, products, chunks,
        element: tl.constexpr, has_first: tl.constexpr, has_second: tl.constexpr,
        has_floor: tl.constexpr, has_weight: tl.constexpr, has_before: tl.constexpr,
        is_away: tl.constexpr, roles: tl.constexpr, length: tl.constexpr, block: tl.constexpr,
    ):  # fmt: skip
        """Measure again, in float64, what in a chunk needs care."""
        chunk = first + tl.program_id(0)
        owner = tl.load(owners + chunk)
        start = tl.load(starts + chunk)
        left = tl.minimum(tl.load(sizes + owner) - start, length)
        columns = chunks * roles
        to_gradient = pointer_to(table, TO_GRADIENT, variables, owner, start, element, False)
        to_first = pointer_to(table, TO_FIRST, variables, owner, start, element, False)
        to_second = pointer_to(table, TO_SECOND, variables, owner, start, element, False)
        to_weight = pointer_to(table, TO_WEIGHT, variables, owner, start, element, False)
        to_before = pointer_to(table, TO_BEFORE, variables, owner, start, element, False)
        odd = _check(GRADIENT, partials, columns, chunks, chunk, to_gradient, to_gradient,
                     left, 1.0, False, 1.0, 0.0, block)  # fmt: skip
        if has_first:
            odd |= _check(FIRST, partials, columns, chunks, chunk, to_first, to_first,
                          left, 1.0, False, 1.0, 0.0, block)  # fmt: skip
            if odd:
                product = tl.full([], 0.0, tl.float64)
                for begin in range(0, left, block):
                    at = begin + tl.arange(0, block)
                    there = at < left
                    g = tl.load(to_gradient + at, mask=there, other=0.0).to(tl.float64)
                    m = tl.load(to_first + at, mask=there, other=0.0).to(tl.float64)
                    product += tl.sum(g * m)
                tl.store(products + chunk, product)
        if has_second:
            _check(SECOND, partials, columns, chunks, chunk, to_second, to_second,
                   left, ENLARGED, False, 1.0, 0.0, block)  # fmt: skip
        if has_floor:
            floor = number_of(table, FLOOR, variables, owner, is_away)
            scale = tl.sqrt(number_of(table, CORRECTION, variables, owner, is_away))
            # Then its square is no ordinary float32.
            is_tiny = floor * floor < 1e-36
            _check(NORMALIZED, partials, columns, chunks, chunk, to_gradient, to_second,
                   left, 1.0, is_tiny, scale, floor, block)  # fmt: skip
            if is_tiny:
                ruled = tl.full([], 0, tl.int32)
                for begin in range(0, left, block):
                    at = begin + tl.arange(0, block)
                    there = at < left
                    v = tl.load(to_second + at, mask=there, other=0.0).to(tl.float64)
                    root = tl.sqrt(tl.maximum(v, 0.0, tl.PropagateNan.ALL))
                    ruled += tl.sum((there & (root < floor)).to(tl.int32))
                column = RULED * chunks + chunk
                shares = ruled.to(tl.float64)
                store_shares(partials, columns, column, shares, left.to(tl.float64))
        if has_weight:
            _check(WEIGHT, partials, columns, chunks, chunk, to_weight, to_weight,
                   left, 1.0, False, 1.0, 0.0, block)  # fmt: skip
        if has_before:
            _check(UPDATE, partials, columns, chunks, chunk, to_weight, to_before,
                   left, 1.0, False, 1.0, 0.0, block)  # fmt: skip

    @triton.jit(do_not_specialize=["variables"])
    def cosines(
        table, variables, firsts, places, products, rows, roles: tl.constexpr,
        fields: tl.constexpr, block: tl.constexpr,
    ):  # fmt: skip
        """The summary of a variable's cosine, from the rows of its gradient and first moment."""
        variable = tl.program_id(0)
        last = tl.load(firsts + variable + 1)
        added = tl.zeros([block], tl.float64)
        for at in range(tl.load(firsts + variable), last, block):
            offsets = at + tl.arange(0, block)
            added += tl.load(products + offsets, mask=offsets < last, other=0.0)
        place = tl.load(places + variable)
        of_gradient = rows + place * fields
        of_first = rows + (variables + place) * fields
        norms = tl.sqrt(tl.load(of_gradient + 7)) * tl.sqrt(tl.load(of_first + 7))
        sign = number_of(table, SIGN, variables, variable, False)
        found = sign * tl.sum(added) / tl.where(norms == 0, 1.0, norms)
        found = tl.where(norms == 0, 0.0, tl.minimum(1.0, tl.maximum(-1.0, found)))
        odd = tl.load(of_gradient + 1) + tl.load(of_gradient + 2) + tl.load(of_gradient + 3)
        odd += tl.load(of_first + 1) + tl.load(of_first + 2) + tl.load(of_first + 3)
        is_known = odd == 0
        row = rows + (roles * variables + place) * fields
        tl.store(row, 1.0)
        tl.store(row + 1, tl.where(is_known, 0.0, 1.0))
        tl.store(row + 2, 0.0)
        tl.store(row + 3, 0.0)
        tl.store(row + 4, tl.where(is_known & (found == 0), 1.0, 0.0))
        tl.store(row + 5, tl.where(is_known, found, 0.0))
        tl.store(row + 6, tl.where(is_known, tl.abs(found), 0.0))
        tl.store(row + 7, tl.where(is_known, found * found, 0.0))
        tl.store(row + 8, tl.where(is_known, found, float("inf")))
        tl.store(row + 9, tl.where(is_known, found, float("-inf")))
