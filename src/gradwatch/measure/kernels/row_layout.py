"""How many tensors of any shape are cut into rows of one width.

Where tensors are small and many, a reduction for each tensor and statistic costs more to compile
and to start than to run. So small tensors are laid out together in one matrix and reduced at
once; large ones are reduced in place. Either way a tensor becomes rows of equal width, whose
statistics are then merged:

- the whole rows of a large tensor, its *head*, are a matrix of their own: the tensor is `alone`;
- small tensors, and the remainders of large ones, are *pieces* of further matrices, each padded
  to whole rows.

A matrix of thousands of pieces takes longer to compile than several matrices of hundreds, so
pieces are divided into *chunks*, one for each matrix. Chunks have few different heights, because
matrices of one shape share what is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Tensor

MAX_PIECES, MAX_ELEMENTS = 1024, 1 << 22
"""Of a chunk."""
HEIGHT = 64
"""If there are several chunks, the height of each is a multiple of this."""
MAX_BLOCKS = 16
COMMON = 4
"""From so many tensors of one size on, they are padded together."""

_ALIKE = 16


def are_alike(total: Tensor, squares: Tensor, sizes: Any) -> Tensor:
    """For each tensor, whether its mean square is more than 16 times its variance.

    Then a spread derived from float32 sums would be mostly rounding. Below, an error of 1e-6 in the
    sums makes at most one of 1e-5 in the standard deviation.
    """
    return total * total > squares * (sizes * (1 - 1 / _ALIKE))


@cache
def filler(length: int, dtype: Any) -> NDArray[Any]:
    """Zeros to put between small tensors, which XLA copies.

    Were all of them positive, XLA would make a loop for each tensor to pad it.
    """
    zeros = np.zeros(length, dtype)
    zeros[-1] = -0.0
    return zeros


class Matrix(NamedTuple):
    """Some of the rows; `lengths` are their numbers of elements, None if none is padded."""

    values: Tensor
    lengths: Any


class Piece(NamedTuple):
    """Some elements of a tensor, padded to whole rows."""

    tensor: int
    start: int
    length: int


class RowBlock(NamedTuple):
    """Neighbours whose rows are merged by one reduction."""

    start: int
    many: int
    each: int
    """The number of rows of each neighbour; the highest number, if there is a `which`."""
    which: NDArray[np.int32] | None
    """The numbers of the rows of each neighbour; the number after the last row stands for none."""


@dataclass(frozen=True)
class RowLayout:
    """The rows of tensors of given sizes.

    Rows are numbered: first those of `alone`, then those of `pieces`. Neighbours with equally
    many rows form a block, so that one reduction merges the rows of all of them.
    """

    sizes: tuple[int, ...]
    width: int
    alone: tuple[int, ...]
    """Large tensors, by the number of their whole rows."""
    chunks: tuple[tuple[Piece, ...], ...]
    """All other pieces, by the number of rows."""

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        width: int,
        large: int,
        kinds: Sequence[Any] | None = None,
        most: int = MAX_PIECES,
    ) -> RowLayout:
        """The layout of tensors of these sizes, which are at least 1.

        Tensors of `large` elements or more are not copied. The pieces of a chunk are of one of the
        `kinds`, at most `most`; if `kinds` is None, there is one chunk.
        """
        is_large = [size >= max(large, width) for size in sizes]
        starts = [size // width * width if is_large[i] else 0 for i, size in enumerate(sizes)]
        pieces = [Piece(i, s, n - s) for i, (s, n) in enumerate(zip(starts, sizes, strict=True))]
        # By the number of rows, and by length, so that equal ones are neighbours.
        pieces = sorted((p for p in pieces if p.length), key=lambda p: p.length)
        alone = sorted((i for i, large in enumerate(is_large) if large), key=starts.__getitem__)
        chunks = _chunks(pieces, width, kinds, most) if kinds else [tuple(pieces)] * bool(pieces)
        return cls(tuple(sizes), width, tuple(alone), tuple(chunks))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(piece for chunk in self.chunks for piece in chunk)

    def head(self, tensor: int) -> int:
        """The number of elements in the whole rows of a large tensor."""
        return self.sizes[tensor] // self.width * self.width

    def height(self, piece: Piece) -> int:
        return -(-piece.length // self.width)

    def padding(self, piece: Piece) -> int:
        """The number of elements that a piece lacks to whole rows."""
        return -piece.length % self.width

    def spare(self, chunk: Sequence[Piece]) -> int:
        """The number of rows of the matrix of a chunk beyond those of its pieces."""
        used = sum(map(self.height, chunk))
        return -used % HEIGHT if len(self.chunks) > 1 else 0

    def lengths(self, chunk: Sequence[Piece]) -> NDArray[np.int64]:
        """The number of elements in each row of the matrix of a chunk."""
        counts = []
        for piece in chunk:
            counts += [self.width] * (self.height(piece) - 1)
            counts.append(self.width - self.padding(piece))
        return np.array(counts + [self.width] * self.spare(chunk), np.int64)

    def parts(
        self,
        chunk: Sequence[Piece],
        cut: Callable[[Piece], Tensor],
        fill: Callable[[int], Tensor],
        pad: Callable[[list[Tensor], int], Tensor],
        common: int = COMMON,
    ) -> list[Tensor]:
        """The pieces of a chunk and the padding between them, to be concatenated.

        Pieces of one length, if at least `common`, are padded by one call of `pad`, which also
        concatenates them. Other padding is made by `fill`.
        """
        parts = []
        for _, same in groupby(chunk, key=lambda piece: piece.length):
            pieces = list(same)
            cuts, missing = [cut(piece) for piece in pieces], self.padding(pieces[0])
            if missing and len(pieces) >= common:
                parts.append(pad(cuts, missing))
            else:
                parts += [x for one in cuts for x in ([one, fill(missing)] if missing else [one])]
        spare = self.width * self.spare(chunk)
        return [*parts, fill(spare)] if spare else parts

    @cached_property
    def heights(self) -> list[int]:
        """The number of rows of each matrix without spare ones: of `alone`, then of chunks."""
        heads = [self.head(i) // self.width for i in self.alone]
        return heads + [sum(map(self.height, chunk)) for chunk in self.chunks]

    @cached_property
    def owners(self) -> NDArray[np.int32]:
        """The tensor of each row."""
        tensors = [*self.alone, *(piece.tensor for piece in self.pieces)]
        counts = [self.head(i) // self.width for i in self.alone]
        return np.repeat(tensors, counts + list(map(self.height, self.pieces))).astype(np.int32)

    @cached_property
    def blocks(self) -> tuple[RowBlock, ...]:
        """The blocks of `alone` and then of `pieces`."""
        counts = self.heights[: len(self.alone)] + [self.height(piece) for piece in self.pieces]
        same = [list(each) for _, each in groupby(counts)]
        if len(same) > MAX_BLOCKS:
            # Each block is compiled separately: now those with up to twice as many rows share one.
            same = [list(each) for _, each in groupby(counts, lambda n: (n - 1).bit_length())]
        ends = np.cumsum([sum(each) for each in same])
        return tuple(
            _block(each, int(end) - sum(each), sum(counts))
            for each, end in zip(same, ends, strict=True)
        )

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """For each tensor two places among `alone` and then `pieces`: of itself, and of its rest.

        The place after the last stands for none.
        """
        places = np.full((len(self.sizes), 2), len(self.alone) + len(self.pieces), np.intp)
        places[list(self.alone), 0] = range(len(self.alone))
        for at, piece in enumerate(self.pieces, len(self.alone)):
            places[piece.tensor, int(piece.start > 0)] = at
        return places

    @property
    def has_rests(self) -> bool:
        """Whether a large tensor has a piece."""
        return any(piece.start for piece in self.pieces)

    @property
    def is_alone(self) -> NDArray[np.bool_]:
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
            if chunk and (len(chunk) == most or elements + more > MAX_ELEMENTS):
                yield tuple(chunk)
                chunk, elements = [], 0
            chunk.append(piece)
            elements += more
        if chunk:
            yield tuple(chunk)


def _block(counts: Sequence[int], start: int, none: int) -> RowBlock:
    most = max(counts)
    if min(counts) == most:
        return RowBlock(start, len(counts), most, None)
    begins = start + np.cumsum([0, *counts[:-1]])
    row = np.arange(most)
    which = np.where(row < np.array(counts)[:, None], begins[:, None] + row, none)
    return RowBlock(start, len(counts), most, which.astype(np.int32))
