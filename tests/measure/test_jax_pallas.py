"""The kernel for large arrays on a GPU, here in Pallas's interpreter: it tells the truth."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from gradwatch.compat.jax_names import wide_types
from gradwatch.core.reference import summarize
from gradwatch.measure.kernels import jax_pallas, jax_program, jax_rows
from tests.measure.test_contract import assert_row
from tests.variants import rarely

CHUNK = jax_program.CHUNK
LARGE = jax_rows.GPU_LARGE
rng = np.random.default_rng(2)


def normal(size, dtype=np.float32, offset=0.0):
    return (rng.normal(size=size) + offset).astype(dtype)


def in_interpreter(function, tensors):
    with wide_types():
        return np.asarray(jax.jit(function)([jnp.asarray(x) for x in tensors]))


@pytest.mark.parametrize("strange", [np.nan, *rarely(np.inf, -np.inf, 0.0, 3e38)])
def test_chunks_of_equal_and_of_different_sizes_have_their_own_summaries(strange):
    tensors = [normal(CHUNK * n, offset=n) for n in (2, 1, 2, 3)] + [normal(2 * CHUNK, np.float16)]
    tensors[2][5], tensors[3][CHUNK] = strange, strange
    kernel = partial(jax_pallas.whole_chunks, interpret=True)
    rows = in_interpreter(kernel, tensors)
    for row, tensor in zip(rows, tensors, strict=True):
        expected = summarize(tensor)[1:]
        np.testing.assert_array_equal(row[:4], expected[:4])
        np.testing.assert_allclose(row[4:7], expected[4:7], rtol=1e-6, atol=1e-6 * expected[5])
        np.testing.assert_array_equal(row[7:], expected[7:])


@pytest.mark.slow
def test_more_tensors_of_one_size_than_a_kernel_takes():
    tensors = [normal(CHUNK, offset=i) for i in range(jax_pallas.TOGETHER + 2)]
    rows = in_interpreter(partial(jax_pallas.whole_chunks, interpret=True), tensors)
    np.testing.assert_allclose(
        rows[:, 4], [x.astype(float).sum() for x in tensors], rtol=1e-6, atol=1e-3
    )


def test_large_tensors_by_the_kernel_and_the_rest_by_rows_make_whole_summaries():
    tensors = [
        normal(LARGE, offset=3),
        normal(7),
        normal(LARGE + 1001).astype(ml_dtypes.bfloat16),
        normal((LARGE // 8, 8), offset=-1),
        normal(5000),
    ]
    tensors[0][-1], tensors[2][-1] = np.nan, np.inf

    def measure(xs):
        kernel = partial(jax_pallas.whole_chunks, interpret=True)
        return jax_rows.large_by_kernel(xs, kernel)

    for row, tensor in zip(in_interpreter(measure, tensors), tensors, strict=True):
        assert_row(row, tensor)


def test_without_a_gpu_the_kernel_is_not_available():
    if jax.default_backend() == "cpu":
        assert not jax_pallas.is_available()
