"""Residual branches against their stream, and logits, in `fit`: NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import Kind, Site
from tests.keras.support import normal

BACKEND = keras.backend.backend()
LENGTH, SIZE, CLASSES = 5, 6, 3
VITALS = (Kind.RESIDUAL_RATIO, Kind.LOGIT)
# Compilers may fuse a measured step differently.
JIT = "auto" if BACKEND == "jax" else False


class Kept(gradwatch.Sink):
    def __init__(self):
        self.readings = []

    def write(self, reading):
        self.readings.append(reading)


def functional(head):
    """Two residual branches, one added by a layer and one by an operator, and other sums."""
    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((LENGTH, SIZE))
    x = layers.Add(name="embedding")([layers.Dense(SIZE, name="a")(x), layers.Dense(SIZE)(x)])
    branch = layers.Dense(SIZE, "tanh", name="first")(x)
    x = layers.Add(name="sum")([branch, x])
    x = x + 0.5 * layers.Activation("relu")(layers.Dense(SIZE, name="second")(x))
    x = layers.Add(name="no_weights")([x, layers.Activation("tanh", name="tanh")(x)])
    return inputs, head()(x)


def decided():
    inputs, y = functional(lambda: layers.Dense(CLASSES, "softmax", name="head"))
    model = keras.Model(inputs, y)
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", jit_compile=JIT)
    return model


def undecided():
    inputs, y = functional(lambda: layers.Dense(CLASSES, name="head"))
    model = keras.Model(inputs, y)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=JIT)
    return model


def separate():
    inputs, y = functional(lambda: layers.Dense(CLASSES, name="before"))
    model = keras.Model(inputs, layers.Softmax(name="head")(y))
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", jit_compile=JIT)
    return model


def nested():
    """A functional model in another."""
    inner = decided()
    inputs = keras.Input((LENGTH, SIZE))
    model = keras.Model(inputs, inner(inputs))
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", jit_compile=JIT)
    return model


def truth(model, x):
    def dense(x, kernel, bias):
        return x @ np.float64(kernel) + np.float64(bias)

    weights = [keras.ops.convert_to_numpy(w) for w in model.weights]
    pairs = [weights[i : i + 2] for i in range(0, len(weights), 2)]
    x = np.float64(x)
    x = dense(x, *pairs[0]) + dense(x, *pairs[1])
    found = {}
    for path, branch in (
        ("first", lambda x: np.tanh(dense(x, *pairs[2]))),
        ("second", lambda x: 0.5 * np.maximum(dense(x, *pairs[3]), 0)),
    ):
        added = branch(x)
        found[Site(Kind.RESIDUAL_RATIO, path)] = np.linalg.norm(added, axis=-1) / np.linalg.norm(
            x, axis=-1
        )
        x = x + added
    found[Site(Kind.LOGIT, "head")] = dense(x + np.tanh(x), *pairs[4])
    return found


WATCH = (
    gradwatch.residuals(every=1),
    gradwatch.logits(every=1, histogram=True),
    gradwatch.gradients(every=1),
)


def fitted(model, watch):
    x, y = normal(8, LENGTH, SIZE), np.arange(8 * LENGTH).reshape(8, LENGTH) % CLASSES
    kept = Kept()
    callbacks = []
    if watch:
        options = {"watch": list(watch), "sinks": [kept], "diagnose": False}
        callbacks = [gradwatch.Monitor("run", **options)]
    model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False, callbacks=callbacks)
    return kept.readings, model.get_weights()


def vitals(readings, step=1):
    """By site, the summaries of a step."""
    return {
        site: reading.summary[reading.position[site]]
        for reading in readings
        if reading.step == step
        for site in reading.sites
        if site.kind in VITALS
    }


@pytest.mark.parametrize("make", [decided, undecided, separate, nested])
def test_ratios_and_logits_are_true_and_training_is_the_same(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    model = make()
    true = truth(model, normal(8, LENGTH, SIZE)[:4])
    readings, weights = fitted(model, WATCH)
    found = vitals(readings)
    prefix = "functional" if make is nested else ""
    named = {Site(s.kind, s.path.rpartition("/")[2]): x for s, x in found.items()}
    assert named.keys() == true.keys(), prefix
    for site, array in true.items():
        assert named[site].count == array.size
        for name in ("max", "min", "sum"):
            np.testing.assert_allclose(
                getattr(named[site], name), getattr(array, name)(), rtol=1e-4, atol=1e-4
            )
    assert len(vitals(readings, 4)) == 3
    _, bare = fitted(make(), None)
    for own, other in zip(weights, bare, strict=True):
        if BACKEND == "jax":
            np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(own, other)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner, self.head = layers.Dense(SIZE), layers.Dense(CLASSES)

    def call(self, x):
        return self.head(gradwatch.residual(x, self.inner(x), "block"))


def test_a_model_without_a_graph_has_the_branches_of_its_code_and_the_logits_of_its_loss(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    model = Subclassed()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=JIT)
    readings, _ = fitted(model, WATCH[1:])
    found = vitals(readings, 2)
    assert set(found) == {Site(Kind.RESIDUAL_RATIO, "block"), Site(Kind.LOGIT, "logits")}
    assert found[Site(Kind.RESIDUAL_RATIO, "block")].count == 4 * LENGTH
    assert found[Site(Kind.LOGIT, "logits")].count == 4 * LENGTH * CLASSES


@pytest.mark.any_backend
def test_steps_that_are_not_due_call_the_layers_own_methods(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, seen = decided(), []
    own = layers.Add.call

    def looked_at(self, *args, **kwargs):
        seen.append("call" in vars(self))
        return own(self, *args, **kwargs)

    monkeypatch.setattr(layers.Add, "call", looked_at)
    fitted(model, [gradwatch.residuals(every=2), gradwatch.gradients(every=1)])
    assert True in seen
    assert False in seen
    assert not any("call" in vars(layer) for layer in model.layers)


@pytest.mark.any_backend
def test_models_without_branches_or_logits_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = keras.Sequential([keras.Input((LENGTH, SIZE)), layers.Dense(CLASSES)])
    model.compile("sgd", "mse")
    x = normal(8, LENGTH, SIZE)
    watch = [gradwatch.residuals(every=1), gradwatch.logits(every=1), gradwatch.gradients()]
    monitor = gradwatch.Monitor("run", watch=watch, sinks=[Kept()], diagnose=False)
    with pytest.warns(gradwatch.GradwatchWarning) as warned:
        model.fit(x, x[..., :CLASSES], verbose=0, callbacks=[monitor])
    texts = [str(each.message) for each in warned]
    assert any("watch residual branches, but finds none" in text for text in texts)
    assert any("watch logits, but finds no output" in text for text in texts)
