"""Runs of one process, in which Keras has numbered the layers of each model anew."""

import keras
import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradwatch

pytestmark = pytest.mark.any_backend


def trained(directory, hidden=1, layers=None):
    """The paths of the kernels of a network that was trained for a few steps."""
    stack = layers or [keras.layers.Dense(6, activation="tanh") for _ in range(hidden)]
    model = keras.Sequential([keras.Input((4,)), *stack, keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    rng = np.random.default_rng(0)
    monitor = gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()])
    model.fit(
        rng.normal(size=(16, 4)), np.zeros((16, 2)), batch_size=4, verbose=0, callbacks=[monitor]
    )
    return [variable.path for variable in model.weights if variable.path.endswith("kernel")]


def test_runs_of_one_process_are_compared_layer_by_layer(tmp_path):
    kernels = [trained(tmp_path / name) for name in "ab"]
    assert not set(kernels[0]) & set(kernels[1])
    found = gradwatch.compare(tmp_path / "a", tmp_path / "b")
    assert len(found.sites) == 4
    assert {str(by) for by in found.matched_by} == {"name"}
    assert [[s.path for s in own if s.path.endswith("kernel")] for own in found.counterparts] == (
        kernels
    )
    for run, name in enumerate("ab"):
        with gradwatch.open(tmp_path / name) as own:
            for i, site in enumerate(found.counterparts[run]):
                assert_allclose(found.values[run, i], own.series("gradient", site.path)[1])


def test_a_deeper_network_of_the_same_process_keeps_its_ends(tmp_path):
    first, deeper = trained(tmp_path / "a"), trained(tmp_path / "b", hidden=3)
    ours, theirs = gradwatch.compare(tmp_path / "a", tmp_path / "b").counterparts
    pairs = {a.path: b.path for a, b in zip(ours, theirs, strict=True)}
    assert pairs[first[0]] == deeper[0]
    assert pairs[first[-1]] == deeper[-1]


def test_outputs_are_compared_as_their_layers_are(tmp_path):
    for name in "ab":
        stack = [keras.layers.Dense(6), keras.layers.ReLU(), keras.layers.Dense(6)]
        trained(tmp_path / name, layers=stack)
    ours, theirs = gradwatch.compare(tmp_path / "a", tmp_path / "b", kind="output").counterparts
    assert len(ours) == len(theirs) == 4
    (relu,) = [b.path for a, b in zip(ours, theirs, strict=True) if "re_lu" in a.path]
    assert "re_lu" in relu
