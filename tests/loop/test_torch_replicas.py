"""Weights that ranks record to be compared: when, and how exactly."""

import numpy as np
import pytest
import torch

from gradwatch.capture.torch.torch_replicas import is_check, with_exact_sums
from gradwatch.core import FIELDS
from gradwatch.measure.torch import measure

SUM = FIELDS.index("sum")


def test_a_check_is_at_steps_that_a_budget_measures_anyway():
    checks = [step for step in range(1, 5001) if is_check(step)]
    assert checks == [10, 20, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000]


def exact(tensors):
    return with_exact_sums(measure(tensors)[0], tensors)[:, SUM].numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_sums_are_those_of_float64(dtype):
    tensors = [torch.randn(5000).to(dtype), torch.randn(3, 7).to(dtype), torch.zeros(0)]
    truth = [float(x.double().numpy().sum()) for x in tensors]
    np.testing.assert_allclose(exact(tensors), truth, rtol=1e-13, atol=1e-12)


def test_one_unit_in_the_last_place_of_any_weight_changes_the_sum():
    torch.manual_seed(0)
    weights = torch.randn(100_000)
    (before,) = exact([weights])
    for place in torch.randint(len(weights), (50,)):
        changed = weights.clone()
        changed[place] = torch.nextafter(changed[place], torch.tensor(9.0))
        assert exact([changed])[0] != before


def test_what_is_not_finite_is_left_out_of_the_sum_as_in_every_summary():
    x = torch.tensor([1.0, np.nan, 2.0, np.inf])
    rows = with_exact_sums(measure([x])[0], [x])
    assert rows[0, SUM] == 3.0
    assert torch.equal(rows, measure([x])[0])


def test_rows_without_a_tensor_stay_as_they_are():
    tensors = [torch.randn(10), torch.randn(10)]
    rows = measure(tensors)[0]
    rows[0, SUM] = 123.0
    assert with_exact_sums(rows, [None, tensors[1]])[0, SUM] == 123.0
