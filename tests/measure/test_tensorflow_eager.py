"""Eager tensors are measured alike before a graph is made for their shapes and after."""

import numpy as np
import pytest
import tensorflow as tf

from gradwatch.core.reference import count_cells
from gradwatch.measure import tensorflow_eager
from tests.measure.test_contract import assert_row


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.setattr(tensorflow_eager, "_graphs", {})
    monkeypatch.setattr(tensorflow_eager, "_times", type(tensorflow_eager._times)())


def measured(arrays, with_cells, wrap=tf.constant):
    rows, cells = tensorflow_eager.measure([wrap(x) for x in arrays], with_cells)
    return np.asarray(rows), np.asarray(cells)


@pytest.mark.parametrize("wrap", [tf.constant, tf.Variable])
def test_every_time_the_numbers_are_those_of_the_tensors_given(wrap):
    rng = np.random.default_rng(0)
    for time in range(tensorflow_eager.OFTEN + 2):
        arrays = [rng.normal(size=s).astype(np.float32) for s in ((3, 4), (600, 700), (), (5,))]
        if time % 2:
            arrays[0][0, 0], arrays[1][3, 3] = np.nan, np.inf
        rows, cells = measured(arrays, [0, 3], wrap)
        for row, x in zip(rows, arrays, strict=True):
            assert_row(row, x)
        np.testing.assert_array_equal(cells, [count_cells(arrays[0]), count_cells(arrays[3])])
    assert len(tensorflow_eager._graphs) == 1


def test_slices_and_what_is_missing_stand_between_the_others():
    table = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]], np.float32)
    sparse = tf.IndexedSlices(tf.constant(table[::2]), tf.constant([0, 2]), (3, 2))
    for _ in range(tensorflow_eager.OFTEN + 1):
        x, y = (np.random.default_rng(0).normal(size=n).astype(np.float32) for n in (7, 8))
        given = [tf.constant(x), None, sparse, tf.constant(y)]
        rows, cells = tensorflow_eager.measure(given, [2, 3])
        for row, true in zip(np.asarray(rows), (x, np.zeros(0), table, y), strict=True):
            assert_row(row, true)
        np.testing.assert_array_equal(cells, [count_cells(table), count_cells(y)])
    assert len(tensorflow_eager._graphs) == 1


def test_shapes_that_come_rarely_have_no_graph_and_there_are_few(monkeypatch):
    monkeypatch.setattr(tensorflow_eager, "MAX_GRAPHS", 2)
    for n in range(1, 5):
        for _ in range(tensorflow_eager.OFTEN):
            rows, _ = measured([np.full(n, 2.0, np.float32)], [])
            assert rows[0, 0] == n
            assert rows[0, 5] == 2.0 * n
        measured([np.zeros(10 * n, np.float32)], [])
    assert len(tensorflow_eager._graphs) == 2


def test_nothing_at_all_can_be_measured():
    rows, cells = tensorflow_eager.measure([], [])
    assert rows.shape == (0, 10)
    assert cells.shape[0] == 0
