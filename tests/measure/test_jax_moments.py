"""What is computed of gradients and moments that are read together: it equals float64 NumPy.

The kernel of a GPU runs in Pallas's interpreter here.
"""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from gradwatch.compat import jax_names
from gradwatch.core import IDENTITY, Summary
from gradwatch.core.reference import count_cells, summarize
from gradwatch.core.statistics import std
from gradwatch.measure import jax as measure_jax
from gradwatch.measure import numpy as truth
from gradwatch.measure.kernels import jax_computed, jax_moments, jax_pallas, jax_program, jax_rows
from tests.variants import rarely

CORRECTION, FLOOR = 0.3, 1e-4
LARGE = 4 * jax_program.CHUNK
KERNEL = partial(jax_pallas.chunks_of_groups, interpret=True)
rng = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _smaller(monkeypatch):
    """Tensors count as large early, since the interpreter is slow."""
    monkeypatch.setattr(jax_rows, "GPU_LARGE", LARGE)


def moments_of(size, dtype=np.float32):
    """A gradient, a momentum that is like it, and a second moment that epsilon rules in part."""
    gradient = rng.normal(size=size).astype(dtype)
    first = (0.3 * gradient.astype(np.float32) + rng.normal(size=size)).astype(np.float32)
    second = (rng.normal(size=size) ** 2 * 1e-3).astype(np.float32)
    second[: size // 3] = 1e-12
    return gradient, first, second


def asked(gradient, first, second):
    """All that is measured of them, as `HeldMoments` asks for it."""
    return [
        gradient,
        first,
        second,
        jax_computed.Normalized(gradient, second, CORRECTION, FLOOR),
        jax_computed.Below(second, FLOOR),
        -jax_computed.Cosine(gradient, first),
    ]


def expected(gradient, first, second):
    gradient = gradient.astype(np.float64)
    return [
        gradient,
        first,
        second,
        truth.normalized(gradient, second, CORRECTION, FLOOR),
        truth.below(second, FLOOR),
        -truth.cosine(gradient, first),
    ]


def rows_of(sets, kernel):
    """By position of what is asked, its row; and how many rows there are."""
    tensors = [x for each in sets for x in asked(*map(jnp.asarray, each))]
    together = jax_moments.read_together(tensors)
    rows = rows_together(together, kernel)
    return {i: rows[row] for i, row in together.row_of.items()}


def rows_together(together, kernel):
    def measure(arrays):
        return jax_moments.by_groups(arrays, together.settings, together.groups, kernel)

    with jax_names.wide_types():  # The interpreter is traced later than what calls it.
        return np.asarray(jax.jit(measure)(together.arrays))


def assert_row(got, tensor, what):
    """Counts are exact; what is computed is so in float32, so that bounds are as the sums."""
    true = np.asarray(summarize(np.asarray(tensor)))
    np.testing.assert_array_equal(got[:5], true[:5], err_msg=str(what))
    near = 1e-6 * true[[6, 6, 7]] + 1e-37
    assert (np.abs(got[5:8] - true[5:8]) <= near).all(), (what, got, true)
    np.testing.assert_allclose(got[8:], true[8:], 1e-6, 1e-37, err_msg=str(what))


def assert_all(sets, kernel):
    every = [x for each in sets for x in expected(*each)]
    rows = rows_of(sets, kernel)
    sizes = [x.size for each in sets for x in each[:1] * 6]
    # Small tensors themselves are measured with all other small ones.
    wanted = {i for i, size in enumerate(sizes) if size >= LARGE or i % 6 > 2}
    assert rows.keys() == wanted
    for i, row in rows.items():
        assert_row(row, every[i], (i, sizes[i]))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, *rarely(np.float32, np.float16)])
def test_large_tensors_by_the_kernel_and_small_ones_by_rows(dtype):
    sizes = [LARGE, LARGE + 17, 5 * jax_program.CHUNK, 9, 3000]
    assert_all([moments_of(size, dtype) for size in sizes], KERNEL)


@pytest.mark.slow
def test_more_groups_of_one_size_than_a_kernel_takes():
    many = jax_pallas.TOGETHER_OF_SEVERAL + 1
    assert_all([moments_of(LARGE) for _ in range(many)], KERNEL)


def test_without_the_kernel_all_are_read_by_rows():
    assert_all([moments_of(size) for size in (LARGE, LARGE + 17, 1, 1024, 2000)], None)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("place", [0, *rarely(1, 2)])
def test_one_strange_element(place):
    sets = []
    for strange in (np.nan, np.inf, -np.inf, 1e30, 1e-35):
        sets += [moments_of(LARGE + 5), moments_of(40)]
        sets[-1][place][20] = sets[-2][place][20] = strange
    assert_all(sets, KERNEL)


def test_nearly_equal_and_tiny_elements_are_added_up_with_care():
    sets = [moments_of(LARGE), moments_of(LARGE)]
    sets[0][0][:] = 1000 + sets[0][0]
    sets[1][0][:] *= 1e-25
    sets[1][2][:] *= 1e-30
    rows = rows_of(sets, KERNEL)
    spread = std(Summary.unpack(rows[0]))
    assert float(spread) == pytest.approx(sets[0][0].astype(np.float64).std(), rel=1e-5)
    assert_all(sets, KERNEL)


def test_a_gradient_or_momentum_of_zeros_has_the_cosine_0():
    sets = [moments_of(LARGE), moments_of(LARGE), moments_of(30)]
    sets[0][0][:] = 0
    sets[1][1][:] = 0
    sets[2][1][:] = 0
    assert_all(sets, KERNEL)


def test_an_optimizer_without_a_first_or_second_moment():
    gradient, first, second = map(jnp.asarray, moments_of(LARGE))
    for tensors in (
        [gradient, second, jax_computed.Normalized(gradient, second, CORRECTION, FLOOR)],
        [gradient, first, jax_computed.Cosine(gradient, first)],
    ):
        together = jax_moments.read_together(tensors)
        rows = rows_together(together, KERNEL)
        for i, x in enumerate(tensors):
            assert_row(rows[together.row_of[i]], jax_computed.value_of(x), i)
        assert (rows == IDENTITY).all(1).any()


def test_tensors_that_do_not_fit_together_are_computed_by_themselves():
    gradient, first, second = map(jnp.asarray, moments_of(40))
    with jax_names.wide_types():
        wide = jnp.asarray(np.ones(40))
    computed = [
        jax_computed.Normalized(gradient, second[:-1], CORRECTION, FLOOR),
        jax_computed.Cosine(gradient, wide),
        jax_computed.Below(first, FLOOR),
    ]
    assert not jax_moments.read_together(computed).row_of
    again = jax_computed.Normalized(gradient, first, CORRECTION, FLOOR)
    normalized = jax_computed.Normalized(gradient, second, CORRECTION, FLOOR)
    below = [jax_computed.Below(second, floor) for floor in (FLOOR, 2 * FLOOR)]
    row_of = jax_moments.read_together([normalized, again, *below]).row_of
    assert set(row_of) == {0, 2}


def test_a_gradient_that_was_widened_after_a_product_is_read_as_it_is_stored():
    seen = []

    def step(weight, x):
        def loss(weight):
            return jnp.sum((x @ weight.astype(jnp.bfloat16)).astype(jnp.float32))

        gradient = jax.grad(loss)(weight)
        narrow = jax_names.before_widening(gradient)
        scaled = jax_names.before_widening((x * 2).astype(jnp.float32))
        seen.append((narrow.dtype, scaled.dtype, jax_names.before_widening(weight) is weight))
        return gradient, narrow

    gradient, narrow = jax.jit(step)(jnp.ones((4, 4)), jnp.full((4, 4), 0.1, jnp.bfloat16))
    # JAX before 0.6 does not say of what operation a traced array is the result.
    tells = jax.__version_info__ >= (0, 6)
    assert seen == [(jnp.bfloat16 if tells else jnp.float32, jnp.float32, True)]
    np.testing.assert_array_equal(gradient, narrow.astype(jnp.float32))


@pytest.mark.parametrize("way", ["jit, told by a flag", *rarely("eager", "jit")])
def test_what_is_measured_on_a_gpu_in_the_order_it_is_given(monkeypatch, way):
    monkeypatch.setattr(measure_jax, "_is_on_one_gpu", lambda: True)
    sets = [moments_of(LARGE + 3), moments_of(30)]
    sets[1][0][4] = np.nan
    counted = [0, 2, 8, 9]

    def measure(due, arrays):
        tensors = []
        for gradient, first, second in arrays:
            # As a gradient and as the one that was applied.
            tensors += [gradient, first, second, None, gradient]
            tensors.append(measure_jax.normalized(gradient, second, CORRECTION, FLOOR))
            tensors.append(measure_jax.below(second, FLOOR))
            tensors.append(-measure_jax.cosine(gradient, first))
        return measure_jax.measure(tensors, counted, due)

    arrays = [tuple(map(jnp.asarray, each)) for each in sets]
    if way == "jit, told by a flag":
        rows, cells = jax.jit(measure)(np.bool_(True), arrays)
        assert not np.asarray(jax.jit(measure)(np.bool_(False), arrays)[1]).any()
    else:
        make = partial(measure, True)
        rows, cells = (jax.jit(make) if way == "jit" else make)(arrays)
        assert not np.asarray(measure(False, arrays)[1]).any()
    every = []
    for each in sets:
        gradient, first, second, *computed = expected(*each)
        every += [gradient, first, second, np.zeros(0), gradient, *computed]
    for i, (row, tensor) in enumerate(zip(np.asarray(rows), every, strict=True)):
        assert_row(row, tensor, i)
    for own, i in zip(np.asarray(cells), counted, strict=True):
        np.testing.assert_array_equal(own, count_cells(np.asarray(every[i], np.float32)))
