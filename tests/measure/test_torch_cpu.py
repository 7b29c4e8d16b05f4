"""What is particular to measuring many torch tensors together on the CPU."""

import numpy as np
import pytest
import torch

from gradwatch.core.reference import count_cells as true_cells
from gradwatch.core.reference import summarize as true_summary
from gradwatch.measure.kernels import torch_cpu
from gradwatch.measure.kernels.torch_cpu import BLOCK, ROW, SMALL
from gradwatch.measure.kernels.torch_plain import flat
from gradwatch.measure.torch import measure

SIZES = [
    *(0, 1, 2, ROW - 1, ROW, ROW + 1, 5 * ROW + 3, SMALL - 1, SMALL, SMALL + 7),
    *(BLOCK - 1, BLOCK, BLOCK + ROW + 1),
]
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.fixture(autouse=True)
def several_threads():
    """As outside of these tests, where torch has a thread for each core."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(before, 2))
    yield
    torch.set_num_threads(before)


def numbers(size, dtype=torch.float32, seed=0):
    x = np.random.default_rng(seed + size).normal(size=size)
    x[::7] = 0.0
    x[3::11] = -0.0
    return torch.from_numpy(x).to(dtype)


def assert_measured(rows, cells, tensors):
    for row, counted, x in zip(rows.numpy(), cells.numpy(), tensors, strict=True):
        truth = x.double().numpy()
        expected = true_summary(truth)
        np.testing.assert_array_equal(row[:5], expected[:5])
        scale = expected[[6, 6, 7]]
        assert (np.abs(row[5:8] - expected[5:8]) <= 1e-6 * scale).all(), (row, expected)
        np.testing.assert_array_equal(row[8:], expected[8:])
        np.testing.assert_array_equal(counted, true_cells(truth))


def measure_all(tensors):
    return measure(tensors, range(len(tensors)))


def test_tensors_of_all_sizes_and_types_are_measured_together():
    tensors = [numbers(size, dtype) for dtype in TYPES for size in SIZES]
    mixed = [tensors[i] for i in np.random.default_rng(1).permutation(len(tensors))]
    assert_measured(*measure_all(mixed), mixed)


@pytest.mark.parametrize("place", [0, ROW, 3 * ROW - 1, 3 * ROW + 5])
@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf, 3e38, 1e-40])
def test_a_strange_number_anywhere_is_measured_and_leaves_the_neighbours_alone(strange, place):
    tensors = [numbers(3 * ROW + 9, seed=i) for i in range(3)]
    tensors[1][place] = strange
    assert_measured(*measure_all(tensors), tensors)


@pytest.mark.parametrize(
    "scale", [1e-44, 1e-38, 1e-25, 1e-21, 1e-19, 1e-16, 1e16, 1e18, 1e25, 3e37]
)
def test_squares_beyond_the_range_of_float32_are_added_up(scale):
    x = (numbers(4 * ROW + 9).double() * scale).float()
    assert_measured(*measure_all([x]), [x])


def test_all_but_a_few_numbers_may_be_tiny():
    x = torch.full((2 * BLOCK + 3,), 1e-30)
    x[BLOCK + 5] = 1e-10
    assert_measured(*measure_all([x]), [x])


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7])
def test_rounding_does_not_add_up_over_equal_numbers(value):
    x = torch.full((2**20 + 17,), value)
    assert_measured(*measure_all([x]), [x])


def test_cells_are_counted_of_the_chosen_tensors_only():
    tensors = [numbers(size) for size in (40, BLOCK + 1, 7)] + [None, numbers(9, torch.float64)]
    rows, cells = measure(tensors, [1, 3, 4])
    assert rows[:, 0].tolist() == [40, BLOCK + 1, 7, 0, 9]
    np.testing.assert_array_equal(cells[0], true_cells(tensors[1].numpy()))
    assert cells[1].sum() == 0
    np.testing.assert_array_equal(cells[2], true_cells(tensors[4].numpy()))


def test_more_tensors_than_are_counted_together_keep_their_order():
    tensors = [torch.full((i % 5 + 1,), float(i)) for i in range(3 * torch_cpu.TOGETHER + 1)]
    assert_measured(*measure_all(tensors), tensors)


def test_transposed_and_channels_last_tensors_are_read_where_they_lie():
    image = numbers(2 * 3 * 4 * 5).view(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for x in (numbers(60).view(5, 12).T, image):
        assert not x.is_contiguous()
        assert flat(x).data_ptr() == x.data_ptr()
        assert sorted(flat(x).tolist()) == sorted(x.reshape(-1).tolist())


def test_expanded_and_negated_views_are_measured_as_what_they_show():
    expanded = numbers(30).view(30, 1).expand(30, 40)
    negated = torch.view_as_complex(numbers(40).view(20, 2)).conj().imag
    assert negated.is_neg()
    rows, cells = measure_all([expanded, negated])
    assert_measured(rows, cells, [expanded.clone(), negated.resolve_neg()])
