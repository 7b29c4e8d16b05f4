"""What one program of the kernel `jax_pallas` does: it reads some chunks of a group of tensors.

What keeps it near the memory's bandwidth: a program is one warp, which shares nothing with others;
a thread has several loads in flight; and a few neighbours are first added up in float32, all taken
to be finite and neither nearly equal nor so large or small that their squares are lost. Where that
fails, the sums show it, and the program reads its elements again, with care.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.measure.kernels.float_bits import FLOAT32_BITS

WARPS, BLOCK = 1, 128
"""The warps of a program, and the elements that their threads load at once."""
CHUNK = 16 * BLOCK
"""What is measured are whole chunks; a program has one or more of them."""
AHEAD, AHEAD_OF_SEVERAL = 8, 2
"""How many blocks a program loads before it uses them; of several tensors, of each."""
_FOLD = 4
"""Neighbours that one thread loads, and adds up before it adds them to its sums."""
_ENLARGED = np.float32(2.0**40)
"""Second moments are small: so many times as large, their squares fit a float32."""
_MAGNITUDE = np.int32(FLOAT32_BITS.magnitude)
_INF = np.float32(np.inf)


class _Sums(NamedTuple):
    """What a program has added up of one stream: arrays, and in the end single numbers."""

    zeros: Any
    total: Any
    magnitudes: Any
    squares: Any
    low: Any
    high: Any

    @classmethod
    def none(cls) -> "_Sums":
        shape = (BLOCK // _FOLD,)
        nothing, low = jnp.zeros(shape, jnp.float64), jnp.full(shape, _INF, jnp.float32)
        return cls(jnp.zeros(shape, jnp.int32), nothing, nothing, nothing, low, -low)

    def plus(self, blocks: Sequence[Any], unit: Any = 1) -> "_Sums":
        """With some blocks, whose sums are of float32, or of float64 if they are.

        The squares are of numbers that are so many times as large; see `whole`.
        """
        larger = blocks if unit == 1 else [x * unit for x in blocks]
        narrow = [x.astype(jnp.float32) for x in blocks]
        zeros = _tree([_is_zero(x).astype(jnp.int32) for x in narrow], jnp.add)
        return _Sums(
            self.zeros + zeros.sum(1, dtype=jnp.int32),
            self.total + _sum(blocks),
            self.magnitudes + _sum([jnp.abs(x) for x in blocks]),
            self.squares + _sum([x * x for x in larger]),
            jnp.minimum(self.low, _tree(narrow, jnp.minimum).min(1)),
            jnp.maximum(self.high, _tree(narrow, jnp.maximum).max(1)),
        )

    def whole(self, unit: Any = 1) -> "_Sums":
        total, magnitudes, squares = map(jnp.sum, self[1:4])
        zeros, smaller = jnp.sum(self.zeros, dtype=jnp.int32), 1 / float(unit) ** 2
        low, high = jnp.min(self.low), jnp.max(self.high)
        return _Sums(zeros, total, magnitudes, squares * smaller, low, high)

    def is_wrong(self, count: Any, unit: Any = 1) -> Any:
        """Whether so many elements are to be added up with care; of single numbers."""
        least = 1.2e-31 / float(unit) ** 2
        is_lost = (self.squares < count * least) & (self.magnitudes > 0)
        is_alike = self.total * self.total > self.squares * (count * 0.99)
        return is_lost | is_alike | ~(self.squares < np.inf) | ~(self.magnitudes < np.inf)


Load = Callable[[Any, int], list[list[Any]]]
"""The next so many blocks from one on: of each, that of each tensor."""


class Program(NamedTuple):
    """One program of a kernel: some chunks of the tensors of one group."""

    has_first: bool
    has_second: bool
    chunks: int
    span: int

    def run(self, load: Load, numbers: Any, counts: Any, sums: Any, bounds: Any) -> None:
        from jax.experimental import pallas as pl

        streams = self._streams
        mine = np.int32(self.span)
        if self.chunks % self.span:
            left = np.int32(self.chunks) - pl.program_id(1) * mine
            mine = jnp.minimum(mine, left)
        blocks = mine * np.int32(CHUNK // BLOCK)
        every, below, product = self._quick(load, numbers, blocks)
        zeros = [own.zeros for own in every]
        count = (blocks * np.int32(BLOCK)).astype(jnp.float64)
        checks = [own.is_wrong(count, unit) for own, unit in zip(every, self._units, strict=True)]
        is_wrong = _tree(checks, jnp.logical_or)
        # Zeros, where they are used; a branch must not return constants.
        none = [[is_wrong.astype(jnp.int32)] * 3 for _ in range(streams)]
        every, rare, product = lax.cond(
            is_wrong,
            lambda _: self._careful(load, numbers, blocks),
            lambda found: found,
            (every, none, product),
        )
        for i, (own, others) in enumerate(zip(every, rare, strict=True)):
            for k, x in enumerate([*others, zeros[i]]):
                counts[0, 4 * i + k, 0] = x
            for k, x in enumerate(own[1:4]):
                sums[0, 3 * i + k, 0] = x
            bounds[0, i, 0], bounds[0, streams + i, 0] = own.low, own.high
        counts[0, 4 * streams, 0], sums[0, 3 * streams, 0] = below, product

    @property
    def _streams(self) -> int:
        return len(self._units)

    @property
    def _units(self) -> list[Any]:
        """Of each stream, see `_Sums.plus`: gradient, both moments, normalized gradient."""
        return [1] * (1 + self.has_first) + [_ENLARGED, 1] * self.has_second

    def _blocks(self, loaded: Sequence[Any], numbers: Any) -> tuple[list[Any], Any]:
        """A block of each stream, and where the root is below the floor."""
        found = [x.astype(jnp.float32).reshape(-1, _FOLD) for x in loaded]
        if not self.has_second:
            return found, None
        scale, highest = numbers[0], numbers[1]
        # One over the root, and over the floor: a division takes as long as all other things.
        # NaN stays NaN in a choice; a GPU's maximum takes the other number.
        second = found[-1]
        factor = lax.rsqrt(jnp.where(second < 0, np.float32(0), second))
        is_below = factor > highest
        return [*found, found[0] * scale * jnp.where(is_below, highest, factor)], is_below

    def _quick(self, load: Load, numbers: Any, blocks: Any) -> tuple[list[_Sums], Any, Any]:
        """The sums of each stream, how often the root is below the floor, and the product."""
        ahead = AHEAD if self._streams == 1 else AHEAD_OF_SEVERAL

        def add(step: Any, state: Any) -> Any:
            every, below, product = state
            given = [self._blocks(loaded, numbers) for loaded in load(step * ahead, ahead)]
            by_stream = zip(*(found for found, _ in given), strict=True)
            streams = zip(every, by_stream, self._units, strict=True)
            every = [own.plus(x, unit) for own, x, unit in streams]
            if self.has_second:
                flags = [flag.astype(jnp.int32) for _, flag in given]
                below += _tree(flags, jnp.add).sum(1, dtype=jnp.int32)
            if self.has_first:
                product += _sum([found[0] * found[1] for found, _ in given])
            return every, below, product

        shape = (BLOCK // _FOLD,)
        none, nothing = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float64)
        start = [_Sums.none() for _ in range(self._streams)]
        every, below, product = lax.fori_loop(
            np.int32(0), blocks // np.int32(ahead), add, (start, none, nothing)
        )
        whole = [own.whole(unit) for own, unit in zip(every, self._units, strict=True)]
        return whole, jnp.sum(below, dtype=jnp.int32), jnp.sum(product)

    def _careful(self, load: Load, numbers: Any, blocks: Any) -> tuple[list[_Sums], Any, Any]:
        """The sums in float64, of the finite elements, except zeros; the others' counts; and the
        product."""

        def add(step: Any, state: Any) -> Any:
            every, rare, product = state
            loaded = load(step * np.int32(AHEAD_OF_SEVERAL), AHEAD_OF_SEVERAL)
            given = [self._blocks(each, numbers)[0] for each in loaded]
            sums, counts = [], []
            for own, others, *blocks in zip(every, rare, *given, strict=True):
                finite = [jnp.abs(x) < _INF for x in blocks]
                pairs = list(zip(blocks, finite, strict=True))
                kept = [jnp.where(is_one, x, np.float32(0)) for x, is_one in pairs]
                low = _tree([jnp.where(is_one, x, _INF) for x, is_one in pairs], jnp.minimum)
                high = _tree([jnp.where(is_one, x, -_INF) for x, is_one in pairs], jnp.maximum)
                more = own.plus([x.astype(jnp.float64) for x in kept])
                low, high = jnp.minimum(own.low, low.min(1)), jnp.maximum(own.high, high.max(1))
                sums.append(more._replace(low=low, high=high))
                kinds = zip(*((x != x, x == _INF, x == -_INF) for x in blocks), strict=True)
                counts.append([n + _count(each) for n, each in zip(others, kinds, strict=True)])
            if self.has_first:
                wide = [[x.astype(jnp.float64) for x in found[:2]] for found in given]
                product += _tree([g * m for g, m in wide], jnp.add).sum(1)
            return sums, counts, product

        shape, streams = (BLOCK // _FOLD,), self._streams
        none = [[jnp.zeros(shape, jnp.int32)] * 3 for _ in range(streams)]
        start = [_Sums.none() for _ in range(streams)], none, jnp.zeros(shape, jnp.float64)
        steps = blocks // np.int32(AHEAD_OF_SEVERAL)
        every, rare, product = lax.fori_loop(np.int32(0), steps, add, start)
        counts = [[jnp.sum(x, dtype=jnp.int32) for x in own] for own in rare]
        return [own.whole() for own in every], counts, jnp.sum(product)


def _sum(blocks: Sequence[Any]) -> Any:
    return _tree(blocks, jnp.add).sum(1).astype(jnp.float64)


def _tree(blocks: Sequence[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """All of them merged, in pairs: of float32, this rounds less than one after the other."""
    blocks = list(blocks)
    while len(blocks) > 1:
        pairs = [merge(*blocks[i : i + 2]) for i in range(0, len(blocks) - 1, 2)]
        blocks = pairs + blocks[len(blocks) // 2 * 2 :]
    return blocks[0]


def _is_zero(x: Any) -> Any:
    return lax.bitcast_convert_type(x, jnp.int32) & _MAGNITUDE == 0


def _count(conditions: Sequence[Any]) -> Any:
    several = [each.astype(jnp.int32) for each in conditions]
    return _tree(several, jnp.add).sum(1, dtype=jnp.int32)
