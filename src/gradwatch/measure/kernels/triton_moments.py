"""A Triton kernel that measures a step of an optimizer: each tensor of a variable is read once.

Of a variable, `moment_partials` reads the gradient, both moments, and the weight before and after
the step. It summarises them and what follows from them: the update, the gradient divided by the
root of the second moment, where epsilon rules, and the product of gradient and first moment. None
of these is ever a tensor. As in `triton_kernel`, a program measures a chunk, in float32;
`triton_mending` measures again, in float64, what turns out to need care;
`triton_kernel.summaries` merges chunks.
"""

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
        to_gradient = pointer_to(table, TO_GRADIENT, variables, owner, start, element, aligned)
        to_first = pointer_to(table, TO_FIRST, variables, owner, start, element, aligned)
        to_second = pointer_to(table, TO_SECOND, variables, owner, start, element, aligned)
        to_weight = pointer_to(table, TO_WEIGHT, variables, owner, start, element, aligned)
        to_before = pointer_to(table, TO_BEFORE, variables, owner, start, element, aligned)
        floor, scale = 0.0, 1.0
        if has_floor:
            smallest = number_of(table, FLOOR, variables, owner, is_away)
            floor = (smallest * smallest).to(tl.float32)
            scale = tl.sqrt(number_of(table, CORRECTION, variables, owner, is_away)).to(tl.float32)
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
            store_shares(partials, columns, column, shares, left.to(tl.float64))
        if has_weight:
            column = WEIGHT * chunks + chunk
            _store(partials, columns, column, w_0, w_1, w_2, w_3, w_4, w_5, 1.0)
        if has_before:
            column = UPDATE * chunks + chunk
            _store(partials, columns, column, u_0, u_1, u_2, u_3, u_4, u_5, 1.0)
