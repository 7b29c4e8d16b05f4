"""The gates of recurrent layers as sites of their own."""

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from tests.keras.support import Keep
from tests.keras.ways import mostly_on_torch

GATES = {
    "lstm": ["input", "forget", "cell", "output"],
    "gru": ["update", "reset", "candidate"],
}
LAYERS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}


@pytest.mark.parametrize("name", mostly_on_torch(GATES, ["lstm"]))
def test_each_gate_of_each_variable_is_measured_as_its_slice(name, tmp_path):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((5, 3)), LAYERS[name](4, name=name), keras.layers.Dense(1)], name="net"
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 5, 3)).astype("float32"), rng.normal(size=(8, 1)).astype("float32")
    before = {v.path: keras.ops.convert_to_numpy(v.value) for v in model.trainable_variables}
    keep = Keep({Kind.LOSS, Kind.SCALAR})
    watch = [gradwatch.weights(f"{name}/*[*]"), gradwatch.gradients(f"{name}/*/*[*]")]
    monitor = gradwatch.Monitor(tmp_path, every=1, watch=watch, sinks=[keep])
    model.fit(x, y, batch_size=8, epochs=1, verbose=0, callbacks=[monitor])
    (reading,) = keep.readings
    recurrent = [v for v in model.trainable_variables if name in v.path]
    assert len(reading) == 2 * len(recurrent) * len(GATES[name])
    for variable in recurrent:
        after = keras.ops.convert_to_numpy(variable.value).astype(float)
        # With plain SGD the step's gradient is the change over the learning rate.
        gradient = (before[variable.path].astype(float) - after) / 0.1
        parts = len(GATES[name])
        for i, gate in enumerate(GATES[name]):
            for kind, whole in ((Kind.WEIGHT, after), (Kind.GRADIENT, gradient)):
                truth = np.split(whole, parts, axis=-1)[i]
                row = reading.position[Site(kind, f"{variable.path}[{gate}]")]
                got = {n: float(reading.statistic(n)[row]) for n in ("count", "l2", "sum")}
                assert got["count"] == truth.size
                assert got["l2"] == pytest.approx(np.linalg.norm(truth), rel=1e-4, abs=1e-7)
                assert got["sum"] == pytest.approx(truth.sum(), rel=1e-3, abs=1e-5)


@pytest.mark.any_backend
def test_gates_are_measured_only_on_request_and_never_counted_twice(tmp_path):
    model = keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(4, name="lstm")], name="net")
    model.compile("sgd", "mse")
    keep = Keep()
    watch = [gradwatch.weights(), gradwatch.weights("lstm/kernel[forget]")]
    monitor = gradwatch.Monitor(tmp_path, every=1, watch=watch, sinks=[keep])
    model.fit(np.ones((4, 5, 3)), np.ones((4, 4)), verbose=0, callbacks=[monitor])
    (reading,) = keep.readings
    assert [s.path for s in reading.sites if s.is_slice] == ["net/lstm/lstm_cell/kernel[forget]"]
    assert reading.total(Kind.WEIGHT).count == model.count_params()
    assert reading.layers(Kind.WEIGHT)["net/lstm/lstm_cell"].count == model.count_params()


@pytest.mark.any_backend
def test_a_gate_that_does_not_exist_lists_those_that_do(tmp_path):
    model = keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(4, name="lstm")], name="net")
    model.compile("sgd", "mse")
    monitor = gradwatch.Monitor(tmp_path, watch=[gradwatch.weights("lstm/*/kernel[forgot]")])
    with pytest.raises(ValueError, match=r"kernel\[forgot\].*kernel\[forget\]"):
        model.fit(np.ones((4, 5, 3)), np.ones((4, 4)), verbose=0, callbacks=[monitor])


@pytest.mark.any_backend
def test_attention_has_its_query_key_value_and_output_apart():
    inputs = keras.Input((5, 8))
    attention = keras.layers.MultiHeadAttention(2, 4, name="attention")
    model = keras.Model(inputs, attention(inputs, inputs), name="net")
    paths = {i.path for i in gradwatch.sites(model)}
    for part in ("query", "key", "value", "attention_output"):
        assert f"attention/{part}/kernel" in paths
