"""Measuring the tensors of an eager torch step as they arise."""

import numpy as np
import pytest
import torch

from gradwatch.core.reference import count_cells as true_cells
from gradwatch.core.reference import summarize as true_summary
from gradwatch.measure import torch_eager
from gradwatch.measure.torch_eager import EagerStep


def drawn(count):
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.normal(size=7 + i).astype(np.float32)) for i in range(count)]


@pytest.fixture(params=[1, 100, 10**6], ids=["each at once", "in batches", "all at the end"])
def most_waiting(request, monkeypatch):
    monkeypatch.setattr(torch_eager, "MOST_WAITING", request.param)


@pytest.mark.usefixtures("most_waiting")
def test_rows_and_cells_are_in_the_order_asked_for_whenever_they_were_measured():
    tensors = drawn(12)
    counted = {1, 4, 5, 11}
    step = EagerStep(parameters=0, counts=True)
    given = list(tensors)
    for i in (7, 4, 0, 11, 2):  # In another order than they are asked for.
        given[i] = step.add(tensors[i], i in counted)
    given.insert(3, None)
    with_cells = [i + (i >= 3) for i in sorted(counted)]
    rows, cells = step.measure(given, with_cells)
    tensors.insert(3, torch.empty(0))
    for row, x in zip(rows, tensors, strict=True):
        np.testing.assert_allclose(row, true_summary(x.double().numpy()), rtol=1e-6)
    for row, i in zip(cells, with_cells, strict=True):
        np.testing.assert_array_equal(row, true_cells(tensors[i].double().numpy()))


@pytest.mark.usefixtures("most_waiting")
def test_no_cells_are_counted_where_histograms_are_not_due():
    step = EagerStep(parameters=0, counts=False)
    place = step.add(torch.ones(3), with_cells=True)
    rows, cells = step.measure([place, torch.ones(2)], [0, 1])
    assert rows[:, 0].tolist() == [3, 2]
    assert len(cells) == 0


def test_no_more_than_the_bound_waits(monkeypatch):
    monkeypatch.setattr(torch_eager, "MOST_WAITING", 100)
    alive = []
    step = EagerStep(parameters=0, counts=False)
    for _ in range(10):
        tensor = torch.ones(10)
        alive.append(torch.multiprocessing.reductions.StorageWeakRef(tensor.untyped_storage()))
        step.add(tensor, with_cells=False)
        del tensor
        assert sum(not each.expired() for each in alive) * 40 < 100


def test_the_bound_grows_with_the_parameters():
    held = torch.ones(2**22)  # As many bytes as may wait in a small model.
    small, large = EagerStep(0, False), EagerStep(10**9, False)
    small.add(held, with_cells=False)
    large.add(held, with_cells=False)
    assert (len(small._waiting), len(large._waiting)) == (0, 1)


def test_what_fails_in_the_midst_of_a_step_is_raised_at_its_end_and_once(monkeypatch):
    monkeypatch.setattr(torch_eager, "MOST_WAITING", 1)
    step = EagerStep(parameters=0, counts=False)
    place = step.add(torch.ones(2, dtype=torch.complex64), with_cells=False)
    also = step.add(torch.ones(2), with_cells=False)
    with pytest.raises(TypeError, match="Complex"):
        step.measure([place, also], [])
    rows, _ = step.measure([torch.ones(3), None], [])
    assert rows[:, 0].tolist() == [3, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_changes_are_the_differences_of_what_was_copied(dtype):
    parameters = [torch.nn.Parameter(x.to(dtype)) for x in drawn(4)]
    before = [p.detach().clone().double().numpy() for p in parameters]
    step = EagerStep(parameters=0, counts=False)
    copies = step.snapshots(parameters)
    with torch.no_grad():
        for p in parameters:
            p.mul_(1.25)
    kept = {}
    changes = step.changes(parameters, copies, lambda i, x: kept.setdefault(i, x))
    for p, old, change in zip(parameters, before, changes, strict=True):
        new = p.detach().double().numpy()
        assert change.dtype is torch.promote_types(dtype, torch.float32)
        assert not change.requires_grad
        np.testing.assert_allclose(change, new - old, rtol=1e-7, atol=1e-7)
    # Copies as wide as the difference hold it themselves; others are handed on one by one.
    assert list(kept) == ([0, 1, 2, 3] if dtype is torch.bfloat16 else [])
