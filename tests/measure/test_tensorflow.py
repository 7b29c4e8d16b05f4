"""What is particular to measuring in TensorFlow: gradients of embeddings."""

import numpy as np
import pytest
import tensorflow as tf

from gradwatch.core.reference import count_cells as true_cells
from gradwatch.core.reference import summarize as true_summary
from gradwatch.measure.tensorflow import measure


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
