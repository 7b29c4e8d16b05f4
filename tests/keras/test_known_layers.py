"""Looking up layers anew only where there are others."""

import keras
import pytest

from gradwatch.capture.keras.layers import LayersOf

pytestmark = pytest.mark.any_backend


def test_layers_that_are_built_or_added_later_are_known_then():
    model = keras.Sequential([keras.layers.Dense(3, name="first")], name="net")
    layers = LayersOf(model)
    assert list(layers.now().by_path) == ["net/first"]
    model.build((None, 2))
    model.add(keras.layers.Dense(4, name="second"))
    known = layers.now()
    assert list(known.by_path) == ["net/first", "net/second"]
    assert [layer.name for layer in known.every][-2:] == ["first", "second"]
    assert layers.now() is known


def test_layers_inside_a_recurrent_one_are_told_apart():
    lstm = keras.layers.LSTM(3, name="lstm")
    model = keras.Sequential([keras.Input((4, 2)), lstm], name="net")
    known = LayersOf(model).now()
    assert known.inside_recurrent == {id(lstm.cell)}
