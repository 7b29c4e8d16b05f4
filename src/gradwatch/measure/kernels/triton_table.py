"""The table of the kernels that measure a step of an optimizer, and its roles.

Its columns are variables. Its rows are addresses of their tensors, then numbers.
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
    def pointer_to(table, role: tl.constexpr, variables, owner, start, element: tl.constexpr,
                 aligned: tl.constexpr):  # fmt: skip
        pointer = tl.load(table + role * variables + owner).to(tl.pointer_type(element)) + start
        if aligned:
            pointer = tl.multiple_of(pointer, 16)
        return pointer

    @triton.jit
    def number_of(table, role: tl.constexpr, variables, owner, is_away: tl.constexpr):
        """A number of the table, or that at an address in it."""
        bits = tl.load(table + role * variables + owner)
        if is_away:
            number = tl.load(bits.to(tl.pointer_type(tl.float32))).to(tl.float64)
        else:
            number = bits.to(tl.float64, bitcast=True)
        return number

    @triton.jit
    def store_shares(partials, columns, column, ruled, size):
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
