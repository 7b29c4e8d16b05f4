"""A Pallas kernel for summaries of large JAX arrays on a GPU.

XLA launches two kernels for each tensor, and a step of hundreds of tensors then waits for
launches more than for memory. This kernel reads several tensors of one size in one launch,
a chunk of one of them in each program; a program accumulates in registers, in float64, and
writes one column of partial results. Of a gradient it can read the optimizer's moments beside it,
so that what is computed of all three costs no further read. Pallas compiles it through Triton, so
it needs a GPU that Triton supports; `is_available` tries it once.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.compat import jax_names
from gradwatch.measure.kernels.jax_program import BLOCK, CHUNK, WARPS, Program

PROGRAMS, MOST_CHUNKS = 4096, 16
"""A kernel has this many programs, as long as they have no more than that many chunks."""
TOGETHER, TOGETHER_OF_SEVERAL = 8, 4
"""How many tensors a kernel reads, or groups of several. More make fewer, longer kernels."""


class TensorGroup(NamedTuple):
    """Flat arrays of one size that are read together, float32 or narrower, of at least a chunk.

    With `second`, the gradient times `scale` over the root of `second` is measured too, and how
    often that root is below `floor`, by which it is then divided; both are of float32.
    """

    gradient: Any
    first: Any = None
    second: Any = None
    scale: Any = None
    floor: Any = None

    @property
    def streams(self) -> int:
        """The number of tensors that are summarised."""
        return 1 + (self.first is not None) + 2 * (self.second is not None)


class Chunks(NamedTuple):
    """Of the whole chunks of each group, one row each.

    `rows` has summaries without the count: of the gradient, the first moment, the second, and the
    normalized gradient, as far as there are any. `below` says how often the root is below the
    floor, and `product` is that of gradient and first moment, summed.
    """

    rows: Any
    below: Any
    product: Any


@cache
def is_available() -> bool:
    """Whether the kernel compiles here and measures a small array correctly."""
    # On another thread: this one may be tracing, where nothing runs.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_works).result()


def _works() -> bool:
    x = np.arange(-100, 2 * CHUNK - 100, dtype=np.float32)
    x[:3] = np.nan, np.inf, -np.inf
    kept = x[3:].astype(np.float64)
    sums = [kept.sum(), np.abs(kept).sum(), np.square(kept).sum()]
    expected = [1, 1, 1, 1, *sums, kept[0], kept[-1]]
    try:
        with jax_names.wide_types():
            found = jax.jit(lambda t: whole_chunks([t])[0])(jnp.asarray(x))
            return bool(np.allclose(np.asarray(found), expected, rtol=1e-6))
    except Exception:
        # An older GPU, or a JAX without Pallas: XLA's own reductions do it instead.
        return False


def whole_chunks(flat: Sequence[Any], *, interpret: bool = False) -> Any:
    """Summaries, without the count, of the whole chunks of each flat array, one row each.

    Arrays are float32 or narrower, of at least one chunk. `interpret` needs no GPU, but is slow.
    """
    return chunks_of_groups([TensorGroup(x) for x in flat], interpret=interpret).rows[:, 0]


def chunks_of_groups(groups: Sequence[TensorGroup], *, interpret: bool = False) -> Chunks:
    """The same of tensors that are read together; all groups have the same moments."""
    alike: dict[Any, list[int]] = {}
    for i, group in enumerate(groups):
        kinds = tuple(x is not None and x.dtype for x in group[:3])
        alike.setdefault((group.gradient.size, kinds), []).append(i)
    partials: dict[int, list[tuple[list[int], Any]]] = {}
    streams = groups[0].streams
    together = TOGETHER if streams == 1 else TOGETHER_OF_SEVERAL
    for (size, _), same in alike.items():
        for start in range(0, len(same), together):
            some = same[start : start + together]
            found = _call([groups[i] for i in some], size // CHUNK, interpret)
            partials.setdefault(found[0].shape[-1], []).append((some, found))
    # Groups of equally many programs are merged at once: each reduction is another kernel.
    order = [i for several in partials.values() for some, _ in several for i in some]
    merged = [
        _merged(streams, *map(jnp.concatenate, zip(*(found for _, found in several), strict=True)))
        for several in partials.values()
    ]
    places = np.argsort(np.array(order))
    return Chunks(*(jnp.concatenate(each)[places] for each in zip(*merged, strict=True)))


def _merged(streams: int, counts: Any, sums: Any, bounds: Any) -> tuple[Any, Any, Any]:
    """Of each group, what `Chunks` has, from that of all its chunks.

    A row is NaN, +Inf, -Inf, zeros, the three sums, minimum and maximum.
    """
    counts = counts.sum(-1, dtype=jnp.int64).astype(jnp.float64)
    sums = sums.sum(-1)
    low, high = bounds[:, :streams].min(-1), bounds[:, streams:].max(-1)
    parts = [
        counts[:, :-1].reshape(-1, streams, 4),
        sums[:, :-1].reshape(-1, streams, 3),
        low[:, :, None].astype(jnp.float64),
        high[:, :, None].astype(jnp.float64),
    ]
    return jnp.concatenate(parts, axis=2), counts[:, -1], sums[:, -1]


# Compiled apart, so that kernels for tensors of the same sizes are traced and lowered once: that
# takes Python some 0.1 s for each tensor of a kernel.
@partial(jax.jit, static_argnames=("chunks", "interpret"))
def _call(groups: Sequence[TensorGroup], chunks: int, interpret: bool) -> tuple[Any, Any, Any]:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    many, streams = len(groups), groups[0].streams
    arrays = [[x for x in group[:3] if x is not None] for group in groups]
    each = len(arrays[0])
    settings = jnp.zeros((2 * many,), jnp.float32)
    if groups[0].second is not None:
        numbers = [x for group in groups for x in (group.scale, 1 / group.floor)]
        settings = jnp.stack([jnp.asarray(x, jnp.float32) for x in numbers])
    program = Program(
        groups[0].first is not None, groups[0].second is not None, chunks, _span(many * chunks)
    )

    def kernel(*refs: Any) -> None:
        inputs, (numbers, *outputs) = refs[: many * each], refs[many * each :]
        own = [inputs[i * each : (i + 1) * each] for i in range(many)]
        group = pl.program_id(0)

        # Only loading differs from group to group. With a body for each, the kernel is too long
        # for the processor's cache, and takes long to trace and to lower.
        def load(block: Any, count: int) -> Any:
            def load_own(tensors: Sequence[Any]) -> list[list[Any]]:
                starts = [(block + k) * BLOCK for k in range(count)]
                return [[x[pl.ds(start, BLOCK)] for x in tensors] for start in starts]

            return lax.switch(group, [partial(load_own, each) for each in own])

        program.run(load, numbers, *outputs)

    zero, columns = np.int32(0), -(-chunks // program.span)
    outputs = (
        (4 * streams + 1, jnp.int32),
        (3 * streams + 1, jnp.float64),
        (2 * streams, jnp.float32),
    )
    options = {} if interpret else {"compiler_params": triton.CompilerParams(num_warps=WARPS)}
    found = pl.pallas_call(
        kernel,
        grid=(many, columns),
        in_specs=[
            *[pl.BlockSpec((program.span * CHUNK,), lambda i, column: (column,))] * (many * each),
            pl.BlockSpec((2,), lambda i, column: (i,)),
        ],
        out_specs=[
            pl.BlockSpec((1, n, 1), lambda i, column: (i, zero, column)) for n, _ in outputs
        ],
        out_shape=[jax.ShapeDtypeStruct((many, n, columns), dtype) for n, dtype in outputs],
        interpret=interpret,
        **options,
    )(*[x for some in arrays for x in some], settings)
    return tuple(found)


def _span(chunks: int) -> int:
    """The number of chunks of a program, a power of 2."""
    span = 1
    while span < MOST_CHUNKS and chunks >= 2 * span * PROGRAMS:
        span *= 2
    return span
