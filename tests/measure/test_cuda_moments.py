"""Measuring an optimizer's step on a GPU: tables, what can be read; with a GPU, the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradwatch.measure.kernels import cuda_moments
from gradwatch.measure.kernels.cuda_moments import StepMoments
from tests.measure.moments_truth import rows_by_hand

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no GPU.")


def variable(size: int, device: str = "cpu", **others: Any) -> StepMoments:
    draw = torch.Generator().manual_seed(size)
    g, w, b, m, v = (torch.randn(size, generator=draw).to(device) for _ in range(5))
    tensors: dict[str, Any] = {"before": b, "first": m, "second": v.square(), "floor": 1e-3}
    return StepMoments(g, w, **{**tensors, **others})


@pytest.fixture
def plan_of(monkeypatch: Any) -> Any:
    """Makes plans whose tables are NumPy arrays."""
    monkeypatch.setattr(cuda_moments, "to_device", lambda numbers, device: np.asarray(numbers))

    def plan(several: list[StepMoments]) -> Any:
        forms = [cuda_moments._form(x, [16] * 5) for x in several]
        sizes = [x.weight.numel() for x in several]
        return cuda_moments._make_plan(forms, sizes, [x.weight.dtype for x in several], None)

    return plan


def test_each_element_of_a_variable_belongs_to_one_chunk_in_every_role(plan_of: Any) -> None:
    length = cuda_moments.BLOCK * cuda_moments.STEPS
    several = [variable(7), variable(2 * length + 1, first=None), variable(0), variable(length)]
    plan = plan_of(several)
    count = len(several)
    assert sorted(plan.order) == list(range(count))
    covered = 0
    for form, _, first, chunks in plan.groups:
        assert first == covered
        covered += chunks
        for chunk in range(first, covered):
            one = several[plan.order[plan.owners[chunk]]]
            assert form.has_first is (one.first is not None)
    assert covered == plan.chunks
    for role in range(cuda_moments.triton_table.ROLES):
        for place, i in enumerate(plan.order):
            begin, end = plan.firsts[role * count + place : role * count + place + 2]
            own = range(begin - role * plan.chunks, end - role * plan.chunks)
            starts = [plan.starts[chunk] for chunk in own]
            assert starts == list(range(0, several[i].weight.numel(), length))
            assert plan.places[role * count + place] == role * count + i
            assert plan.sizes[role * count + place] == several[i].weight.numel()


def test_the_table_has_addresses_and_numbers_or_where_they_are() -> None:
    away = torch.tensor([0.5, 0.25])
    several = [
        variable(3, correction=0.5, is_descent=True),
        variable(4, correction=away[0], floor=away[1]),
        variable(5, second=None, floor=None),
    ]
    order = [2, 0, 1]
    addresses = [[0 if x is None else x.data_ptr() for x in each.tensors] for each in several]
    table = cuda_moments._table([addresses[i] for i in order], several, order)
    for column, i in enumerate(order):
        assert table[:5, column].tolist() == addresses[i]
    numbers = table[5:].view(np.float64)
    assert numbers[:, 1].tolist() == [0.5, 1e-3, -1.0]
    assert table[5:7, 2].tolist() == [away.data_ptr(), away.data_ptr() + 4]
    assert numbers[2].tolist() == [1.0, -1.0, 1.0]


def test_tensors_that_do_not_match_are_left_to_others(monkeypatch: Any) -> None:
    assert not cuda_moments.can_measure(variable(3))  # Not on a GPU.
    monkeypatch.setattr(cuda_moments, "reads", lambda x: x.is_contiguous())
    one = variable(6)
    assert cuda_moments.can_measure(one)
    assert cuda_moments.can_measure(one._replace(first=None, before=None))
    assert not cuda_moments.can_measure(one._replace(gradient=one.gradient.double()))
    assert not cuda_moments.can_measure(one._replace(first=one.first[:5]))
    assert not cuda_moments.can_measure(one._replace(second=torch.ones(12)[::2]))


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_gpu_measures_a_step_as_numpy_does(dtype: Any) -> None:
    several = [variable(size, "cuda") for size in (1, 1000, 300_007)]
    several += [several[1]._replace(first=None), several[2]._replace(second=None, floor=None)]
    several = [
        x._replace(**{n: y.to(dtype) for n, y in x._asdict().items() if torch.is_tensor(y)})
        for x in several
    ]
    rows = cuda_moments.measure(several, torch.device("cuda")).cpu().numpy()
    expected = rows_by_hand(several)
    known = ~np.isnan(expected[:, 0])
    np.testing.assert_allclose(rows[known], expected[known], rtol=1e-6, atol=1e-6 * 300_007)
    np.testing.assert_allclose(rows[known, 7], expected[known, 7], rtol=1e-6)
