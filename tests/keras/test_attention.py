"""`gradwatch.attention` in `fit`: scores of sampled queries against NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import Kind, Site
from tests.attention_truth import attention_truth
from tests.keras.support import normal

BACKEND = keras.backend.backend()
LENGTH, SIZE, HEADS, KEY = 20, 6, 2, 3
KINDS = (Kind.ATTENTION_LOGIT, Kind.ATTENTION_ENTROPY)
PATHS = ("causal", "masked", "grouped")


class Kept(gradwatch.Sink):
    def __init__(self):
        self.readings = []

    def write(self, reading):
        self.readings.append(reading)


def make():
    keras.utils.set_random_seed(0)
    x = keras.Input((LENGTH, SIZE), name="x")
    mask = keras.Input((LENGTH, LENGTH), dtype="bool", name="mask")
    found = [
        # With dropout, Keras computes the scores one by one.
        layers.MultiHeadAttention(HEADS, KEY, dropout=0.3, name="causal")(
            x, x, use_causal_mask=True
        ),
        layers.MultiHeadAttention(HEADS, KEY, name="masked")(
            x, x, attention_mask=mask, return_attention_scores=True
        )[0],
        layers.GroupQueryAttention(KEY, 4, 2, name="grouped")(x, x, use_causal_mask=True),
    ]
    y = layers.Dense(1)(layers.GlobalAveragePooling1D()(layers.add(found)))
    model = keras.Model([x, mask], y, name="net")
    # Compilers may fuse a measured step differently.
    jit = "auto" if BACKEND == "jax" else False
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=jit)
    return model


def data():
    hidden = np.random.default_rng(1).random((4, LENGTH, LENGTH)) < 0.3
    hidden |= np.eye(LENGTH, dtype=bool)
    return [3 * normal(4, LENGTH, SIZE), hidden], normal(4, 1)


def scores_of(model, path, x):
    """All scores of a layer in float64, of (batch, heads, queries, keys)."""
    layer = model.get_layer(path)
    query, key = (
        np.einsum("btd,dnh->btnh", x, np.float64(keras.ops.convert_to_numpy(dense.kernel)))
        + np.float64(keras.ops.convert_to_numpy(dense.bias))
        for dense in (layer._query_dense, layer._key_dense)
    )
    key = np.repeat(key, query.shape[2] // key.shape[2], axis=2)
    return np.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(query.shape[-1])


def fitted(watch):
    model = make()
    x, y = data()
    masks = {
        "causal": np.tril(np.ones((LENGTH, LENGTH), bool)),
        "grouped": np.tril(np.ones((LENGTH, LENGTH), bool)),
        "masked": x[1][:, None],
    }
    truth = {
        path: attention_truth(scores_of(model, path, np.float64(x[0])), masks.get(path))
        for path in PATHS
    }
    kept = Kept()
    callbacks = []
    if watch:
        monitor = gradwatch.Monitor(watch=watch, sinks=[kept], diagnose=False)
        callbacks = [monitor]
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
    return truth, kept.readings, model.get_weights()


def test_scores_and_entropies_are_true_and_training_is_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth, readings, weights = fitted(gradwatch.attention(every=1))
    first = readings[0]
    sites = {Site(kind, path) for kind in KINDS for path in PATHS}
    assert {site for site in first.sites if site.kind in KINDS} == sites
    for path in PATHS:
        logits, entropies = truth[path]
        for kind, true in ((Kind.ATTENTION_LOGIT, logits), (Kind.ATTENTION_ENTROPY, entropies)):
            found = first.summary[first.position[Site(kind, path)]]
            assert found.count == true.size
            for name, value in (("max", true.max()), ("min", true.min()), ("sum", true.sum())):
                shown = getattr(found, name)
                np.testing.assert_allclose(shown, value, rtol=1e-4, atol=1e-4, err_msg=path)
    _, _, bare = fitted(None)
    for own, other in zip(weights, bare, strict=True):
        if BACKEND == "jax":
            np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(own, other)


@pytest.mark.any_backend
def test_steps_that_are_not_due_call_the_layers_own_method(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = []
    own = layers.MultiHeadAttention._compute_attention

    def counted(self, *args, **kwargs):
        calls.append("_compute_attention" in vars(self))
        return own(self, *args, **kwargs)

    monkeypatch.setattr(layers.MultiHeadAttention, "_compute_attention", counted)
    _, readings, _ = fitted([gradwatch.attention(every=2), gradwatch.gradients(every=1)])
    steps = [Site(Kind.ATTENTION_LOGIT, "masked") in reading.position for reading in readings]
    assert [is_there for is_there in steps if is_there] == [True]
    assert any(calls)
    assert not all(calls)


@pytest.mark.any_backend
def test_a_layer_that_computes_attention_by_itself_is_named(tmp_path):
    class Own(layers.MultiHeadAttention):
        def call(self, query, value, key=None, **options):
            return self._query_dense(query)[:, :, 0]

        def compute_output_shape(self, query_shape, value_shape, key_shape=None):
            return (*query_shape[:2], 1)

    x = keras.Input((5, SIZE))
    model = keras.Model(x, Own(1, 1, name="own")(x, x))
    model.compile("sgd", "mse")
    watch = [gradwatch.attention(every=1), gradwatch.gradients(every=1)]
    monitor = gradwatch.Monitor(tmp_path, watch=watch, sinks=[Kept()], diagnose=False)
    with pytest.warns(gradwatch.GradwatchWarning, match="Attention of .*own is not recorded"):
        model.fit(normal(4, 5, SIZE), normal(4, 5, 1), verbose=0, callbacks=[monitor])
