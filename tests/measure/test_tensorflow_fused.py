"""What XLA compiles of a graph that it does not compile itself."""

import numpy as np
import pytest
import tensorflow as tf

from gradwatch.core import reference
from gradwatch.measure.tensorflow import measure


def summarize(tensors):
    return measure(tensors)[0]


SHAPES = [(600, 128), (300, 256), (700, 128), (70, 3), (5,)]


def compiled_in(graph):
    """How many calls of functions that XLA compiles are in a graph."""
    return sum("_XlaMustCompile" in node.attr for node in graph.as_graph_def().node)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]


def traced(arrays):
    @tf.function
    def measure(tensors):
        return summarize(tensors)

    return measure.get_concrete_function([tf.constant(x) for x in arrays])


@pytest.mark.parametrize("special", [None, np.nan, np.inf])
def test_what_is_compiled_tells_the_truth(arrays, special):
    if special is not None:
        arrays[1][7, 9] = arrays[3][2, 1] = special
    got = traced(arrays)(*map(tf.constant, arrays)).numpy()
    truth = np.stack([reference.summarize(x) for x in arrays])
    np.testing.assert_array_equal(got[:, :5], truth[:, :5])
    np.testing.assert_allclose(got[:, 6:], truth[:, 6:], rtol=1e-6)
    assert (np.abs(got[:, 5] - truth[:, 5]) <= 1e-6 * truth[:, 6]).all()


def test_large_tensors_of_a_size_share_what_is_compiled(arrays):
    graph = traced(arrays).graph
    assert compiled_in(graph) == 3
    called = {n.attr["f"].func.name for n in graph.as_graph_def().node if "f" in n.attr}
    assert len(called) == 2  # Two are of one size.


def test_several_devices_are_left_to_the_graph(arrays):
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        assert compiled_in(traced(arrays).graph) == 0
