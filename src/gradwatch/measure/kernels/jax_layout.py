"""JAX arrays to matrices of their rows, and statistics of rows to statistics of arrays.

What is compiled here should be little, however many arrays there are: XLA takes some 10 ms for
each loop, but shares loops of one shape, and copies without one. The time for a copy of many
arrays grows with the square of their number, so a copy is of few, and then of those copies.
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from gradwatch.core import Tensor
from gradwatch.measure.kernels.row_layout import COMMON, Matrix, Piece, RowLayout, filler

_TOGETHER = 64
"""The arrays that are copied at once, on a CPU."""


class LaidOut(NamedTuple):
    """Arrays and the rows of the small ones of them."""

    layout: RowLayout
    tensors: Sequence[Tensor]
    chunks: Sequence[Matrix]

    @classmethod
    def of_none(cls) -> "LaidOut":
        return cls(RowLayout((), 1, (), ()), [], [])


def heads(layout: RowLayout, tensors: Sequence[Tensor]) -> list[Matrix]:
    """The whole rows of each large tensor, as they are."""
    wholes = [tensors[i].reshape(-1)[: layout.head(i)] for i in layout.alone]
    return [Matrix(x.reshape(-1, layout.width), None) for x in wholes]


def laid_out(
    layout: RowLayout, tensors: Sequence[Tensor], padding: float = 0.0, common: int | None = None
) -> list[Matrix]:
    """The matrix of each chunk, as float32; the tensors of a chunk are of one type.

    `padding` must be 0 unless `common` is 1; for `common` see `RowLayout.parts`. On a CPU it takes
    less time to compile copies of zeros than loops that pad.
    """
    is_on_gpu = jax.default_backend() == "gpu"
    common = common or (COMMON if is_on_gpu else sys.maxsize)
    flat = [x.reshape(-1) for x in tensors]

    def cut(piece: Piece) -> Tensor:
        return flat[piece.tensor][piece.start :] if piece.start else flat[piece.tensor]

    def pad(same: list[Tensor], missing: int) -> Tensor:
        # The barrier keeps the copies from becoming a part of the loop that pads them.
        rows = lax.optimization_barrier(lax.concatenate(same, 0)).reshape(len(same), -1)
        return lax.pad(rows, np.asarray(padding, rows.dtype), [(0, 0, 0), (0, missing, 0)]).ravel()

    found = []
    for chunk in layout.chunks:
        fill = partial(filler, dtype=flat[chunk[0].tensor].dtype)
        parts = layout.parts(chunk, cut, fill, pad, common)
        # Without the barrier XLA makes it anew in every reduction, which takes long to compile.
        joined = lax.optimization_barrier(_joined(parts, not is_on_gpu).astype(jnp.float32))
        found.append(Matrix(joined.reshape(-1, layout.width), layout.lengths(chunk)))
    return found


def _joined(parts: Sequence[Tensor], by_groups: bool) -> Tensor:
    if by_groups and len(parts) > _TOGETHER:
        groups = [parts[i : i + _TOGETHER] for i in range(0, len(parts), _TOGETHER)]
        # The barrier keeps XLA from making one copy of the copies.
        parts = [lax.optimization_barrier(lax.concatenate(group, 0)) for group in groups]
    return lax.concatenate(parts, 0)


def table_of(*columns: Tensor) -> Tensor:
    """Statistics of rows, one line each: sums, and last two maxima, of -x and of x."""
    tall = [x.reshape(x.shape[0], -1).astype(jnp.float64) for x in columns]
    return lax.concatenate(tall, 1)


def merge_rows(layout: RowLayout, tables: Sequence[Tensor]) -> Tensor:
    """The lines of the tensors from those of their rows: the same sums, then minimum, maximum."""
    # Without the spare rows of chunks.
    every = lax.concatenate([t[:n] for t, n in zip(tables, layout.heights, strict=True)], 0)
    by_tensor = _scattered if jax.default_backend() != "gpu" else _merged_by_blocks
    found = by_tensor(layout, every)
    return jnp.concatenate([found[:, :-2], found[:, -2:] * np.array([-1.0, 1.0])], axis=1)


def _scattered(layout: RowLayout, every: Tensor) -> Tensor:
    """On a CPU the least to compile, and quick."""
    owners, many = layout.owners, len(layout.sizes)
    sums = jnp.zeros((many, every.shape[1] - 2), every.dtype)
    sums = sums.at[owners].add(every[:, :-2], mode="promise_in_bounds")
    bounds = jnp.full((many, 2), -np.inf, every.dtype)
    bounds = bounds.at[owners].max(every[:, -2:], mode="promise_in_bounds")
    return lax.concatenate([sums, bounds], 1)


def _merged_by_blocks(layout: RowLayout, every: Tensor) -> Tensor:
    nothing = np.array([[0.0] * (every.shape[1] - 2) + [-np.inf] * 2])
    with_nothing = jnp.concatenate([every, nothing])
    parts = []
    for block in layout.blocks:
        if block.which is not None:
            part = with_nothing[block.which]
        else:
            end = block.start + block.many * block.each
            part = every[block.start : end].reshape(block.many, block.each, -1)
        parts.append(_merged(part))
    both = jnp.concatenate([*parts, nothing])
    return _merged(both[layout.places]) if layout.has_rests else both[layout.places[:, 0]]


def _merged(lines: Tensor) -> Tensor:
    return jnp.concatenate([lines[..., :-2].sum(1), lines[..., -2:].max(1)], axis=1)


def packed(sizes: Tensor, before: Sequence[Tensor], table: Tensor) -> Tensor:
    """Ten columns, in the order of `gradwatch.core.FIELDS`."""
    return jnp.concatenate([sizes[:, None], *before, table], axis=1)


def placed(table: Tensor, positions: Sequence[int], count: int, otherwise: ArrayLike) -> Tensor:
    """A table of `count` rows, with those given at their positions and `otherwise` elsewhere."""
    if list(positions) == list(range(count)):
        return table
    places = np.full(count, len(table), np.int32)
    places[list(positions)] = range(len(table))
    return jnp.concatenate([table, jnp.asarray(otherwise)[None]])[places]
