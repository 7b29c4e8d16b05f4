"""`gradwatch.inspect`: the gradients of one batch, and nothing changed by looking."""

from __future__ import annotations

import json
import random
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import Kind, Site
from gradwatch.capture.keras.layers import inside_recurrent, model_layers
from tests.keras.models import CASES
from tests.keras.output_truth import true_outputs
from tests.keras.support import State, classes, normal
from tests.keras.truth import batch_of, gradients_of, statistics, unique_paths
from tests.keras.ways import from_keras, mostly_on_torch

BACKEND = keras.backend.backend()
MODELS = [
    "sequential_mlp",
    "sequential_cnn_with_batch_norm",
    "functional_two_inputs_two_outputs",
    "functional_in_sequential_in_subclassed",
    "layer_used_twice",
    "embedding_with_repeated_indices_and_mask",
    "frozen_layers",
    "weight_that_the_loss_does_not_touch",
    "lstm",
    "dropout_and_gaussian_noise",
    "regularizers_and_constraints",
    "sample_weight",
]
EVERYWHERE = (
    "sequential_cnn_with_batch_norm",
    "layer_used_twice",
    "embedding_with_repeated_indices_and_mask",
    "weight_that_the_loss_does_not_touch",
)


def close(found: Any, true: Any, what: str) -> None:
    np.testing.assert_allclose(
        found, true, rtol=1e-5, atol=1e-5 * np.abs(true).max(initial=0.0), err_msg=what
    )


@pytest.mark.parametrize("name", mostly_on_torch(MODELS, EVERYWHERE))
def test_the_gradients_are_the_true_ones(name: str) -> None:
    case = CASES[name]()
    model = case.build()
    x, y, sample_weight = batch_of(case, 0)
    model(x)
    state = State.of(model)
    found = gradwatch.inspect(model, x, y, sample_weight=sample_weight, show=False)
    unchanged(model, state)

    gradients = gradients_of(model)(state, (x, y, sample_weight))
    paths = {id(v): path for path, v in unique_paths(model).items()}
    for variable, gradient in zip(model.trainable_weights, gradients, strict=True):
        path = paths[id(variable)]
        if gradient is None or not np.any(gradient):
            assert path in case.untouched
        else:
            close(found.numpy(path), gradient, path)
    cells = inside_recurrent(model)
    known = {m.path: m.layer for m in model_layers(model) if id(m.layer) not in cells}
    for path, (output, gradient) in true_outputs(
        model, known, state, (x, y, sample_weight)
    ).items():
        close(found.numpy(Site(Kind.OUTPUT, path)), output, path)
        if np.any(gradient):
            close(found.numpy(path), gradient, path)


def unchanged(model: Any, state: State) -> None:
    for now, before in zip(State.of(model).values, state.values, strict=True):
        np.testing.assert_array_equal(now, before)


def make() -> Any:
    model = keras.Sequential(
        [
            keras.Input((6,), name="features"),
            layers.Dense(8, "relu", name="first"),
            layers.BatchNormalization(name="norm"),
            layers.Dropout(0.4, name="drop"),
            layers.Dense(3, name="last"),
        ],
        name="net",
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


X, Y = normal(8, 6), classes(3, 8)


def seed() -> None:
    keras.utils.set_random_seed(5)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        tf.random.get_global_generator().reset_from_seed(5)


def drawn() -> list[float]:
    """What every random generator in reach gives next."""
    numbers = [random.random(), np.random.rand()]
    numbers.append(float(keras.ops.convert_to_numpy(keras.random.uniform(()))))
    if BACKEND == "tensorflow":
        import tensorflow as tf

        numbers += [
            float(tf.random.uniform(())),
            float(tf.random.get_global_generator().normal(())),
        ]
    if BACKEND == "torch":
        import torch

        numbers.append(float(torch.rand(())))
    return numbers


def everything(model: Any) -> list[np.ndarray]:
    """All that the model, its optimizer and its metrics hold."""
    held = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return [np.array(keras.ops.convert_to_numpy(v)) for v in held]


@from_keras(3, 10, why="draws on after set_random_seed")
@pytest.mark.parametrize("training", [True, False])
def test_twice_gives_the_same_and_leaves_everything_as_it_was(training: bool) -> None:
    model = make()
    model.fit(X, Y, batch_size=4, verbose=0)
    before, attributes = everything(model), set(vars(model))
    inner = [set(vars(layer)) for layer in model.layers]
    seed()
    untouched = drawn()
    seed()
    first = gradwatch.inspect(model, X, Y, training=training, show=False)
    second = gradwatch.inspect(model, X, Y, training=training, show=False)
    assert drawn() == untouched
    assert json.dumps(first.to_dict()) == json.dumps(second.to_dict())
    for entry in first.entries:
        if entry.summary is not None:
            np.testing.assert_array_equal(first.numpy(entry.site), second.numpy(entry.site))
    for now, then in zip(everything(model), before, strict=True):
        np.testing.assert_array_equal(now, then)
    assert set(vars(model)) == attributes
    assert [set(vars(layer)) for layer in model.layers] == inner


def test_training_goes_on_as_if_nobody_had_looked() -> None:
    left = []
    for looking in (True, False):
        keras.utils.clear_session()
        keras.utils.set_random_seed(3)
        model = make()
        model.fit(X, Y, batch_size=4, verbose=0)
        if looking:
            gradwatch.inspect(model, X, Y, show=False)
        history = model.fit(X, Y, batch_size=4, verbose=0).history
        left.append((everything(model), history))
    assert left[0][1] == left[1][1]
    for ours, theirs in zip(left[0][0], left[1][0], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_training_and_prediction_differ_by_dropout_and_normalization() -> None:
    model = make()
    as_trained = gradwatch.inspect(model, X, Y, show=False)
    as_used = gradwatch.inspect(model, X, Y, training=False, show=False)
    expected = model.evaluate(X, Y, batch_size=8, verbose=0)[0]
    assert as_used.loss == pytest.approx(expected, rel=1e-5)
    assert as_trained.loss != pytest.approx(expected, rel=1e-3)


@pytest.mark.any_backend
def test_layers_are_chosen_and_each_weight_and_output_is_shown() -> None:
    found = gradwatch.inspect(make(), X, Y, layers=["first", "norm"], show=False)
    assert [str(entry.site) for entry in found.entries] == [
        "gradient net/first/kernel",
        "gradient net/first/bias",
        "output_gradient net/first",
        "gradient net/norm/gamma",
        "gradient net/norm/beta",
        "gradient net/norm/moving_mean",
        "gradient net/norm/moving_variance",
        "output_gradient net/norm",
    ]
    kernel = found.entries[0]
    assert (kernel.shape, kernel.dtype, kernel.layer_type) == ((6, 8), "float32", "Dense")
    true = statistics(found.numpy(kernel.site))
    for name, value in kernel.statistics().items():
        assert value == pytest.approx(true[name], rel=1e-6, abs=1e-9), name
    assert kernel.first_values == tuple(found.numpy(kernel.site).reshape(-1)[:5].tolist())
    assert [entry.trainable for entry in found.entries].count(False) == 2


@pytest.mark.any_backend
def test_a_recurrent_layer_chosen_by_type_shows_its_cells_weights() -> None:
    case = CASES["lstm"]()
    found = gradwatch.inspect(case.build(), *batch_of(case, 0)[:2], layers=layers.LSTM, show=False)
    paths = [entry.site.path for entry in found.entries]
    assert [p.rpartition("/")[2] for p in paths] == ["kernel", "recurrent_kernel", "bias", "lstm"]


@pytest.mark.any_backend
def test_a_given_loss_replaces_the_compiled_one() -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1, name="d")], name="net")
    model.set_weights([np.array([[1.0], [2.0]]), np.array([0.5])])
    x, y = [[1.0, 1.0], [0.0, 1.0]], [[0.0], [0.5]]
    errors = np.array([3.5, 2.0])
    for loss in ("mse", keras.losses.MeanSquaredError(), keras.losses.mean_squared_error):
        found = gradwatch.inspect(model, x, y, loss=loss, show=False)
        assert found.loss == pytest.approx((errors**2).mean())
        np.testing.assert_allclose(found.numpy("net/d").reshape(-1), errors, rtol=1e-6)
    summed = gradwatch.inspect(
        model, x, y, loss=lambda t, p: keras.ops.sum((t - p) ** 2), show=False
    )
    np.testing.assert_allclose(summed.numpy("net/d/bias"), [2 * errors.sum()], rtol=1e-6)
    weighed = gradwatch.inspect(
        model, x, y, loss="mse", sample_weight=np.array([1.0, 0.0]), show=False
    )
    np.testing.assert_allclose(weighed.numpy("net/d").reshape(-1), [3.5, 0.0], rtol=1e-6)


@pytest.mark.any_backend
def test_several_inputs_and_outputs_take_a_loss_for_each() -> None:
    case = CASES["functional_two_inputs_two_outputs"]()
    model = case.build()
    x, y, _ = batch_of(case, 0)
    loss = {"price": "mse", "kind": "sparse_categorical_crossentropy"}
    both = gradwatch.inspect(model, x, y, loss=loss, show=False)
    price = gradwatch.inspect(model, x, y, loss={"price": "mse", "kind": None}, show=False)
    assert both.loss > price.loss > 0
    np.testing.assert_allclose(both.numpy("price"), price.numpy("price"), rtol=1e-6)
    with pytest.raises(ValueError, match=r"loss with the outputs.*price.*Received: prize"):
        gradwatch.inspect(model, x, y, loss={"prize": "mse"}, show=False)


@pytest.mark.any_backend
def test_an_unbuilt_model_is_built_on_the_batch() -> None:
    model = keras.Sequential([layers.Dense(3, "relu", name="a"), layers.Dense(1, name="b")])
    model.compile("sgd", "mse")
    found = gradwatch.inspect(model, X, normal(8, 1), show=False)
    assert [e.shape for e in found.entries] == [(6, 3), (3,), (8, 3), (3, 1), (1,), (8, 1)]
