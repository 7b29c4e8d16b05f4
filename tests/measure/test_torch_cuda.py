"""Measuring torch tensors on a GPU: how the work is cut up, and, where there is one, all of it."""

import numpy as np
import pytest
import torch

from gradwatch.core.reference import count_cells as true_cells
from gradwatch.core.reference import summarize as true_summary
from gradwatch.measure.kernels import cuda_kernel, torch_cuda
from gradwatch.measure.torch import measure

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no GPU.")


@pytest.fixture
def plan_of(monkeypatch):
    """Makes plans whose tables are NumPy arrays."""
    monkeypatch.setattr(torch_cuda, "to_device", lambda numbers, device: np.asarray(numbers))
    return lambda *form: torch_cuda._make_plan(torch_cuda._Form(*form), None)


def test_each_element_belongs_to_one_chunk_of_the_launch_that_reads_its_type(plan_of):
    half, single = torch.float16, torch.float32
    dtypes = (single, half, single, single, single, half)
    aligned = (True, True, False, True, True, True)
    counted = (3, 5)
    sizes = (200_000, 65_537, 10, 70_000, 0, 65_536)
    plan = plan_of(dtypes, aligned, counted, sizes)
    assert sorted(plan.order) == list(range(6))
    covered = 0
    for group in plan.groups:
        assert group.first_chunk == covered
        covered += group.chunks
        for chunk in range(group.first_chunk, covered):
            tensor = plan.order[plan.owners[chunk]]
            assert dtypes[tensor] is group.dtype
            assert aligned[tensor] is group.aligned
            assert (tensor in counted) is group.with_cells
    assert covered == plan.chunks == len(plan.owners)
    for place, tensor in enumerate(plan.order):
        chunks = range(plan.firsts[place], plan.firsts[place + 1])
        assert [plan.owners[c] for c in chunks] == [place] * len(chunks)
        length = torch_cuda._length(tensor in counted)
        assert [plan.starts[c] for c in chunks] == list(range(0, sizes[tensor], length))


def test_histograms_are_found_where_the_launches_have_counted_them(plan_of):
    single = torch.float32
    plan = plan_of((single,) * 4, (True,) * 4, (0, 3), (5, 6, 7, 8))
    assert [plan.order[place] for place in plan.counted] == [0, 3]
    assert plan.rows_counted.tolist() == [0, 3]


def test_counters_are_wide_enough_for_the_largest_tensor(plan_of):
    def plan(size):
        return plan_of((torch.float32,), (True,), (0,), (size,))

    assert plan(2**31 - 1).counter is torch.int32
    assert plan(2**31).counter is torch.int64


def test_chunks_of_a_launch_are_whole_blocks_of_the_one_that_takes_care():
    for with_cells in (False, True):
        assert torch_cuda._length(with_cells) % torch_cuda.CAREFUL == 0


def test_the_kernel_counts_by_as_many_keys_as_a_float32_has_top_bits():
    from gradwatch.measure.kernels.float_bits import FLOAT32_BITS

    assert FLOAT32_BITS.keys == cuda_kernel.KEYS
    assert f">> {FLOAT32_BITS.shift}]" in cuda_kernel._SOURCE


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_gpu_measures_as_the_reference_does(dtype):
    tensors = [torch.randn(size, device="cuda").to(dtype) for size in (0, 1, 1000, 300_007)]
    tensors.append(tensors[-1][1:])
    tensors[2][[3, 5]] = torch.tensor([np.nan, np.inf], device="cuda").to(dtype)
    rows, cells = measure([*tensors, None], range(len(tensors)))
    for row, counted, x in zip(rows.cpu().numpy(), cells.cpu().numpy(), tensors, strict=False):
        truth = x.double().cpu().numpy()
        expected = true_summary(truth)
        np.testing.assert_array_equal(row[[0, 1, 2, 3, 4, 8, 9]], expected[[0, 1, 2, 3, 4, 8, 9]])
        np.testing.assert_allclose(row[6:8], expected[6:8], rtol=1e-6)
        np.testing.assert_array_equal(counted, true_cells(truth))


@needs_gpu
def test_measuring_on_a_gpu_does_not_wait_for_it():
    tensors = [torch.randn(1000, device="cuda") for _ in range(5)]
    measure(tensors, range(5))  # Compiles.
    torch.cuda.set_sync_debug_mode("error")
    try:
        measure([x + 1 for x in tensors], range(5))
    finally:
        torch.cuda.set_sync_debug_mode("default")
