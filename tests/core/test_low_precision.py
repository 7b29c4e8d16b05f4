"""What a cast would lose, against the casts of ml_dtypes."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gradwatch.core import EDGES, NONFINITE, NUMBER_FORMATS, ZERO, Histogram
from gradwatch.core.reference import count_cells

OUTCOMES = ("zero", "subnormal", "overflow")
DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in NUMBER_FORMATS}
# ml_dtypes casts float64 through float32, which rounds twice; NumPy's float16 rounds once.
SOURCES = {name: np.float64 if name == "float16" else np.float32 for name in NUMBER_FORMATS}


def outcomes_of_casts(x, name):
    """Whether the cast of each element is 0, is subnormal, has overflowed."""
    with np.errstate(over="ignore"):
        cast = x.astype(SOURCES[name]).astype(DTYPES[name]).astype(np.float64)
    normal = float(ml_dtypes.finfo(DTYPES[name]).smallest_normal)
    is_zero = cast == 0
    return is_zero, ~is_zero & (np.abs(cast) < normal), ~np.isfinite(cast)


def with_neighbours(x, source):
    """The values, and those before and after in this type."""
    x = x.astype(source)
    below, above = np.nextafter(x, source(-np.inf)), np.nextafter(x, source(np.inf))
    return np.unique(np.concatenate([below, x, above]).astype(np.float64))


def midpoints(name):
    """Where rounding can change its outcome, and all else between numbers of the format."""
    info = ml_dtypes.finfo(DTYPES[name])
    smallest, normal = float(info.smallest_subnormal), float(info.smallest_normal)
    largest = float(info.max)
    # The spacing of the largest numbers, from the format's numbers themselves.
    below = float(np.nextafter(info.max, DTYPES[name].type(0)))
    step = largest - below
    ends = [smallest / 2, smallest, normal - smallest / 2, normal - smallest, normal, largest]
    return np.array([*ends, below + step / 2, largest + step / 4, largest + step / 2])


def samples(name):
    """Every edge of a bin, every threshold, their neighbours and some between, of both signs."""
    source = SOURCES[name]
    edges = EDGES[(EDGES > 0) & np.isfinite(EDGES)]
    outer = np.array([2.0**-148, 2.0**-100, 2.0**100, float(np.finfo(np.float32).max) * 0.999])
    points = np.concatenate([edges, edges[:-1] * 1.05, midpoints(name), outer])
    near = with_neighbours(points, source)
    return np.concatenate([-near, near])


@pytest.mark.parametrize("name", NUMBER_FORMATS)
def test_one_element_alone_has_the_outcome_of_its_cast(name):
    """Its cell has one value then, so that nothing is uncertain, at any edge or threshold."""
    x = samples(name)
    truth = np.stack(outcomes_of_casts(x, name), axis=1)
    assert truth.any(axis=0).all()
    for value, expected in zip(x, truth, strict=True):
        lost = Histogram.of(np.array([value])).lost(name)
        found = [getattr(lost, outcome) for outcome in OUTCOMES]
        assert found == [(float(is_so), float(is_so)) for is_so in expected], value
        assert lost.elements == 1


@pytest.mark.parametrize("name", NUMBER_FORMATS)
def test_neighbours_in_float64_round_once(name):
    """The midpoints are exact in float32, so beyond one in either type the outcome is the same."""
    for middle in midpoints(name):
        for end in (0.0, np.inf):
            near = np.nextafter(SOURCES[name](middle), SOURCES[name](end))
            expected = [(float(so[0]),) * 2 for so in outcomes_of_casts(np.array([near]), name)]
            lost = Histogram.of(np.nextafter(middle, end)).lost(name)
            assert [getattr(lost, outcome) for outcome in OUTCOMES] == expected, (middle, end)


@pytest.mark.parametrize("name", NUMBER_FORMATS)
def test_counts_are_exact_in_cells_of_one_outcome_and_bounds_in_others(name):
    """Of every cell: bounds if its elements have several outcomes, else the exact number."""
    x = samples(name)
    outcomes = np.stack(outcomes_of_casts(x, name))
    cells = np.array([int(np.flatnonzero(count_cells(value))[0]) for value in x])
    top = 2.0**127
    for cell in np.unique(cells):
        own = cells == cell
        # The extremes of the tensor say nothing about the cell.
        elements = np.concatenate([x[own], [-top, top]])
        others = outcomes_of_casts(np.array([-top, top]), name)
        lost = Histogram.of(elements).lost(name)
        for i, outcome in enumerate(OUTCOMES):
            many, bounds = outcomes[i, own].sum(), getattr(lost, outcome)
            true = many + others[i].sum()
            if cell in (0, ZERO - 1, ZERO + 1, NONFINITE - 1):  # without an inner or outer edge
                assert bounds.low <= true <= bounds.high
            elif 0 < many < own.sum():
                assert bounds == (others[i].sum(), own.sum() + others[i].sum()), (cell, outcome)
            else:
                assert bounds == (true, true), (cell, outcome)


@pytest.mark.parametrize(
    ("name", "outcome", "cells"),
    [
        ("float16", "zero", [2.0**-25]),
        ("float16", "subnormal", [2.0**-25, 1.75 * 2.0**-15]),
        ("float16", "overflow", [57344.0]),
        ("float8_e4m3fn", "zero", [2.0**-10]),
        ("float8_e4m3fn", "subnormal", [2.0**-10, 1.75 * 2.0**-7]),
        ("float8_e4m3fn", "overflow", [448.0]),
        ("float8_e5m2", "zero", [2.0**-17]),
        ("float8_e5m2", "subnormal", [2.0**-17]),
        ("float8_e5m2", "overflow", [57344.0]),
    ],
)
def test_the_bins_that_have_several_outcomes_are_those_of_the_documentation(name, outcome, cells):
    edges = EDGES[(EDGES > 0) & np.isfinite(EDGES)]
    uncertain = []
    for low, high in itertools.pairwise(edges):
        lost = Histogram.of(np.array([-1.0, low, low * 1.01, np.nextafter(high, 0)])).lost(name)
        # From its lower edge to just below the next one, so the extremes narrow nothing.
        bounds = getattr(lost, outcome)
        uncertain += [low] * (bounds.low < bounds.high)
    assert uncertain == cells


@given(
    hnp.arrays(
        np.float32,
        st.integers(0, 60),
        elements=st.floats(allow_nan=True, allow_infinity=True, width=32),
    ),
    st.sampled_from(NUMBER_FORMATS),
    st.integers(-30, 30),
)
def test_the_bounds_hold_what_casts_of_any_elements_lose(x, name, power):
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        x = np.concatenate([x, np.tanh(x) * np.float32(2.0) ** power])
    counted = x[np.isfinite(x) & (x != 0)]
    lost = Histogram.of(x).lost(name)
    assert lost.elements == counted.size
    truths = outcomes_of_casts(counted, name)
    for outcome, truth in zip(OUTCOMES, truths, strict=True):
        bounds, share = getattr(lost, outcome), lost.shares()[outcome]
        assert bounds.low <= truth.sum() <= bounds.high
        if counted.size:
            assert share == (bounds.low / counted.size, bounds.high / counted.size)


@pytest.mark.parametrize("name", NUMBER_FORMATS)
def test_the_loss_of_merged_histograms_is_that_of_all_elements(name):
    x = np.random.default_rng(0).normal(size=4000) * 10.0 ** np.linspace(-12, 6, 4000)
    merged = Histogram.of(x[:1000]).merge(Histogram.of(x[1000:]))
    assert merged.lost(name) == Histogram.of(x).lost(name)
    for outcome, truth in zip(OUTCOMES, outcomes_of_casts(x, name), strict=True):
        bounds = getattr(merged.lost(name), outcome)
        assert bounds.low <= truth.sum() <= bounds.high <= bounds.low + 60


def test_without_elements_that_count_shares_are_nan():
    lost = Histogram.of(np.array([0.0, np.nan, np.inf])).lost("float16")
    assert (lost.elements, lost.zero, lost.overflow) == (0, (0, 0), (0, 0))
    assert all(np.isnan(bounds).all() for bounds in lost.shares().values())
    assert Histogram.empty().lost("bfloat16").elements == 0


def test_extremes_that_a_device_took_as_zero_narrow_nothing():
    """Some devices take float32's subnormals as 0 in the minimum and maximum."""
    subnormal = Histogram.of(np.array([2.0**-130]))
    flushed = Histogram(subnormal.cells, Histogram.of(np.zeros(1)).summary)
    assert flushed.lost("bfloat16").zero == (0, 1)
    assert flushed.lost("bfloat16").subnormal == (0, 1)
    assert flushed.lost("float16").zero == (1, 1)


def test_another_format_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"float16, bfloat16, .*Received: 'float32'"):
        Histogram.empty().lost("float32")
