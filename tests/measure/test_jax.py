"""What is particular to measuring in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradwatch.compat.jax_names import wide_types
from gradwatch.core.reference import count_cells as true_cells
from gradwatch.core.reference import summarize as true_summary
from gradwatch.measure.jax import measure
from gradwatch.measure.kernels import jax_cells, jax_rows, row_layout
from tests.variants import rarely


def summarize(tensors):
    return measure(tensors)[0]


def count_cells(tensors, due=True):
    return measure(tensors, range(len(tensors)), due)[1]


def test_float64_arrays_are_measured_when_x64_is_enabled():
    with wide_types():
        x = jnp.asarray(np.random.default_rng(0).normal(size=50) * 1e100)
        assert x.dtype == jnp.float64
        np.testing.assert_allclose(summarize([x])[0], true_summary(x), rtol=1e-12)
        np.testing.assert_array_equal(count_cells([x])[0], true_cells(x))


def test_arrays_of_more_rows_than_are_counted_at_once_are_counted_whole_and_in_little_memory():
    random = np.random.default_rng(0)
    sizes = [(2000, 512), (257, 513), (100,), (1000, 70)]
    arrays = [random.normal(size=s).astype(np.float32) * 1e-3 for s in sizes]
    count = jax.jit(jax_cells.count_cells).lower(arrays).compile()
    for found, x in zip(np.asarray(count(arrays)), arrays, strict=True):
        np.testing.assert_array_equal(found, true_cells(x))
    if jax.default_backend() != "gpu":
        # A compiled step allocates it at all steps.
        temporary = count.memory_analysis().temp_size_in_bytes
        assert temporary < 2 * sum(x.nbytes for x in arrays)


def test_measuring_leaves_the_users_precision_as_it_is():
    def step(x):
        rows = summarize([x])
        return x * 2, rows

    y, rows = jax.jit(step)(jnp.ones(3))
    assert y.dtype == jnp.float32
    assert rows.dtype == jnp.float64
    assert jnp.ones(1).dtype == jnp.float32


def test_histograms_that_are_not_due_are_not_counted():
    count = jax.jit(lambda x, due: count_cells([x], due))
    x = jnp.ones(7)
    assert np.asarray(count(x, np.bool_(True))).sum() == 7
    assert np.asarray(count(x, np.bool_(False))).sum() == 0


def test_measuring_uses_no_host_callback():
    text = jax.jit(lambda x: (summarize([x]), count_cells([x]))).lower(jnp.ones(9)).as_text()
    assert "callback" not in text


@pytest.mark.parametrize("blocks", [1, 2, 7])
@pytest.mark.parametrize("more", [0, 511, *rarely(1, 512, 5000)])
@pytest.mark.parametrize("odd", [None, np.inf])
def test_a_tensor_of_many_blocks_is_measured_whole(blocks, more, odd, monkeypatch):
    monkeypatch.setattr(jax_rows, "CPU_LARGE", 1 << 12)
    monkeypatch.setattr(jax_rows, "CPU_BLOCK", 1 << 13)
    x = np.random.default_rng(0).normal(size=blocks * (1 << 13) + more).astype(np.float32)
    x[::7] = 0
    if odd is not None:
        x[-1] = odd
    beside = np.arange(10, dtype=np.float32)
    rows = jax.jit(lambda tensors: summarize(tensors))([x, beside])
    np.testing.assert_allclose(rows[0], true_summary(x), rtol=1e-6, atol=1e-6 * np.sqrt(x.size))
    np.testing.assert_allclose(rows[1], true_summary(beside), rtol=1e-6)


def test_cells_of_arrays_above_and_below_the_size_of_a_chunk(monkeypatch):
    monkeypatch.setattr(jax_cells, "MAX_ELEMENTS", 1024)
    monkeypatch.setattr(row_layout, "MAX_ELEMENTS", 1024)
    rng = np.random.default_rng(0)
    sizes = [1, 511, 512, 513, 700, 700, 700, 700, 1023, 1024, 1025, 2048, 5000]
    arrays = [rng.normal(size=size).astype(kind) for size in sizes for kind in ("f4", "f2", "f8")]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45], "float32")
    arrays += [np.zeros(700, "float32"), special, np.zeros(0, "float32")]
    with wide_types():
        given = [jnp.asarray(x) for x in arrays]
        for due in (True, jnp.asarray(True)):
            cells = np.asarray(jax.jit(lambda xs, due=due: jax_cells.count_cells(xs, due))(given))
            np.testing.assert_array_equal(cells, np.stack([true_cells(x) for x in arrays]))


@pytest.mark.parametrize("is_traced", [True, False])
def test_chosen_arrays_are_counted_from_the_rows_that_all_are_summarised_in(is_traced):
    random = np.random.default_rng(0)
    # More small ones than are copied at once; and some that are large, empty, or of other types.
    kinds = [((48, 48), "f4"), ((48,), "f4"), ((3,), "f2")] * 30
    kinds += [((300, 300), "f4"), ((70, 1024), "f2"), ((5,), "i4"), ((), "f4"), ((0,), "f4")]
    arrays = [random.normal(size=size).astype(kind) for size, kind in kinds]
    arrays[3][0], arrays[6][1, 1] = 0, np.nan
    chosen = [94, 93, 92, 91, 90, 4, 0, 3, 6, 89]

    def step(arrays, due):
        return measure([*arrays, None], [*chosen, len(arrays)], due if is_traced else True)

    rows, cells = jax.jit(step)(arrays, np.bool_(True))
    for row, x in zip(rows, arrays, strict=False):
        np.testing.assert_allclose(row, true_summary(x), rtol=1e-5, atol=1e-6 * np.sqrt(x.size))
    for counted, i in zip(cells, chosen, strict=False):
        np.testing.assert_array_equal(counted, true_cells(arrays[i]))
    assert not np.asarray(cells)[-1].any()
    if is_traced:
        assert not np.asarray(jax.jit(step)(arrays, np.bool_(False))[1]).any()
