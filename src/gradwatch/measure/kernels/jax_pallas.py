"""A Pallas kernel for summaries of large JAX arrays on a GPU.

XLA launches two kernels for each tensor, and a step of hundreds of tensors then waits for
launches more than for memory. This kernel reads several tensors of one size in one launch,
a chunk of one of them in each program; a program accumulates in registers, in float64, and
writes one column of partial results. Pallas compiles it through Triton, so it needs a GPU that
Triton supports; `is_available` tries it once.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.compat import jax_names
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS

BLOCK, STEPS, WARPS = 1024, 16, 8
CHUNK = BLOCK * STEPS
"""Elements of a program. Two counts share an int32, so there may be no more than 32767."""
TOGETHER = 8
"""How many tensors a kernel reads: more make fewer kernels, but longer ones."""
_MAGNITUDE, _INFINITE = np.int32(FLOAT32_BITS.magnitude), np.int32(FLOAT32_BITS.infinity)
_INF = np.float32(np.inf)
_OUTPUTS = ((2, jnp.int32), (3, jnp.float64), (2, jnp.float32))


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
            return bool(np.allclose(np.asarray(found), expected, rtol=1e-12))
    except Exception:
        # An older GPU, or a JAX without Pallas: XLA's own reductions do it instead.
        return False


def whole_chunks(flat: Sequence[Any], *, interpret: bool = False) -> Any:
    """Summaries, without the count, of the whole chunks of each flat array, one row each.

    Arrays are float32 or narrower, of at least one chunk. `interpret` needs no GPU, but is slow.
    """
    alike: dict[Any, list[int]] = {}
    for i, x in enumerate(flat):
        alike.setdefault((x.size // CHUNK, x.size, x.dtype), []).append(i)
    partials: dict[int, list[tuple[Any, Any, Any]]] = {}
    order: dict[int, list[int]] = {}
    for (chunks, _, _), same in alike.items():
        for start in range(0, len(same), TOGETHER):
            some = same[start : start + TOGETHER]
            found = _call([flat[i] for i in some], chunks, interpret)
            partials.setdefault(chunks, []).append(found)
            order.setdefault(chunks, []).extend(some)
    # Tensors of equally many chunks are merged at once: each reduction is another kernel.
    rows = [
        _merged(*map(jnp.concatenate, zip(*several, strict=True))) for several in partials.values()
    ]
    numbers = [i for several in order.values() for i in several]
    return jnp.concatenate(rows)[np.argsort(np.array(numbers))]


def _merged(counts: Any, sums: Any, bounds: Any) -> Any:
    """Rows of NaN, +Inf, -Inf, zeros, the three sums, minimum and maximum."""
    parted = jnp.stack([counts & 0xFFFF, counts >> 16], 2).reshape(counts.shape[0], 4, -1)
    low, high = bounds[:, 0].min(-1, keepdims=True), bounds[:, 1].max(-1, keepdims=True)
    return jnp.concatenate(
        [
            parted.sum(-1, dtype=jnp.int64).astype(jnp.float64),
            sums.sum(-1),
            low.astype(jnp.float64),
            high.astype(jnp.float64),
        ],
        axis=1,
    )


# Compiled apart, so that kernels for tensors of the same sizes are traced and lowered once: that
# takes Python some 0.1 s for each tensor of a kernel.
@partial(jax.jit, static_argnames=("chunks", "interpret"))
def _call(flat: Sequence[Any], chunks: int, interpret: bool) -> tuple[Any, Any, Any]:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    many = len(flat)

    def kernel(*refs: Any) -> None:
        for i, tensor in enumerate(refs[:many]):
            pl.when(pl.program_id(0) == i)(lambda tensor=tensor: _measure(tensor, *refs[many:]))

    zero = np.int32(0)
    options = {} if interpret else {"compiler_params": triton.CompilerParams(num_warps=WARPS)}
    found = pl.pallas_call(
        kernel,
        grid=(many, chunks),
        in_specs=[pl.BlockSpec((CHUNK,), lambda i, chunk: (chunk,))] * many,
        out_specs=[pl.BlockSpec((1, n, 1), lambda i, chunk: (i, zero, chunk)) for n, _ in _OUTPUTS],
        out_shape=[jax.ShapeDtypeStruct((many, n, chunks), dtype) for n, dtype in _OUTPUTS],
        interpret=interpret,
        **options,
    )(*flat)
    return tuple(found)


def _measure(tensor: Any, counts: Any, sums: Any, bounds: Any) -> None:
    """One program: a chunk of one tensor."""
    from jax.experimental import pallas as pl

    def add(step: Any, state: Any) -> Any:
        seldom, total, magnitudes, squares, low, high = state
        x = tensor[pl.ds(step * BLOCK, BLOCK)].astype(jnp.float32)
        magnitude = lax.bitcast_convert_type(x, jnp.int32) & _MAGNITUDE
        finite = magnitude < _INFINITE
        wide = jnp.where(finite, x, np.float32(0)).astype(jnp.float64)
        return (
            seldom + _one(~finite) + (_one(magnitude == 0) << 16),
            total + wide,
            magnitudes + jnp.abs(wide),
            squares + wide * wide,
            jnp.minimum(low, jnp.where(finite, x, _INF)),
            jnp.maximum(high, jnp.where(finite, x, -_INF)),
        )

    none, nothing = jnp.zeros((BLOCK,), jnp.int32), jnp.zeros((BLOCK,), jnp.float64)
    low = jnp.full((BLOCK,), _INF, jnp.float32)
    start = (none, nothing, nothing, nothing, low, -low)
    seldom, total, magnitudes, squares, low, high = _loop(add, start)
    seldom = jnp.sum(seldom, dtype=jnp.int32)
    zeros = (seldom >> 16) << 16
    counts[0, 0, 0], counts[0, 1, 0] = jnp.zeros_like(zeros), zeros
    sums[0, 0, 0], sums[0, 1, 0] = jnp.sum(total), jnp.sum(magnitudes)
    sums[0, 2, 0] = jnp.sum(squares)
    bounds[0, 0, 0], bounds[0, 1, 0] = jnp.min(low), jnp.max(high)

    @pl.when((seldom & 0xFFFF) > 0)  # type: ignore[untyped-decorator]
    def _tell_apart() -> None:
        # A second pass over the chunk: counting three rare things always would cost as much as
        # the rest.
        def count(step: Any, state: Any) -> Any:
            x = tensor[pl.ds(step * BLOCK, BLOCK)].astype(jnp.float32)
            first, second = state
            first += _one(x != x) + (_one(x == _INF) << 16)
            return first, second + _one(x == -_INF)

        first, second = _loop(count, (none, none))
        counts[0, 0, 0] = jnp.sum(first, dtype=jnp.int32)
        counts[0, 1, 0] = jnp.sum(second, dtype=jnp.int32) + zeros


def _loop(body: Any, start: Any) -> Any:
    return lax.fori_loop(np.int32(0), np.int32(STEPS), body, start)


def _one(condition: Any) -> Any:
    return condition.astype(jnp.int32)
