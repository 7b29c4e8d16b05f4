"""What is particular to measuring in torch: compiled steps, odd layouts."""

import numpy as np
import pytest
import torch

from gradwatch.core.reference import count_cells as true_cells
from gradwatch.core.reference import summarize as true_summary
from gradwatch.measure.torch import measure


def summarize(tensors):
    return measure(tensors)[0]


def count_cells(tensors, due=True):
    return measure(tensors, range(len(tensors)), due)[1]


# torch's own compiler uses what torch itself has deprecated.
@pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")
@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float32, marks=pytest.mark.slow)]
)
def test_a_compiled_function_measures_without_breaking_the_graph(dtype):
    @torch.compile(fullgraph=True)
    def measure(x):
        return summarize([x]), count_cells([x])

    x = torch.tensor([[1.0, -2.5, 0.0], [float("nan"), float("inf"), 3e-5]]).to(dtype)
    rows, cells = measure(x)
    truth = x.to(torch.float64).numpy()
    np.testing.assert_allclose(rows[0], true_summary(truth), rtol=1e-6)
    np.testing.assert_array_equal(cells[0], true_cells(truth))


def test_transposed_and_sliced_tensors_are_measured():
    x = torch.arange(24.0).reshape(4, 6)
    for view in (x.T, x[::2, 1:4]):
        np.testing.assert_allclose(summarize([view])[0], true_summary(view.numpy()), rtol=1e-12)
        np.testing.assert_array_equal(count_cells([view])[0], true_cells(view.numpy()))


def test_sparse_gradients_are_measured_as_the_tensor_they_stand_for():
    embedding = torch.nn.Embedding(5, 2, sparse=True)
    (embedding(torch.tensor([1, 1, 3])) ** 2).sum().backward()
    gradient = embedding.weight.grad
    dense = gradient.to_dense().numpy()
    np.testing.assert_allclose(summarize([gradient])[0], true_summary(dense), rtol=1e-6)


def test_measuring_leaves_no_trace_in_autograd():
    w = torch.ones(3, requires_grad=True)
    rows = summarize([w])
    assert not rows.requires_grad


def test_tensors_that_stand_for_others_are_measured_inside_of_a_transformation():
    def loss(w):
        return (w**2).sum(), measure([w], [0])

    w = torch.tensor([3.0, -4.0, 0.0])
    _, (rows, cells) = torch.func.grad(loss, has_aux=True)(w)
    np.testing.assert_allclose(rows[0], true_summary(w.numpy()), rtol=1e-6)
    np.testing.assert_array_equal(cells[0], true_cells(w.numpy()))


def test_tensors_of_a_subclass_keep_their_place_among_the_others():
    class Own(torch.Tensor):
        pass

    tensors = [torch.ones(3), torch.full((4,), 2.0).as_subclass(Own), torch.zeros(5)]
    rows, cells = measure(tensors, [0, 1, 2])
    assert rows[:, 0].tolist() == [3, 4, 5]
    for row, counted, x in zip(rows, cells, tensors, strict=True):
        np.testing.assert_array_equal(row, true_summary(x.numpy()))
        np.testing.assert_array_equal(counted, true_cells(x.numpy()))
