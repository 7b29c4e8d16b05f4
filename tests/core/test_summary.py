"""The algebra against NumPy, and its laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gradwatch.core import COUNTS, STATISTICS, Summary, merge, statistic
from gradwatch.core.reference import summarize
from tests.statistics_truth import TRUTH

floats = hnp.arrays(
    np.float32,
    st.integers(0, 30),
    elements=st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=False),
)


def assert_same(a: Summary, b: Summary) -> None:
    np.testing.assert_allclose(a.pack(), b.pack(), rtol=1e-12, atol=0)


def by_hand(x: np.ndarray) -> dict[str, float]:
    """Every statistic, independently in float64."""
    wide = np.asarray(x).astype(np.float64).ravel()
    return {name: truth(wide) for name, truth in TRUTH.items()}


@given(floats)
def test_every_statistic_equals_numpys(x):
    truth = by_hand(x)
    assert set(truth) == set(STATISTICS)
    summary = Summary.of(x)
    for name, expected in truth.items():
        scale = truth["rms"] if name == "std" else truth["l1"]
        np.testing.assert_allclose(
            statistic(name, summary), expected, rtol=1e-9, atol=1e-8 * np.nan_to_num(scale)
        )


@given(floats, floats)
def test_merging_parts_equals_measuring_the_whole(a, b):
    whole = Summary.of(np.concatenate([a, b]))
    merged = Summary.of(a).merge(Summary.of(b))
    scale = whole.pack().copy()
    scale[5] = whole.sum_abs  # The sum may cancel; its parts do not.
    np.testing.assert_allclose(merged.pack(), whole.pack(), rtol=1e-12, atol=1e-12 * abs(scale[5]))


@given(floats, floats, floats)
def test_merge_is_associative_and_commutative(a, b, c):
    a, b, c = map(Summary.of, (a, b, c))
    left, right = a.merge(b).merge(c).pack(), a.merge(b.merge(c)).pack()
    size = float(a.sum_abs + b.sum_abs + c.sum_abs)
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12 * size)
    np.testing.assert_array_equal(a.merge(b).pack(), b.merge(a).pack())


@given(floats)
def test_the_empty_summary_is_the_identity(x):
    s = Summary.of(x)
    np.testing.assert_array_equal(s.merge(Summary.empty()).pack(), s.pack())
    np.testing.assert_array_equal(Summary.of(np.zeros(0)).pack(), Summary.empty().pack())


@given(st.lists(floats, max_size=5))
def test_a_table_of_summaries_goes_through_the_same_functions(arrays):
    singles = [Summary.of(x) for x in arrays] or [Summary.empty()]
    table = Summary.unpack(np.stack([s.pack() for s in singles]))
    for name in STATISTICS:
        np.testing.assert_array_equal(
            statistic(name, table), [statistic(name, s) for s in singles], err_msg=name
        )
    assert_same(table.merge_all(), merge(singles))


@given(st.lists(floats, min_size=1, max_size=6), st.data())
def test_merging_by_groups_equals_merging_each_group(arrays, data):
    groups = data.draw(st.lists(st.integers(0, 3), min_size=len(arrays), max_size=len(arrays)))
    singles = [Summary.of(x) for x in arrays]
    merged = Summary.unpack(np.stack([s.pack() for s in singles])).merge_by(groups, 4)
    for group in range(4):
        members = [s for s, g in zip(singles, groups, strict=True) if g == group]
        assert_same(merged[group], merge(members))


@given(floats)
@settings(max_examples=50)
def test_packing_and_unpacking_change_nothing(x):
    s = Summary.of(x)
    np.testing.assert_array_equal(Summary.unpack(s.pack()).pack(), s.pack())


def test_a_constant_tensor_has_a_standard_deviation_of_exactly_zero():
    assert statistic("std", Summary.of(np.full(1001, 0.1, np.float32))) == 0.0


def test_statistics_of_nothing_finite_are_nan_and_norms_zero():
    s = Summary.of(np.array([np.nan, np.inf, -np.inf]))
    for name in ("linf", "rms", "mean", "std", "min", "max"):
        assert np.isnan(statistic(name, s)), name
    assert statistic("l1", s) == statistic("l2", s) == statistic("sum", s) == 0.0
    assert [float(statistic(n, s)) for n in ("nan", "posinf", "neginf")] == [1, 1, 1]


def test_counts_stay_exact_beyond_2_to_the_24():
    n = 2**24 + 3
    s = Summary.of(np.ones(n, np.float32))
    assert statistic("count", s) == n
    assert statistic("sum", s) == n


def test_an_unknown_statistic_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"no statistic 'median'.*l2"):
        statistic("median", Summary.empty())


def test_a_packed_row_of_the_wrong_width_is_refused():
    with pytest.raises(ValueError, match=r"10 columns.*\(3, 4\)"):
        Summary.unpack(np.zeros((3, 4)))


def test_the_largest_float64_elements_make_the_l2_norm_infinite():
    s = Summary.of(np.array([1e200, -1e200]))
    assert statistic("l2", s) == np.inf
    assert statistic("linf", s) == 1e200
    assert statistic("count", s) == 2


def test_complex_tensors_are_refused():
    with pytest.raises(TypeError, match="complex128"):
        Summary.of(np.array([1j]))


def test_the_whole_number_statistics_are_statistics():
    assert set(STATISTICS) >= COUNTS


def test_the_summaries_of_numbers_equal_those_of_tensors_of_one_element():
    numbers = [0.0, -0.0, 2.5, -1e-300, 1e200, np.nan, np.inf, -np.inf]
    with np.errstate(over="ignore"):
        truth = np.stack([summarize(np.array([number])) for number in numbers])
    np.testing.assert_array_equal(Summary.of_numbers(numbers).pack(), truth)
