"""Every framework measures as the float64 NumPy reference does, in every mode it has."""

import ml_dtypes
import numpy as np
import pytest

from gradwatch.core import CELLS, FIELDS, IDENTITY, ZERO, Summary
from gradwatch.core.reference import count_cells, summarize
from gradwatch.core.statistics import std
from tests.measure import modes
from tests.variants import rarely

rng = np.random.default_rng(0)
TENSORS = {
    "matrix": rng.normal(size=(33, 7)).astype(np.float32),
    "0-d": np.float32(-3.5),
    "empty": np.zeros((0, 3), np.float32),
    "constant": np.full(1000, 0.1, np.float32),
    "all zero": np.zeros((4, 4), np.float32),
    "all NaN": np.full(5, np.nan, np.float32),
    "all infinite": np.array([np.inf, -np.inf, np.inf], np.float32),
    "everything": np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0], np.float32),
    "denormal": np.array([1e-40, -1e-42, 0.0, 1.0], np.float32),
    "1e38-sized": np.array([3e38, -3e38, 1e38], np.float32),
    "tiny": np.array([1e-30, -1e-25], np.float32),
    "many magnitudes": (10.0 ** rng.uniform(-35, 35, 400) * rng.choice([-1, 1], 400)).astype("f"),
    "around 1": (1 + 1e-4 * rng.normal(size=700)).astype(np.float32),
    "around 1000": (1000 + rng.normal(size=(300, 701))).astype(np.float32),
    "float64": rng.normal(size=50) * 1e100,
    "float16": rng.normal(size=(5, 10)).astype(np.float16),
    "bfloat16": rng.normal(size=50).astype(ml_dtypes.bfloat16),
    "float8_e4m3fn": rng.normal(size=50).astype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.array([1, np.inf, 0, -3e-5]).astype(ml_dtypes.float8_e5m2),
    "int32": np.array([[1, -5], [0, 2**30 + 1]], np.int32),
    "uint8": np.arange(200, dtype=np.uint8),
    "bool": np.array([True, False, True]),
}
# Measured apart from the others: one of them makes all that are measured with it be so with care.
STRANGE = {
    "all NaN", "all infinite", "everything", "denormal", "1e38-sized", "tiny", "many magnitudes",
    "around 1000", "float8_e5m2",
}  # fmt: skip
# JAX has float64 arrays only with x64 enabled: see test_jax.py.
ONLY_ELSEWHERE = {mode: {"float64"} for mode in ("jax eager", "jax jit", "jax on host")}


def measured(mode, function):
    """By name, what a function says of tensors: of several at once, as compiling takes long."""
    found = {}
    for group in (STRANGE, TENSORS.keys() - STRANGE):
        names = [n for n in TENSORS if n in group - ONLY_ELSEWHERE.get(mode, set())]
        rows = modes.run(mode, function, *(TENSORS[name] for name in names))
        found |= dict(zip(names, rows, strict=True))
    return found


def assert_row(got, tensor, what=""):
    """Counts are exact; sums are within 1e-6 of the sum of magnitudes."""
    truth = dict(zip(FIELDS, summarize(tensor), strict=True))
    got = dict(zip(FIELDS, got, strict=True))
    for name in ("count", "nan", "posinf", "neginf", "zeros"):
        assert got[name] == truth[name], (what, name)
    for name in ("sum", "sum_abs", "sum_squares"):
        scale = truth["sum_squares" if name == "sum_squares" else "sum_abs"]
        assert got[name] == pytest.approx(truth[name], rel=1e-6, abs=1e-6 * scale), (what, name)
    # TensorFlow and XLA may take a denormal for zero where they compare.
    for name in ("min", "max"):
        assert got[name] == pytest.approx(truth[name], rel=1e-7, abs=2e-38), (what, name)


@pytest.mark.parametrize("mode", modes.MODES)
def test_summaries_equal_the_reference_and_small_spreads_are_not_lost_in_rounding(mode):
    rows = measured(mode, "summarize")
    for name, row in rows.items():
        assert row.shape == (len(FIELDS),)
        assert row.dtype == np.float64
        assert_row(row, TENSORS[name], name)
    for name in ("around 1", "around 1000", "matrix"):
        found = float(std(Summary.unpack(rows[name])))
        assert found == pytest.approx(TENSORS[name].astype(np.float64).std(), rel=1e-5), name


@pytest.mark.parametrize("size", [3, 77, 700])
@pytest.mark.parametrize("mode", modes.MODES)
def test_sums_of_zeros_and_ones_are_whole(mode, size):
    x = (np.arange(size) % 3 == 0).astype(np.float32)
    assert modes.run(mode, "summarize", x)[0][FIELDS.index("sum")] == x.sum()


@pytest.mark.parametrize("mode", modes.MODES)
def test_histograms_equal_the_reference_exactly(mode):
    for name, cells in measured(mode, "count_cells").items():
        assert cells.shape == (CELLS,)
        if name == "denormal" and mode in modes.DENORMALS_ARE_ZERO:
            assert cells[ZERO] == 3
            continue
        np.testing.assert_array_equal(cells, count_cells(TENSORS[name]), err_msg=name)


@pytest.mark.parametrize("mode", modes.MODES)
def test_several_tensors_give_one_packed_array_and_none_an_empty_row(mode):
    tensors = [TENSORS["matrix"], None, TENSORS["float16"]]
    rows = modes.run(mode, "summarize", *tensors)
    assert_row(rows[0], tensors[0])
    np.testing.assert_array_equal(rows[1], IDENTITY)
    assert_row(rows[2], tensors[2])
    cells = modes.run(mode, "count_cells", *tensors)
    assert cells.sum(axis=1).tolist() == [33 * 7, 0, 50]


@pytest.mark.parametrize("mode", modes.MODES)
def test_no_tensors_give_no_rows(mode):
    assert modes.run(mode, "summarize").shape == (0, len(FIELDS))
    assert modes.run(mode, "count_cells").shape == (0, CELLS)


@pytest.mark.parametrize(
    "mode", ["tensorflow graph", "jax jit", "torch eager", *rarely("torch plain")]
)
def test_counts_and_sums_stay_right_beyond_2_to_the_24_elements(mode):
    x = np.full(2**24 + 5, 0.1, np.float32)
    x[:3] = [np.nan, 0.0, np.inf]
    assert_row(modes.run(mode, "summarize", x)[0], x)
    cells = modes.run(mode, "count_cells", x)
    np.testing.assert_array_equal(cells[0], count_cells(x))


@pytest.mark.parametrize("mode", modes.MODES)
def test_complex_tensors_are_refused(mode):
    with pytest.raises(TypeError, match="Complex"):
        modes.run(mode, "summarize", np.array([1j], np.complex64))
