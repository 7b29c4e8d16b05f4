"""What is computed of gradients and an optimizer's moments, measured on a GPU without making it.

What is asked for comes as an object of `jax_computed`, which names the tensors that it is computed
of. Those that are asked for together are then read together: large ones once, by the kernel
`jax_pallas`, which measures the tensors themselves as well; small ones as rows of one matrix.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.compat import jax_names
from gradwatch.core import FIELDS, IDENTITY, Tensor
from gradwatch.measure.kernels import jax_pallas, jax_rows
from gradwatch.measure.kernels.jax_bits import nonzero
from gradwatch.measure.kernels.jax_computed import Below, Cosine, Normalized, root_of
from gradwatch.measure.kernels.jax_layout import heads, laid_out, merge_rows, placed, table_of
from gradwatch.measure.kernels.jax_pallas import Chunks, TensorGroup
from gradwatch.measure.kernels.jax_program import CHUNK
from gradwatch.measure.kernels.row_layout import Matrix, RowLayout

_ROWS = 6
"""Of a group: gradient, first and second moment, normalized gradient, below and cosine."""
_KINDS = ("gradient", "first", "second")


class _Places(NamedTuple):
    """Of a group, the places of its arrays in a list, and of the settings in another; -1 for
    none."""

    gradient: int
    first: int = -1
    second: int = -1
    settings: int = -1
    sign: float = 1.0


class TensorsTogether(NamedTuple):
    """The tensors that are read together, and which of the given ones are measured so."""

    arrays: list[Tensor]
    settings: list[tuple[Any, Any]]
    """Pairs of correction and floor."""
    groups: tuple[_Places, ...]
    row_of: Mapping[int, int]
    """By the position of a given tensor, its row among those of `summarize`."""


def read_together(tensors: Sequence[Any]) -> TensorsTogether:
    """Groups of the tensors of which something is computed.

    Large ones are themselves measured with it.
    """
    found: dict[int, dict[str, Any]] = {}
    rows: dict[int, tuple[int, int]] = {}  # By position, the gradient's id and the row of its group

    def join(i: int, row: int, gradient: Tensor, **parts: Any) -> None:
        own = found.setdefault(id(gradient), {"gradient": gradient})
        if _fit(gradient, *(parts[name] for name in _KINDS if name in parts)) and all(
            own.get(name, x) is x for name, x in parts.items()
        ):
            own.update(parts)
            rows[i] = id(gradient), row

    for i, x in enumerate(tensors):
        if isinstance(x, Normalized):
            join(i, 3, x.gradient, second=x.second, correction=x.correction, floor=x.floor)
        elif isinstance(x, Cosine):
            join(i, 5, x.gradient, first=x.first, sign=x.sign)
    seconds = {id(own["second"]): key for key, own in found.items() if "second" in own}
    for i, x in enumerate(tensors):
        if isinstance(x, Below) and id(x.second) in seconds:
            key = seconds[id(x.second)]
            if _same(found[key]["floor"], x.floor):
                rows[i] = key, 4
    found = {key: found[key] for key, _ in rows.values()}
    own_rows = {
        id(own[name]): (key, row)
        for key, own in found.items()
        for row, name in enumerate(_KINDS)
        if name in own and own["gradient"].size >= jax_rows.GPU_LARGE
    }
    rows |= {i: own_rows[id(x)] for i, x in enumerate(tensors) if id(x) in own_rows}
    return _listed(found, rows)


def _listed(
    found: Mapping[int, Mapping[str, Any]], rows: Mapping[int, tuple[int, int]]
) -> TensorsTogether:
    arrays: dict[int, tuple[int, Tensor]] = {}
    settings: list[tuple[Any, Any]] = []
    groups = []
    for own in found.values():
        places = {}
        for name in _KINDS:
            if name in own:
                places[name] = arrays.setdefault(id(own[name]), (len(arrays), own[name]))[0]
        if "second" in own:
            places["settings"] = len(settings)
            settings.append((own["correction"], own["floor"]))
        groups.append(_Places(**places, sign=own.get("sign", 1.0)))
    number = {key: k for k, key in enumerate(found)}
    row_of = {i: number[key] * _ROWS + row for i, (key, row) in rows.items()}
    return TensorsTogether([x for _, x in arrays.values()], settings, tuple(groups), row_of)


def _fit(*tensors: Tensor) -> bool:
    """Whether they are of one size and of float32 or narrower."""
    kinds = [jnp.issubdtype(x.dtype, jnp.floating) and x.dtype != jnp.float64 for x in tensors]
    return all(kinds) and len({x.shape for x in tensors}) == 1 and tensors[0].size > 0


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, float) and isinstance(b, float) and a == b)


@jax_names.in_wide_types
def _settings(pairs: Sequence[tuple[Any, Any]]) -> Tensor:
    """For each pair, the root of the correction, and the floor."""
    numbers = [(jnp.sqrt(jnp.asarray(c, jnp.float32)), floor) for c, floor in pairs]
    return jnp.array([[jnp.asarray(x, jnp.float32) for x in pair] for pair in numbers])


def summarize(
    arrays: Sequence[Tensor], settings: Sequence[tuple[Any, Any]], groups: Sequence[_Places]
) -> Tensor:
    """Packed summaries, `_ROWS` of each group; of tensors that it lacks, those of no elements."""
    if jax.default_backend() != "gpu":
        return by_groups(arrays, settings, groups, None)
    kernel = jax_pallas.chunks_of_groups if jax_pallas.is_available() else None

    def by_rows(arrays: Any, settings: Any) -> Tensor:
        return by_groups(arrays, settings, groups, None)

    def on_gpu(arrays: Any, settings: Any) -> Tensor:
        return by_groups(arrays, settings, groups, kernel)

    # The default device is a GPU, but the arrays may be elsewhere.
    return lax.platform_dependent(arrays, settings, default=by_rows, cuda=on_gpu, rocm=on_gpu)


Kernel = Callable[[Sequence[TensorGroup]], Chunks]


@jax_names.in_wide_types
def by_groups(
    arrays: Sequence[Tensor],
    settings: Sequence[tuple[Any, Any]],
    groups: Sequence[_Places],
    kernel: Kernel | None,
) -> Tensor:
    """The same; a kernel reads the whole chunks of large tensors, if there is one."""
    numbers = _settings(settings) if settings else jnp.zeros((0, 2), jnp.float32)
    flat = [x.reshape(-1) for x in arrays]
    alike: dict[tuple[bool, bool, bool], list[int]] = {}
    for i, places in enumerate(groups):
        is_large = flat[places.gradient].size >= jax_rows.GPU_LARGE
        alike.setdefault((places.first >= 0, places.second >= 0, is_large), []).append(i)
    tables, order = [], []
    for (_, _, is_large), same in alike.items():
        members = [_group(flat, numbers, groups[i]) for i in same]
        if is_large and kernel is not None:
            found = _by_kernel(members, kernel)
        else:
            found = _by_rows(members, with_tensors=is_large)
        signs = np.array([groups[i].sign for i in same])
        tables.append(_table(found, signs))
        order += same
    every = jnp.concatenate(tables)[np.argsort(np.array(order))]
    return every.reshape(-1, len(FIELDS))


def _group(flat: Sequence[Tensor], numbers: Tensor, places: _Places) -> TensorGroup:
    def at(place: int) -> Any:
        return flat[place] if place >= 0 else None

    scale, floor = numbers[places.settings] if places.second >= 0 else (None, None)
    return TensorGroup(flat[places.gradient], at(places.first), at(places.second), scale, floor)


class _Found(NamedTuple):
    """What is known of some groups that are alike, one row each."""

    sizes: Any
    tensors: list[Tensor]
    """Summaries of gradient, first and second moment; of no elements where they are not asked."""
    normalized: Tensor
    below: Tensor
    products: Tensor
    """Sums of gradient times first moment, of their squares, and of how many are not zero."""


def _table(found: _Found, signs: Any) -> Tensor:
    """The rows of each group."""
    product, *squares = (found.products[:, k] for k in range(3))
    is_zero = (found.products[:, 3] == 0) | (found.products[:, 4] == 0)
    cosine = product / jnp.sqrt(jnp.where(is_zero, 1.0, squares[0] * squares[1]))
    cosine = jnp.where(jnp.abs(product) < np.inf, cosine, np.nan)
    cosine = jnp.where(is_zero, 0.0, cosine) * signs
    rows = [*found.tensors, found.normalized, _of_flags(found.sizes, found.below), _of_one(cosine)]
    return jnp.stack(rows, axis=1)


def _of_flags(sizes: Any, ones: Tensor) -> Tensor:
    """Summaries of tensors of zeros and of so many ones."""
    none = jnp.zeros_like(ones)
    low, high = (ones == sizes).astype(jnp.float64), (ones > 0).astype(jnp.float64)
    return jnp.stack([none + sizes, none, none, none, sizes - ones, *[ones] * 3, low, high], axis=1)


def _of_one(x: Tensor) -> Tensor:
    """Summaries of tensors of a single element, which is finite or NaN."""
    finite, one = x == x, jnp.ones_like(x)
    kept = jnp.where(finite, x, 0.0)
    counts = [one, (~finite).astype(x.dtype), 0 * one, 0 * one, (x == 0).astype(x.dtype)]
    bounds = [jnp.where(finite, x, np.inf), jnp.where(finite, x, -np.inf)]
    return jnp.stack([*counts, kept, jnp.abs(kept), kept * kept, *bounds], axis=1)


def _by_kernel(groups: Sequence[TensorGroup], kernel: Kernel) -> _Found:
    sizes = np.array([group.gradient.size for group in groups], np.float64)
    whole = sizes // CHUNK * CHUNK
    chunks = kernel(groups)
    with_rest = [i for i in range(len(groups)) if sizes[i] > whole[i]]
    rest = None
    if with_rest:
        rests = [
            groups[i]._replace(
                **{
                    name: x[int(whole[i]) :]
                    for name in _KINDS
                    if (x := getattr(groups[i], name)) is not None
                }
            )
            for i in with_rest
        ]
        rest = _by_rows(rests, with_tensors=True)

    def add(rows: Tensor, further: Callable[[_Found], Tensor]) -> Tensor:
        if rest is None:
            return jax_rows.joined(rows, _identities(len(groups)), sizes)
        every = placed(further(rest), with_rest, len(groups), IDENTITY)
        return jax_rows.joined(rows, every, sizes)

    def plus(numbers: Tensor, further: Callable[[_Found], Tensor]) -> Tensor:
        if rest is None:
            return numbers
        return numbers.at[np.array(with_rest)].add(further(rest))

    first, second = (getattr(groups[0], name) is not None for name in _KINDS[1:])
    rows = chunks.rows
    at = [0, 1 if first else None, 1 + first if second else None]
    nothing = _identities(len(groups))
    tensors = [
        nothing if k is None else add(rows[:, k], partial(_tensors_of, n)) for n, k in enumerate(at)
    ]
    products = jnp.zeros((len(groups), 5), jnp.float64)
    if first:
        nonzero = [whole - rows[:, k, 3] for k in (0, 1)]
        parts = [chunks.product, rows[:, 0, 6], rows[:, 1, 6]]
        products = plus(jnp.stack([*parts, *nonzero], axis=1), lambda found: found.products)
    normalized = add(rows[:, -1], lambda found: found.normalized) if second else nothing
    below = plus(chunks.below, lambda found: found.below)
    return _Found(sizes, tensors, normalized, below, products)


def _tensors_of(number: int, found: _Found) -> Tensor:
    return found.tensors[number]


def _by_rows(groups: Sequence[TensorGroup], with_tensors: bool) -> _Found:
    """The same from the rows that the tensors are cut into."""
    sizes = [group.gradient.size for group in groups]
    layout = RowLayout.of(sizes, jax_rows.GPU_WIDTH, jax_rows.GPU_LARGE)
    owners, nothing = layout.owners, _identities(len(groups))

    def matrices(name: str) -> list[Matrix] | None:
        tensors = [getattr(group, name) for group in groups]
        if tensors[0] is None:
            return None
        floats = [x.astype(jnp.float32) for x in tensors]
        return heads(layout, floats) + laid_out(layout, floats, common=1)

    gradient, first, second = map(matrices, _KINDS)
    assert gradient is not None
    ends = np.cumsum([len(each.values) for each in gradient])
    normalized, sums = [], []
    for k, matrix in enumerate(gradient):
        g, shape = matrix.values, matrix.values.shape
        within = True if matrix.lengths is None else jax_rows.within(matrix)
        none = jnp.zeros((shape[0],), jnp.float64)
        columns = [none] * 6
        if first is not None:
            a = first[k].values
            wide = g.astype(jnp.float64), a.astype(jnp.float64)
            products = wide[0] * wide[1], wide[0] * wide[0], wide[1] * wide[1]
            columns[:5] = [x.astype(jnp.float64) for x in (*products, nonzero(g), nonzero(a))]
        if second is not None:
            mine = owners[ends[k] - shape[0] : ends[k]]
            scale = jnp.stack([group.scale for group in groups])[mine][:, None]
            floor = jnp.stack([group.floor for group in groups])[mine][:, None]
            root = root_of(second[k].values)
            x = g * scale / jnp.maximum(root, floor)
            normalized.append(Matrix(jnp.where(within, x, np.float32(np.nan)), None))
            columns[5] = ((root < floor) & within).astype(jnp.float64)
        sums.append(table_of(*[x if x.ndim == 1 else x.sum(1) for x in columns], none, none))
    table = merge_rows(layout, sums)
    tensors = [nothing] * 3
    if with_tensors:
        given = [[getattr(group, name) for group in groups] for name in _KINDS]
        tensors = [nothing if x[0] is None else jax_rows.by_rows_on_gpu(x) for x in given]
    summaries = jax_rows.exact(layout, normalized) if normalized else nothing
    return _Found(np.array(sizes, np.float64), tensors, summaries, table[:, 5], table[:, :5])


def _identities(count: int) -> Tensor:
    return jnp.broadcast_to(jnp.asarray(IDENTITY, jnp.float64), (count, len(FIELDS)))
