"""Many tensors measured at once: each row is the truth about its own tensor."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from gradwatch.compat.jax_names import wide_types
from gradwatch.core import IDENTITY
from gradwatch.core.reference import count_cells, summarize
from gradwatch.measure.kernels import jax_cells, jax_rows
from gradwatch.measure.kernels.row_layout import HEIGHT, RowLayout
from tests.measure import modes
from tests.measure.test_contract import assert_row

MODES = [mode for mode in modes.MODES if not mode.startswith("torch")]
rng = np.random.default_rng(1)


def normal(*shape, offset=0.0):
    return (rng.normal(size=shape) + offset).astype(np.float32)


# Large and small ones, equal and odd sizes, whole rows and tails, narrow and wide types.
MIXED = [
    normal(3, 5, offset=9),
    normal(70, 1024, offset=-2),
    normal(64, 64),
    normal(70, 1024),
    None,
    normal(64, 64, offset=5),
    normal(70_001, offset=30),
    np.zeros((0,), np.float32),
    normal(513).astype(ml_dtypes.bfloat16),
    np.arange(5, dtype=np.int32),
    np.zeros(600, np.float32),
    np.float32(-4.0),
    normal(70, 1024).astype(np.float16),
]
ODD = {
    "a NaN in a large tensor": (1, np.nan),
    "an infinity in a tail": (0, -np.inf),
    "a huge number in a small tensor": (2, 3e38),
    "a denormal": (5, 1e-40),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_of_many_tensors_has_its_own_summary(mode):
    rows = modes.run(mode, "summarize", *MIXED)
    for row, tensor in zip(rows, MIXED, strict=True):
        if tensor is None:
            np.testing.assert_array_equal(row, IDENTITY)
        else:
            assert_row(row, tensor)


@pytest.mark.parametrize("mode", MODES)
def test_each_of_many_tensors_has_its_own_histogram(mode):
    cells = modes.run(mode, "count_cells", *MIXED)
    for row, tensor in zip(cells, MIXED, strict=True):
        expected = np.zeros_like(row) if tensor is None else count_cells(tensor)
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ODD)
def test_one_odd_number_leaves_all_summaries_right(mode, name):
    which, number = ODD[name]
    tensors = [*MIXED[:4], MIXED[5]]
    which = min(which, 4)
    tensors[which] = tensors[which].copy()
    tensors[which].flat[-1] = number
    rows = modes.run(mode, "summarize", *tensors)
    for row, tensor in zip(rows, tensors, strict=True):
        assert_row(row, tensor)


@pytest.mark.parametrize("mode", MODES)
def test_minute_numbers_beside_ordinary_ones_keep_their_norm(mode):
    minute = normal(64, 64) * np.float32(1e-25)
    rows = modes.run(mode, "summarize", normal(64, 64), minute)
    assert_row(rows[1], minute)


@pytest.mark.parametrize("on_device", [jax_rows.on_cpu, jax_rows.on_gpu])
def test_the_ways_of_jax_for_each_device_agree_with_the_reference(on_device):
    tensors = [x for x in MIXED if x is not None and x.size and x.dtype != np.int32]
    tensors[1] = tensors[1].copy()
    tensors[1][0, :3] = [np.nan, -np.inf, 0]
    with wide_types():
        rows = jax.jit(on_device)([jnp.asarray(x) for x in tensors])
    for row, tensor in zip(np.asarray(rows), tensors, strict=True):
        assert_row(row, tensor)


def test_counters_of_their_own_count_as_one_does():
    cells = rng.integers(0, 40, 100_003).astype(np.int32)
    with wide_types():
        counts = jax_cells.scatter_into_copies(jnp.asarray(cells), 40)
    np.testing.assert_array_equal(counts, np.bincount(cells, minlength=40))


def test_every_element_is_in_one_row_of_a_large_tensor_or_of_a_piece():
    sizes = [1, 5, 8, 8, 12, 101, 64, 50]
    rows = RowLayout.of(sizes, width=4, large=50)
    assert rows.alone == (7, 6, 5)
    seen = [np.zeros(size, int) for size in sizes]
    for i in rows.alone:
        seen[i][: rows.head(i)] += 1
    for tensor, start, length in rows.pieces:
        seen[tensor][start : start + length] += 1
    assert all((each == 1).all() for each in seen)
    heads = sum(rows.head(i) for i in rows.alone)
    lengths = np.concatenate([rows.lengths(chunk) for chunk in rows.chunks])
    assert lengths.sum() + heads == sum(sizes)
    assert sum(block.many * block.each for block in rows.blocks) == len(lengths) + heads // 4
    assert sorted(rows.places.flat) == sorted([*range(len(sizes) + 2), *[len(sizes) + 2] * 6])
    assert [i for i, (_, rest) in enumerate(rows.places) if rest < len(sizes) + 2] == [5, 7]


def test_chunks_are_of_one_type_and_of_few_pieces():
    kinds = ["a", "b"] * 50
    rows = RowLayout.of([1 + i % 9 for i in range(100)], width=4, large=50, kinds=kinds, most=20)
    assert sorted(piece.tensor for piece in rows.pieces) == list(range(100))
    assert [len(chunk) for chunk in rows.chunks] == [20, 20, 10] * 2
    for chunk in rows.chunks:
        assert len({kinds[piece.tensor] for piece in chunk}) == 1
        assert len(rows.lengths(chunk)) % HEIGHT == 0


def test_many_numbers_of_rows_share_few_blocks_that_name_each_row_once():
    sizes = list(range(1, 400, 3))
    rows = RowLayout.of(sizes, width=4, large=1000)
    every = sum(rows.height(piece) for piece in rows.pieces)
    assert len(rows.blocks) == 8
    named = []
    for block in rows.blocks:
        if block.which is None:
            named += range(block.start, block.start + block.many * block.each)
        else:
            assert block.which.shape == (block.many, block.each)
            named += block.which[block.which < every].tolist()
    assert named == list(range(every))


# More than are laid out together, of more numbers of rows than have a block each; of some sizes
# there are many, of others one.
MANY = [normal(3 + 229 * (i % 40), offset=i % 5) for i in range(1060)]
MANY += [normal(20 + 77 * i) for i in range(20)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [pytest.param(1.0, marks=pytest.mark.slow), np.nan])
def test_each_of_a_thousand_tensors_has_its_own_summary(mode, number):
    tensors = [MANY[0].copy(), *MANY[1:]]
    tensors[0][0] = number
    rows = modes.run(mode, "summarize", *tensors)
    for row, tensor in zip(rows, tensors, strict=True):
        assert_row(row, tensor)


def test_a_sum_of_many_equal_numbers_is_right():
    x = np.full(3 * 10**6, 0.1, np.float32)
    for mode in MODES:
        total = modes.run(mode, "summarize", x)[0][5]
        assert total == pytest.approx(summarize(x)[5], rel=1e-6), mode
