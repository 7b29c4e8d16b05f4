"""Columns come back to the last bit, from as few bytes as they need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gradwatch.store import columns

FLOATS = arrays.arrays(
    np.float64, st.integers(0, 40), elements=st.floats(allow_subnormal=True, width=64)
)
WHOLE = arrays.arrays(
    np.int64, st.integers(0, 40), elements=st.integers(-(2**63), 2**63 - 1)
)  # fmt: skip


def assert_same_bits(found, given_array):
    assert found.dtype == given_array.dtype
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(np.uint8), given_array.view(np.uint8)
    )


@settings(max_examples=200, deadline=None)
@given(FLOATS, WHOLE, st.binary(max_size=50))
def test_any_columns_come_back_to_the_bit(floats, whole, data):
    given_arrays = {"f": floats, "i": whole, "b": np.frombuffer(data, np.uint8)}
    facts, found = columns.unpack(columns.pack({"step": 1, "x": None}, given_arrays))
    assert facts == {"step": 1, "x": None}
    for name, array in given_arrays.items():
        assert_same_bits(found[name], array)


@pytest.mark.parametrize(
    ("column", "size"),
    [
        (np.full(1000, 0.1), 8),
        (np.arange(1000.0), 2000),
        (np.arange(1000.0) * 1000, 4000),
        (np.linspace(0, 1, 1000).astype(np.float32).astype(np.float64), 4000),
        (np.linspace(0, 1, 1000), 8000),
        (np.arange(1000) - 1, 4000),
        (2**40 + np.arange(1000), 8000),
        (np.array([0.0, -0.0] * 500), 4000),
        (np.zeros(0), 0),
    ],
)
def test_each_column_takes_the_narrowest_form_that_is_exact(column, size):
    data = columns.pack({}, {"x": column})
    head = len(columns.pack({}, {"x": np.zeros(0)})) + 20
    assert size <= len(data) <= size + head
    assert_same_bits(columns.unpack(data)[1]["x"], column)


def test_a_nan_keeps_its_payload():
    odd = np.array([0x7FF8000000000001, 0x7FF0000000000001, 0], np.int64).view(np.float64)
    assert_same_bits(columns.unpack(columns.pack({}, {"x": odd}))[1]["x"], odd)


DATA = columns.pack({"a": "b"}, {"x": np.arange(5.0), "y": np.arange(3) + 0.1})


@pytest.mark.parametrize("length", range(len(DATA)))
def test_what_is_cut_short_is_refused(length):
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
        columns.unpack(DATA[:length])


def test_what_is_too_long_or_of_unknown_form_is_refused():
    with pytest.raises(ValueError, match="too many"):
        columns.unpack(DATA + b"x")
    with pytest.raises(ValueError, match="unknown form"):
        columns.unpack(DATA.replace(b"<u2", b"|O8"))
