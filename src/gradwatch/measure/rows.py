"""How many tensors of any shape are cut into rows of one width.

A reduction for each tensor and statistic costs more to compile and to start than to
run, where tensors are small and many. So small tensors are laid out together in one
matrix and reduced at once; large ones are reduced where they lie. Either way a tensor
becomes rows of equal width, whose statistics are then brought together:

- the whole rows of a large tensor, its *head*, are a matrix of their own: it is `alone`;
- small tensors, and what is left over of large ones, are *pieces* of further matrices, each
  padded to whole rows.

A matrix of thousands of pieces takes longer to compile than many of hundreds together, so there
is a *chunk* of them for each. Their heights are few, since what is compiled is shared by
matrices of one shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_PIECES, MOST_ELEMENTS = 1024, 1 << 22
"""Of a chunk."""
HEIGHT = 64
"""Of several chunks, each has a multiple of so many rows."""
MOST_BLOCKS = 16
OFTEN = 4
"""So many tensors of one size are worth a loop that XLA makes to pad them."""

ALIKE = 16
"""Elements are alike if their mean square is more than so many times their variance."""


def are_alike(total: Any, squares: Any, sizes: Any) -> Any:
    """For each tensor, whether its elements scatter little around a mean that is not 0.

    Then a spread that is derived from sums of float32 would be of their rounding. Up to
    here, an error of 1e-6 in the sums makes at most one of 1e-5 in the standard deviation.

    Args:
        total, squares: the tensors' sums, of any framework.
        sizes: their numbers of elements.
    """
    return total * total > squares * (sizes * (1 - 1 / ALIKE))


@cache
def filler(length: int, dtype: Any) -> Any:
    """Zeros to put between small tensors, which XLA copies.

    Were all of them positive, it would pad each tensor by a loop that it makes for it.
    """
    zeros = np.zeros(length, dtype)
    zeros[-1] = -0.0
    return zeros


class Matrix(NamedTuple):
    """Some of the rows; `lengths` are those of padded ones, None if none is."""

    values: Any
    lengths: Any


class Piece(NamedTuple):
    """Some elements of a tensor, padded to whole rows among those of others."""

    tensor: int
    start: int
    length: int


class Block(NamedTuple):
    """Neighbours whose rows one reduction brings together."""

    start: int
    """The number of the first row."""
    many: int
    each: int
    """How many rows each has; the most that one has, where `which` tells."""
    which: NDArray[np.int32] | None
    """The numbers of the rows of each; that after the last row stands for none."""


@dataclass(frozen=True)
class Rows:
    """The rows of tensors of given sizes.

    All rows are numbered one after the other: those of `alone`, then those of `pieces`.
    Neighbours with equally many rows form a block, so that one reduction brings together the rows
    of all of them.

    Example:

    >>> from gradwatch.measure.rows import Rows
    >>> rows = Rows.of([9, 101, 3, 8], width=4, large=50)
    >>> rows.alone
    (1,)
    >>> [tuple(piece) for piece in rows.pieces]
    [(1, 100, 1), (2, 0, 3), (3, 0, 8), (0, 0, 9)]
    >>> [(block.many, block.each) for block in rows.blocks]
    [(1, 25), (2, 1), (1, 2), (1, 3)]
    >>> [rows.lengths(chunk).tolist() for chunk in rows.chunks]
    [[1, 3, 4, 4, 4, 4, 1]]
    """

    sizes: tuple[int, ...]
    width: int
    alone: tuple[int, ...]
    """Large tensors, by the number of their whole rows."""
    chunks: tuple[tuple[Piece, ...], ...]
    """All else, by the number of rows."""

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        width: int,
        large: int,
        kinds: Sequence[Any] | None = None,
        most: int = MOST_PIECES,
    ) -> Rows:
        """The layout of tensors of these sizes.

        Args:
            sizes: their numbers of elements, at least 1 each.
            width: of a row.
            large: the number of elements from which on a tensor is not copied.
            kinds: their types, if small tensors are in chunks of one type each; else they are
                all in one chunk.
            most: how many pieces a chunk has.
        """
        is_large = [size >= max(large, width) for size in sizes]
        starts = [size // width * width if is_large[i] else 0 for i, size in enumerate(sizes)]
        pieces = [Piece(i, s, n - s) for i, (s, n) in enumerate(zip(starts, sizes, strict=True))]
        # By the number of rows, so that equal ones are neighbours.
        pieces = sorted((p for p in pieces if p.length), key=lambda p: -(-p.length // width))
        return cls(
            tuple(sizes),
            width,
            tuple(sorted((i for i, large in enumerate(is_large) if large), key=starts.__getitem__)),
            tuple(_chunks(pieces, width, kinds, most))
            if kinds
            else (tuple(pieces),) * bool(pieces),
        )

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Those of all chunks."""
        return tuple(piece for chunk in self.chunks for piece in chunk)

    def head(self, tensor: int) -> int:
        """How many elements are in the whole rows of a large tensor."""
        return self.sizes[tensor] // self.width * self.width

    def rows_of(self, piece: Piece) -> int:
        """How many rows a piece has."""
        return -(-piece.length // self.width)

    def padding(self, piece: Piece) -> int:
        """How many elements a piece lacks to whole rows."""
        return -piece.length % self.width

    def lengths(self, chunk: Sequence[Piece]) -> NDArray[np.int64]:
        """How many elements there are in each row of the chunk."""
        counts = []
        for piece in chunk:
            counts += [self.width] * (self.rows_of(piece) - 1)
            counts.append(self.width - self.padding(piece))
        return np.array(counts, np.int64)

    def spare(self, chunk: Sequence[Piece]) -> int:
        """How many rows the chunk's matrix has beyond those of its pieces."""
        used = sum(self.rows_of(piece) for piece in chunk)
        return -used % HEIGHT if len(self.chunks) > 1 else 0

    @property
    def heights(self) -> list[int]:
        """How many rows of each matrix are tensors': those of `alone`, then those of chunks."""
        heads = [self.head(i) // self.width for i in self.alone]
        return heads + [sum(map(self.rows_of, chunk)) for chunk in self.chunks]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Those of `alone` and then of `pieces`."""
        heads = [self.head(i) // self.width for i in self.alone]
        counts = heads + [self.rows_of(piece) for piece in self.pieces]
        same = [list(each) for _, each in groupby(counts)]
        if len(same) > MOST_BLOCKS:
            # Each block is compiled by itself: now those with up to twice as many are alike.
            same = [list(each) for _, each in groupby(counts, lambda n: (n - 1).bit_length())]
        ends = np.cumsum([sum(each) for each in same])
        return tuple(
            _block(each, int(end) - sum(each), sum(counts))
            for each, end in zip(same, ends, strict=True)
        )

    @property
    def firsts(self) -> list[int]:
        """For each tensor the place, among `alone` and then `pieces`, where it begins."""
        place = dict(zip(self.alone, range(len(self.alone)), strict=True))
        for at, piece in enumerate(self.pieces, len(self.alone)):
            if not piece.start:
                place[piece.tensor] = at
        return [place[i] for i in range(len(self.sizes))]

    @property
    def rests(self) -> dict[int, int]:
        """By large tensor, the place of what is left over of it."""
        return {p.tensor: at for at, p in enumerate(self.pieces, len(self.alone)) if p.start}

    @property
    def is_alone(self) -> NDArray[np.bool_]:
        """For each tensor, whether it is large."""
        return np.isin(np.arange(len(self.sizes)), self.alone)


def _chunks(
    pieces: Sequence[Piece], width: int, kinds: Sequence[Any], most: int
) -> Iterator[tuple[Piece, ...]]:
    for kind in dict.fromkeys(kinds):
        chunk: list[Piece] = []
        elements = 0
        for piece in pieces:
            if kinds[piece.tensor] != kind:
                continue
            more = -(-piece.length // width) * width
            if chunk and (len(chunk) == most or elements + more > MOST_ELEMENTS):
                yield tuple(chunk)
                chunk, elements = [], 0
            chunk.append(piece)
            elements += more
        if chunk:
            yield tuple(chunk)


def _block(counts: Sequence[int], start: int, none: int) -> Block:
    most = max(counts)
    if min(counts) == most:
        return Block(start, len(counts), most, None)
    begins = start + np.cumsum([0, *counts[:-1]])
    row = np.arange(most)
    which = np.where(row < np.array(counts)[:, None], begins[:, None] + row, none)
    return Block(start, len(counts), most, which.astype(np.int32))
