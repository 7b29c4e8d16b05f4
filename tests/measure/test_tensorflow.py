"""What is particular to measuring in TensorFlow: gradients of embeddings."""

import numpy as np
import pytest
import tensorflow as tf

from gradwatch.core.reference import count_cells as true_cells
from gradwatch.core.reference import summarize as true_summary
from gradwatch.measure.kernels import row_layout, tensorflow_cells
from gradwatch.measure.tensorflow import measure
from tests.variants import rarely


def summarize(tensors):
    return measure(tensors)[0]


def count_cells(tensors, due=True):
    return measure(tensors, range(len(tensors)), due)[1]


SLICES = {
    "repeated rows": ([3, 1, 3, 3], (6, 2)),
    "every row present": ([0, 1, 2, 0], (3, 2)),
    "one row": ([4], (5, 3)),
    "no slices": ([], (5, 3)),
    "higher rank": ([1, 1, 0], (4, 2, 3)),
}


@pytest.mark.parametrize("jit_compile", [None, False, True])
@pytest.mark.parametrize("name", SLICES)
def test_indexed_slices_are_measured_as_the_tensor_they_stand_for(name, jit_compile):
    indices, shape = SLICES[name]
    values = np.random.default_rng(0).normal(size=(len(indices), *shape[1:])).astype(np.float32)
    dense = np.zeros(shape, np.float32)
    np.add.at(dense, np.array(indices, int), values)

    def measure(values, indices):
        slices = tf.IndexedSlices(values, indices, tf.constant(shape, tf.int64))
        return summarize([slices]), count_cells([slices])

    if jit_compile is not None:
        measure = tf.function(measure, autograph=False, jit_compile=jit_compile)
    rows, cells = measure(tf.constant(values), tf.constant(indices, tf.int64))
    np.testing.assert_allclose(rows[0], true_summary(dense), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(cells[0], true_cells(dense))


def test_slices_with_a_nan_keep_it():
    slices = tf.IndexedSlices(
        tf.constant([[1.0, np.nan], [2.0, 3.0]]), tf.constant([2, 0]), tf.constant([4, 2])
    )
    dense = np.array([[2, 3], [0, 0], [1, np.nan], [0, 0]])
    np.testing.assert_array_equal(summarize([slices])[0], true_summary(dense))


def test_histograms_that_are_not_due_are_not_counted():
    count = tf.function(lambda x, due: count_cells([x], due))
    assert tf.reduce_sum(count(tf.ones(7), tf.constant(True))) == 7
    assert tf.reduce_sum(count(tf.ones(7), tf.constant(False))) == 0


@pytest.mark.parametrize("jit_compile", [False, *rarely(True)])
def test_cells_of_tensors_above_and_below_the_size_of_a_chunk(monkeypatch, jit_compile):
    monkeypatch.setattr(tensorflow_cells, "MAX_ELEMENTS", 256)
    monkeypatch.setattr(row_layout, "MAX_ELEMENTS", 256)
    rng = np.random.default_rng(0)
    sizes = [1, 127, 128, 129, 200, 200, 200, 200, 255, 256, 257, 512, 1300]
    arrays = [rng.normal(size=size).astype(kind) for size in sizes for kind in ("f4", "f2", "f8")]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45], "float32")
    arrays += [np.zeros(200, "float32"), special, special.astype("float64"), np.zeros(0, "float32")]
    step = tf.function(
        lambda due: count_cells([tf.constant(x) for x in arrays], due),
        autograph=False,
        jit_compile=jit_compile,
    )
    true = np.stack([true_cells(x) for x in arrays])
    np.testing.assert_array_equal(step(tf.constant(True)), true)
    np.testing.assert_array_equal(step(tf.constant(False)), np.zeros_like(true))
