"""Histograms over fixed cells: conserved counts, merging, quantiles within their bound."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gradwatch.core import BINS_A_SIDE, CELLS, EDGES, NONFINITE, ZERO, Histogram
from gradwatch.core.reference import count_cells

anything = hnp.arrays(
    np.float64, st.integers(0, 40), elements=st.floats(allow_nan=True, allow_infinity=True)
)
ordinary = hnp.arrays(
    np.float64,
    st.integers(1, 60),
    elements=st.one_of(st.floats(1e-18, 1e18), st.floats(-1e18, -1e-18), st.just(0.0)),
)


@given(anything)
def test_counts_add_up_to_the_size(x):
    assert count_cells(x).sum() == x.size


@given(anything)
def test_every_element_lies_within_its_cells_edges(x):
    for value in x:
        (cell,) = np.flatnonzero(count_cells(value))
        if np.isfinite(value):
            low, high = EDGES[cell], EDGES[cell + 1]
            assert low <= value <= high
            # Bins are closed towards zero: [low, high) for positive ones, (low, high] else.
            assert value == 0 or (value < high if value > 0 else value > low)
        else:
            assert cell == NONFINITE


def test_the_cells_have_the_layout_that_is_documented():
    assert CELLS == 2 * BINS_A_SIDE + 6
    where = {-3e20: 0, -1e-30: ZERO - 1, 0.0: ZERO, 1e-30: ZERO + 1, 3e20: 2 * BINS_A_SIDE + 4}
    for value, cell in where.items():
        assert np.flatnonzero(count_cells(value)).tolist() == [cell], value
    assert np.flatnonzero(count_cells(1.0)).tolist() == [ZERO + 2 + 64 * 4]


@given(anything, anything)
def test_merging_equals_the_histogram_of_both(a, b):
    merged = Histogram.of(a).merge(Histogram.of(b))
    whole = Histogram.of(np.concatenate([a, b]))
    np.testing.assert_array_equal(merged.cells, whole.cells)
    assert merged.summary.min == whole.summary.min
    assert merged.summary.max == whole.summary.max


@given(anything)
def test_the_empty_histogram_is_the_identity(x):
    h = Histogram.of(x)
    np.testing.assert_array_equal(h.merge(Histogram.empty()).cells, h.cells)


@given(ordinary, st.floats(0, 1))
def test_quantiles_keep_their_error_bound(x, q):
    """Between the elements around the rank, give or take a bin's width of 25 %."""
    got = Histogram.of(x).quantile(q)
    low, high = np.quantile(x, q, method="lower"), np.quantile(x, q, method="higher")
    assert low - 0.25 * abs(low) <= got <= high + 0.25 * abs(high)


@given(ordinary)
def test_the_extreme_quantiles_are_within_the_exact_bounds(x):
    h = Histogram.of(x)
    assert x.min() <= h.quantile(0) <= h.quantile(0.5) <= h.quantile(1) <= x.max()


def test_a_quantile_of_nothing_is_nan_and_an_impossible_one_is_refused():
    assert np.isnan(Histogram.of(np.array([np.nan, np.inf])).quantile(0.5))
    with pytest.raises(ValueError, match=r"q=1\.5"):
        Histogram.empty().quantile(1.5)


@given(anything)
def test_buckets_hold_all_finite_elements_in_ascending_order(x):
    lower, upper, counts = Histogram.of(x).buckets()
    assert counts.sum() == np.isfinite(x).sum()
    assert (lower <= upper).all()
    assert (upper[:-1] <= lower[1:]).all()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn])
def test_narrow_floats_are_binned_without_rounding(dtype):
    x = np.random.default_rng(0).normal(size=500).astype(dtype)
    np.testing.assert_array_equal(count_cells(x), count_cells(x.astype(np.float64)))
