"""Triton kernels that measure a step of an optimizer: each tensor of a variable is read once.

Of a variable, `moment_partials` reads the gradient, both moments, and the weight before and after
the step. It summarises them and what follows from them: the update, the gradient divided by the
root of the second moment, where epsilon rules, and the product of gradient and first moment. None
of these is ever a tensor. As in `triton_kernel`, a program measures a chunk, in float32;
`mended_moments` measures again, in float64, what turns out to need care; `triton_kernel.summaries`
merges chunks, and `cosines` makes cosines of products and norms.
"""

# mypy: ignore-errors
# Triton has a type system of its own.
from gradwatch.measure.kernels.triton_kernel import AVAILABLE

ROLES = 7
"""Whatever has partial results: gradient, first and second moment, normalized gradient, where
epsilon rules, weight, update. A row for the cosine follows."""

if AVAILABLE:
    import triton
    import triton.language as tl

    GRADIENT = tl.constexpr(0)
    FIRST = tl.constexpr(1)
    SECOND = tl.constexpr(2)
    NORMALIZED = tl.constexpr(3)
    RULED = tl.constexpr(4)
    WEIGHT = tl.constexpr(5)
    UPDATE = tl.constexpr(6)
    # The rows of the table, which has a column for each variable: addresses, then numbers.
    TO_GRADIENT = tl.constexpr(0)
    TO_FIRST = tl.constexpr(1)
    TO_SECOND = tl.constexpr(2)
    TO_WEIGHT = tl.constexpr(3)
    TO_BEFORE = tl.constexpr(4)
    CORRECTION = tl.constexpr(5)
    FLOOR = tl.constexpr(6)
    SIGN = tl.constexpr(7)
    # Second moments are small: so much larger, their squares fit a float32.
    ENLARGED = tl.constexpr(2.0**40)

    @triton.jit
    def _pointer(table, role: tl.constexpr, variables, owner, start, element: tl.constexpr,
                 aligned: tl.constexpr):  # fmt: skip
        pointer = tl.load(table + role * variables + owner).to(tl.pointer_type(element)) + start
        if aligned:
            pointer = tl.multiple_of(pointer, 16)
        return pointer

    @triton.jit
    def _number(table, role: tl.constexpr, variables, owner, is_away: tl.constexpr):
        """A number of the table, or that at an address in it."""
        bits = tl.load(table + role * variables + owner)
        if is_away:
            number = tl.load(bits.to(tl.pointer_type(tl.float32))).to(tl.float64)
        else:
            number = bits.to(tl.float64, bitcast=True)
        return number

    @triton.jit
    def _take(total, magnitudes, squares, low, high, zeros, x, per: tl.constexpr):
        """Accumulators with the elements of a block, of which each thread first adds its own."""
        several = tl.reshape(x, [x.shape[0] // per, per])
        total += tl.sum(several, 1)
        magnitudes += tl.sum(tl.abs(several), 1)
        squares += tl.sum(several * several, 1)
        low = tl.minimum(low, tl.min(several, 1))
        high = tl.maximum(high, tl.max(several, 1))
        zeros += tl.sum((several == 0).to(tl.int32), 1)
        return total, magnitudes, squares, low, high, zeros

    @triton.jit
    def _take_some(total, magnitudes, squares, low, high, zeros, x, there, per: tl.constexpr):
        """The same of the elements that are there; the others are 0."""
        rows: tl.constexpr = x.shape[0] // per
        total += tl.sum(tl.reshape(x, [rows, per]), 1)
        magnitudes += tl.sum(tl.reshape(tl.abs(x), [rows, per]), 1)
        squares += tl.sum(tl.reshape(x * x, [rows, per]), 1)
        least = tl.where(there, x, float("inf"))
        most = tl.where(there, x, float("-inf"))
        low = tl.minimum(low, tl.min(tl.reshape(least, [rows, per]), 1))
        high = tl.maximum(high, tl.max(tl.reshape(most, [rows, per]), 1))
        zeros += tl.sum(tl.reshape(((x == 0) & there).to(tl.int32), [rows, per]), 1)
        return total, magnitudes, squares, low, high, zeros

    @triton.jit
    def _begin(size: tl.constexpr):
        zero = tl.zeros([size], tl.float32)
        low = tl.full([size], float("inf"), tl.float32)
        high = tl.full([size], float("-inf"), tl.float32)
        return zero, zero, zero, low, high, tl.zeros([size], tl.int32)

    @triton.jit
    def _store(partials, columns, column, total, magnitudes, squares, low, high, zeros, unit):
        """The partial results of a chunk, whose numbers are so many times too large."""
        at = partials + column
        tl.store(at + 3 * columns, tl.sum(zeros).to(tl.float64))
        tl.store(at + 4 * columns, tl.sum(total.to(tl.float64)) / unit)
        tl.store(at + 5 * columns, tl.sum(magnitudes.to(tl.float64)) / unit)
        tl.store(at + 6 * columns, tl.sum(squares.to(tl.float64)) / unit / unit)
        tl.store(at + 7 * columns, tl.min(low).to(tl.float64) / unit)
        tl.store(at + 8 * columns, tl.max(high).to(tl.float64) / unit)

    @triton.jit
    def _store_shares(partials, columns, column, ruled, size):
        """The partial results of elements that are 1 so often, and else 0."""
        at = partials + column
        tl.store(at, 0.0)
        tl.store(at + columns, 0.0)
        tl.store(at + 2 * columns, 0.0)
        tl.store(at + 3 * columns, size - ruled)
        tl.store(at + 4 * columns, ruled)
        tl.store(at + 5 * columns, ruled)
        tl.store(at + 6 * columns, ruled)
        tl.store(at + 7 * columns, tl.where(ruled == size, 1.0, 0.0))
        tl.store(at + 8 * columns, tl.where(ruled > 0, 1.0, 0.0))

    # Numbers that change from plan to plan, and need no kernel of their own.
    @triton.jit(do_not_specialize=["variables", "first", "chunks"])
    def moment_partials(
        table, variables, sizes, owners, starts, first, partials, products, chunks,
        element: tl.constexpr, aligned: tl.constexpr, has_first: tl.constexpr,
        has_second: tl.constexpr, has_floor: tl.constexpr, has_weight: tl.constexpr,
        has_before: tl.constexpr, is_away: tl.constexpr,
        roles: tl.constexpr, block: tl.constexpr, steps: tl.constexpr, per: tl.constexpr,
    ):  # fmt: skip
        """Measure a chunk of block * steps elements of all tensors of a variable."""
        chunk = first + tl.program_id(0)
        owner = tl.load(owners + chunk)
        start = tl.load(starts + chunk)
        left = tl.minimum(tl.load(sizes + owner) - start, block * steps)
        columns = chunks * roles
        to_gradient = _pointer(table, TO_GRADIENT, variables, owner, start, element, aligned)
        to_first = _pointer(table, TO_FIRST, variables, owner, start, element, aligned)
        to_second = _pointer(table, TO_SECOND, variables, owner, start, element, aligned)
        to_weight = _pointer(table, TO_WEIGHT, variables, owner, start, element, aligned)
        to_before = _pointer(table, TO_BEFORE, variables, owner, start, element, aligned)
        floor, scale = 0.0, 1.0
        if has_floor:
            smallest = _number(table, FLOOR, variables, owner, is_away)
            floor = (smallest * smallest).to(tl.float32)
            scale = tl.sqrt(_number(table, CORRECTION, variables, owner, is_away)).to(tl.float32)
        size: tl.constexpr = block // per
        g_0, g_1, g_2, g_3, g_4, g_5 = _begin(size)
        m_0, m_1, m_2, m_3, m_4, m_5 = _begin(size)
        v_0, v_1, v_2, v_3, v_4, v_5 = _begin(size)
        n_0, n_1, n_2, n_3, n_4, n_5 = _begin(size)
        w_0, w_1, w_2, w_3, w_4, w_5 = _begin(size)
        u_0, u_1, u_2, u_3, u_4, u_5 = _begin(size)
        product = tl.zeros([size], tl.float32)
        ruled = tl.zeros([size], tl.int32)
        offsets = tl.arange(0, block)
        if left == block * steps:
            for step in range(steps):
                at = step * block + offsets
                g = tl.load(to_gradient + at).to(tl.float32)
                if has_first:
                    m = tl.load(to_first + at).to(tl.float32)
                if has_second:
                    v = tl.load(to_second + at).to(tl.float32)
                if has_weight:
                    w = tl.load(to_weight + at).to(tl.float32)
                if has_before:
                    u = w - tl.load(to_before + at).to(tl.float32)
                g_0, g_1, g_2, g_3, g_4, g_5 = _take(g_0, g_1, g_2, g_3, g_4, g_5, g, per)
                if has_first:
                    m_0, m_1, m_2, m_3, m_4, m_5 = _take(m_0, m_1, m_2, m_3, m_4, m_5, m, per)
                    product += tl.sum(tl.reshape(g * m, [size, per]), 1)
                if has_second:
                    large = v * ENLARGED
                    v_0, v_1, v_2, v_3, v_4, v_5 = _take(v_0, v_1, v_2, v_3, v_4, v_5, large, per)
                if has_floor:
                    n = g * scale * tl.rsqrt(tl.maximum(v, floor, tl.PropagateNan.ALL))
                    n_0, n_1, n_2, n_3, n_4, n_5 = _take(n_0, n_1, n_2, n_3, n_4, n_5, n, per)
                    ruled += tl.sum(tl.reshape((v < floor).to(tl.int32), [size, per]), 1)
                if has_weight:
                    w_0, w_1, w_2, w_3, w_4, w_5 = _take(w_0, w_1, w_2, w_3, w_4, w_5, w, per)
                if has_before:
                    u_0, u_1, u_2, u_3, u_4, u_5 = _take(u_0, u_1, u_2, u_3, u_4, u_5, u, per)
        else:
            for begin in range(0, left, block):
                at = begin + offsets
                there = at < left
                g = tl.load(to_gradient + at, mask=there, other=0.0).to(tl.float32)
                g_0, g_1, g_2, g_3, g_4, g_5 = _take_some(
                    g_0, g_1, g_2, g_3, g_4, g_5, g, there, per
                )
                if has_first:
                    m = tl.load(to_first + at, mask=there, other=0.0).to(tl.float32)
                    m_0, m_1, m_2, m_3, m_4, m_5 = _take_some(
                        m_0, m_1, m_2, m_3, m_4, m_5, m, there, per
                    )
                    product += tl.sum(tl.reshape(g * m, [size, per]), 1)
                if has_second:
                    v = tl.load(to_second + at, mask=there, other=0.0).to(tl.float32)
                    v_0, v_1, v_2, v_3, v_4, v_5 = _take_some(
                        v_0, v_1, v_2, v_3, v_4, v_5, v * ENLARGED, there, per
                    )
                if has_floor:
                    n = g * scale * tl.rsqrt(tl.maximum(v, floor, tl.PropagateNan.ALL))
                    n = tl.where(there, n, 0.0)  # With a floor of 0 it would be NaN.
                    n_0, n_1, n_2, n_3, n_4, n_5 = _take_some(
                        n_0, n_1, n_2, n_3, n_4, n_5, n, there, per
                    )
                    counted = ((v < floor) & there).to(tl.int32)
                    ruled += tl.sum(tl.reshape(counted, [size, per]), 1)
                if has_weight:
                    w = tl.load(to_weight + at, mask=there, other=0.0).to(tl.float32)
                    w_0, w_1, w_2, w_3, w_4, w_5 = _take_some(
                        w_0, w_1, w_2, w_3, w_4, w_5, w, there, per
                    )
                if has_before:
                    u = w - tl.load(to_before + at, mask=there, other=0.0).to(tl.float32)
                    u_0, u_1, u_2, u_3, u_4, u_5 = _take_some(
                        u_0, u_1, u_2, u_3, u_4, u_5, u, there, per
                    )
        column = GRADIENT * chunks + chunk
        _store(partials, columns, column, g_0, g_1, g_2, g_3, g_4, g_5, 1.0)
        if has_first:
            column = FIRST * chunks + chunk
            _store(partials, columns, column, m_0, m_1, m_2, m_3, m_4, m_5, 1.0)
            tl.store(products + chunk, tl.sum(product.to(tl.float64)))
        if has_second:
            column = SECOND * chunks + chunk
            _store(partials, columns, column, v_0, v_1, v_2, v_3, v_4, v_5, ENLARGED)
        if has_floor:
            column = NORMALIZED * chunks + chunk
            _store(partials, columns, column, n_0, n_1, n_2, n_3, n_4, n_5, 1.0)
            column = RULED * chunks + chunk
            shares = tl.sum(ruled).to(tl.float64)
            _store_shares(partials, columns, column, shares, left.to(tl.float64))
        if has_weight:
            column = WEIGHT * chunks + chunk
            _store(partials, columns, column, w_0, w_1, w_2, w_3, w_4, w_5, 1.0)
        if has_before:
            column = UPDATE * chunks + chunk
            _store(partials, columns, column, u_0, u_1, u_2, u_3, u_4, u_5, 1.0)

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
        to_gradient = _pointer(table, TO_GRADIENT, variables, owner, start, element, False)
        to_first = _pointer(table, TO_FIRST, variables, owner, start, element, False)
        to_second = _pointer(table, TO_SECOND, variables, owner, start, element, False)
        to_weight = _pointer(table, TO_WEIGHT, variables, owner, start, element, False)
        to_before = _pointer(table, TO_BEFORE, variables, owner, start, element, False)
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
            floor = _number(table, FLOOR, variables, owner, is_away)
            scale = tl.sqrt(_number(table, CORRECTION, variables, owner, is_away))
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
                _store_shares(partials, columns, column, shares, left.to(tl.float64))
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
        sign = _number(table, SIGN, variables, variable, False)
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
