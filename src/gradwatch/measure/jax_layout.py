"""From JAX arrays to the matrices of their rows, and from statistics of rows to those of arrays.

What is compiled here should be little, however many arrays there are: XLA takes some 10 ms for each
loop that it has to make, but shares those of one shape, and copies without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.measure.rows import OFTEN, Matrix, Piece, Rows, filler


def heads(rows: Rows, tensors: Sequence[Any]) -> list[Matrix]:
    """The whole rows of each large tensor, as they are."""
    wholes = [tensors[i].reshape(-1)[: rows.head(i)] for i in rows.alone]
    return [Matrix(x.reshape(-1, rows.width), None) for x in wholes]


def laid_out(rows: Rows, tensors: Sequence[Any]) -> list[Matrix]:
    """The rows of each chunk, as float32, padded with zeros."""
    flat = [x.reshape(-1) for x in tensors]
    found = []
    often = Counter(x.size for x in flat)
    for chunk in rows.chunks:
        parts = []
        for piece in chunk:
            x, missing = _part(flat, piece), rows.padding(piece)
            if missing and often[x.size] >= OFTEN:
                x, missing = lax.pad(x, np.zeros((), x.dtype), [(0, missing, 0)]), 0
            parts += [x, filler(missing, x.dtype)] if missing else [x]
        spare = rows.spare(chunk)
        if spare:
            parts.append(filler(spare * rows.width, parts[0].dtype))
        # Else XLA makes it anew in every reduction, which takes long to compile.
        together = lax.optimization_barrier(lax.concatenate(parts, 0).astype(jnp.float32))
        lengths = np.append(rows.lengths(chunk), np.full(spare, rows.width))
        found.append(Matrix(together.reshape(-1, rows.width), lengths))
    return found


def laid_out_with_nan(rows: Rows, tensors: Sequence[Any]) -> list[Matrix]:
    """The same, padded with NaN."""
    flat = [x.reshape(-1) for x in tensors]
    found = []
    for chunk in rows.chunks:
        padded = []
        for piece in chunk:
            x = _part(flat, piece).astype(jnp.float32)
            around = [(0, rows.padding(piece), 0)]
            padded.append(lax.pad(x, np.float32(np.nan), around) if rows.padding(piece) else x)
        together = lax.optimization_barrier(jnp.concatenate(padded)).reshape(-1, rows.width)
        found.append(Matrix(together, rows.lengths(chunk)))
    return found


def table_of(*columns: Any) -> Any:
    """Statistics of rows, one line each: sums, and last two maxima, of -x and of x."""
    tall = [x.reshape(x.shape[0], -1).astype(jnp.float64) for x in columns]
    return lax.concatenate(tall, 1)


def brought_together(rows: Rows, tables: Sequence[Any]) -> Any:
    """The lines of the tensors from those of their rows: the same sums, then minimum, maximum."""
    # Without those of a chunk's spare rows.
    every = lax.concatenate([t[:n] for t, n in zip(tables, rows.heights, strict=True)], 0)
    nothing = np.array([[0.0] * (every.shape[1] - 2) + [-np.inf] * 2])
    with_nothing = jnp.concatenate([every, nothing])
    parts = []
    for block in rows.blocks:
        if block.which is not None:
            part = with_nothing[block.which]
        else:
            end = block.start + block.many * block.each
            part = every[block.start : end].reshape(block.many, block.each, -1)
        parts.append(jnp.concatenate([part[..., :-2].sum(1), part[..., -2:].max(1)], axis=1))
    both = jnp.concatenate([*parts, nothing])
    found = both[np.array(rows.firsts)]
    sums, most = found[:, :-2], found[:, -2:]
    if rows.rests:
        none = len(both) - 1
        rest = both[np.array([rows.rests.get(i, none) for i in range(len(rows.sizes))])]
        sums, most = sums + rest[:, :-2], jnp.maximum(most, rest[:, -2:])
    return jnp.concatenate([sums, most * np.array([-1.0, 1.0])], axis=1)


def packed(sizes: Any, before: Sequence[Any], table: Any) -> Any:
    """Ten columns, in the order of `gradwatch.summary.FIELDS`."""
    return jnp.concatenate([sizes[:, None], *before, table], axis=1)


def _part(flat: Sequence[Any], piece: Piece) -> Any:
    return flat[piece.tensor][piece.start :] if piece.start else flat[piece.tensor]
