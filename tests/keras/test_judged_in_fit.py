"""Whether `fit` learns: faulty programs are named, and their healthy twins are left in peace."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import Kind
from tests.distributed.patience import until_written
from tests.keras.support import Keep


def table(samples: int = 480) -> tuple[Any, Any, Any]:
    """Ten columns, a yes or no that depends on three of them, and a value."""
    x = np.random.default_rng(0).standard_normal((samples, 10)).astype("f")
    return x, (x[:, :1] + x[:, 1:2] * x[:, 2:3] > 0).astype("f"), np.sin(2 * x[:, :1]) + x[:, 1:2]


def perceptron(units: int = 1, last: str = "sigmoid", **options: Any) -> Any:
    keras.utils.set_random_seed(1)
    hidden = [layers.Dense(24, "relu", **options) for _ in range(2)]
    return keras.Sequential([*hidden, layers.Dense(units, last)])


def watched(model: Any, x: Any, y: Any, epochs: int = 8, **options: Any) -> Any:
    """The monitor of a training, and its readings."""
    keep = Keep()
    monitor = gradwatch.Monitor(None, every=1, sinks=[keep], on_finding=lambda finding: None)
    fit(model, x, y, [monitor], epochs=epochs, **options)
    return monitor, keep.readings


def fit(model: Any, x: Any, y: Any, callbacks: list[Any], **options: Any) -> None:
    # Steps as quick as these are sooner over than recorded, on a busy machine.
    written = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: until_written(callbacks[0]))
    model.fit(x, y, batch_size=32, verbose=0, callbacks=[*callbacks, written], **options)


def alarms(monitor: Any) -> set[str]:
    return {
        each.rule for each in monitor.findings if each.severity != "info" and not each.explained_by
    }


def two_heads(loss: Any, **options: Any) -> Any:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((10,))
    hidden = layers.Dense(32, "relu")(layers.Dense(32, "relu")(inputs))
    answer = layers.Dense(1, "sigmoid", name="answer")(hidden)
    model = keras.Model(inputs, {"answer": answer, "value": layers.Dense(1, name="value")(hidden)})
    model.compile(keras.optimizers.Adam(5e-3), loss, **options)
    return model


def entropy(share: float) -> float:
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def test_the_guess_of_each_output_and_what_is_added_are_those_of_the_batch() -> None:
    x, yes, value = table(96)
    model = two_heads({"answer": "binary_crossentropy", "value": "mse"},
                      loss_weights={"answer": 1.0, "value": 0.5})  # fmt: skip
    model.get_layer("value").kernel.regularizer = keras.regularizers.L2(0.3)
    model.optimizer.learning_rate = 0.0
    _, readings = watched(model, x, {"answer": yes, "value": value}, 1, shuffle=False)
    kernel = np.asarray(keras.ops.convert_to_numpy(model.get_layer("value").kernel), "f8")
    predicted = {name: np.asarray(own, "f8") for name, own in model.predict(x, verbose=0).items()}
    for step, reading in enumerate(readings):
        batch, told = slice(32 * step, 32 * step + 32), reading.numbers(Kind.SCALAR)
        share, spread = yes[batch].astype("f8").mean(), value[batch].astype("f8").var()
        error = np.mean((predicted["value"][batch] - value[batch]) ** 2)
        truth = {
            "constant_loss/answer": entropy(share),
            "constant_loss/value": 0.5 * spread,
            "constant_loss": entropy(share) + 0.5 * spread,
            "output_loss/value": 0.5 * error,
            "added_loss": 0.3 * np.sum(kernel**2),
        }
        np.testing.assert_allclose([told[name] for name in truth], [*truth.values()], rtol=1e-4)
        rest = told["output_loss/answer"] + told["output_loss/value"] + told["added_loss"]
        np.testing.assert_allclose(reading.losses()["loss"], rest, rtol=1e-4)


@pytest.mark.any_backend
@pytest.mark.parametrize(
    ("name", "given", "truth"),
    [
        ("log_cosh", lambda y: y, lambda y: np.log(np.cosh(y - y.mean())).mean()),
        ("mean_squared_logarithmic_error", np.abs, lambda y: np.log1p(np.abs(y)).var()),
    ],
)
def test_the_guess_of_other_losses_is_that_of_the_batch(name: str, given: Any, truth: Any) -> None:
    x, _, value = table(32)
    model = perceptron(last="softplus")
    model.compile("sgd", name)
    _, readings = watched(model, x, given(value), 1)
    told = readings[0].numbers(Kind.SCALAR)["constant_loss"]
    assert told == pytest.approx(truth(value.astype("f8")), rel=1e-4)


@pytest.mark.any_backend
def test_the_guess_knows_smoothed_labels() -> None:
    x, yes, _ = table(32)
    two, share = np.hstack([yes, 1 - yes]), float(yes.mean())
    for loss, y in (
        (keras.losses.CategoricalCrossentropy(label_smoothing=0.2), two),
        (keras.losses.BinaryCrossentropy(label_smoothing=0.2), yes),
    ):
        model = perceptron(y.shape[1])
        model.compile("sgd", loss)
        _, readings = watched(model, x, y, 1)
        told = readings[0].numbers(Kind.SCALAR)["constant_loss"]
        assert told == pytest.approx(entropy(0.8 * share + 0.1), rel=1e-4)


@pytest.mark.any_backend
@pytest.mark.parametrize("factor", [3.0, 3e-3])
def test_regularization_that_outweighs_the_loss_is_no_progress(factor: float) -> None:
    x, yes, _ = table()
    model = perceptron(kernel_regularizer=keras.regularizers.L2(factor))
    model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy")
    monitor, _ = watched(model, x, yes, 10, validation_split=0.2)
    if factor > 1:
        assert monitor.verdict.word == "learned nothing"
        assert "structural-mismatch" in alarms(monitor)
        titles = [each.title for each in monitor.findings if each.rule == "structural-mismatch"]
        assert titles[0].startswith("Regularization outweighs the loss")
    else:
        assert monitor.verdict.word == "learned"
        assert monitor.verdict.evidence["regularization"] > 0
        assert alarms(monitor) == set()


@pytest.mark.any_backend
@pytest.mark.parametrize("is_faulty", [True, False])
def test_an_output_of_several_that_learns_nothing_is_named(is_faulty: bool) -> None:
    x, yes, value = table(2880)
    if is_faulty:
        yes = np.random.default_rng(5).permutation(yes)
    model = two_heads({"answer": "binary_crossentropy", "value": "mse"})
    monitor, _ = watched(model, x, {"answer": yes, "value": value}, 1)
    found = [each.title for each in monitor.findings if each.rule == "learned-nothing"]
    if is_faulty:
        assert len(found) == 1
        assert found[0].startswith("The output answer has learned nothing in 90 steps")
    else:
        assert found == []
        assert monitor.verdict.word in ("learned", "still learning")


@pytest.mark.any_backend
def test_inputs_that_are_all_zero_are_named_and_not_the_units_that_they_leave_silent() -> None:
    x, yes, _ = table()
    model = perceptron()
    model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy")
    monitor, _ = watched(model, np.zeros_like(x), yes, 5)
    assert alarms(monitor) == {"constant-output"}


@pytest.mark.any_backend
@pytest.mark.parametrize("momentum", [0.9999, 0.9])
def test_statistics_of_a_normalization_that_lag_behind_are_said(momentum: float) -> None:
    x, yes, _ = table()
    keras.utils.set_random_seed(1)
    norm = layers.BatchNormalization(momentum=momentum, name="norm")
    model = keras.Sequential(
        [keras.Input((10,)), layers.Dense(24, "relu"), norm, layers.Dense(1, "sigmoid")]
    )
    model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy")
    monitor, _ = watched(model, 5 + 3 * x, yes, 8)
    assert alarms(monitor) == ({"structural-mismatch"} if momentum > 0.99 else set())
    found = [each for each in monitor.findings if each.rule == "structural-mismatch"]
    assert [each.layer.rpartition("/")[2] for each in found] == ["norm"] * len(found)


@pytest.mark.any_backend
@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_a_network_without_non_linearity_is_warned_of_if_little_is_learned(activation: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((480, 2)).astype("f")
    y = np.cos(2 * x[:, :1]) + 0.2 * x[:, 1:]
    keras.utils.set_random_seed(1)
    hidden = [layers.Dense(24, activation) for _ in range(2)]
    model = keras.Sequential([keras.Input((2,)), *hidden, layers.Dense(1)])
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    monitor, _ = watched(model, x, y, 10)
    assert alarms(monitor) == ({"structural-mismatch"} if activation == "linear" else set())


@pytest.mark.any_backend
def test_linear_layers_that_learn_are_left_in_peace() -> None:
    x, _, _ = table()
    y = x[:, :2] @ np.array([[1.0], [-2.0]], "f")
    model = keras.Sequential([keras.Input((10,)), layers.Dense(4), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    monitor, _ = watched(model, x, y, 10)
    assert alarms(monitor) == set()


class Freeze(keras.callbacks.Callback):
    """Freezes layers before a step."""

    def __init__(self, names: set[str], step: int) -> None:
        super().__init__()
        self.names, self.left = names, step

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.left -= 1
        for layer in self.model.layers if self.left == 0 else ():
            layer.trainable = layer.name not in self.names


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="steps are compiled once")
@pytest.mark.filterwarnings("ignore:The model does not have any trainable weights:UserWarning")
@pytest.mark.parametrize("is_all", [True, False])
def test_layers_that_are_all_frozen_on_the_way_are_said(is_all: bool) -> None:
    x, yes, _ = table()
    keras.utils.set_random_seed(1)
    names = ("first", "second", "last")
    units = zip((24, 24, 1), ("relu", "relu", "sigmoid"), names, strict=True)
    own = [layers.Dense(size, activation, name=name) for size, activation, name in units]
    model = keras.Sequential([keras.Input((10,)), *own])
    model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy")
    keep = Keep()
    monitor = gradwatch.Monitor(None, every=1, sinks=[keep], on_finding=lambda finding: None)
    freeze = Freeze(set(names) if is_all else {"first"}, 8)
    fit(model, x, yes, [monitor, freeze], epochs=6)
    found = [each for each in monitor.findings if each.rule == "stalled-weights"]
    assert [each.since for each in found] == ([8] if is_all else [])
    if not is_all:
        assert alarms(monitor) == set()


@pytest.mark.any_backend
@pytest.mark.parametrize("is_faulty", [True, False])
def test_the_loss_of_weighted_classes_is_compared_with_the_guess_for_these(is_faulty: bool) -> None:
    x, _, _ = table(640)
    rare = (x[:, :1] + x[:, 1:2] > 2.0).astype("f")
    shown = np.random.default_rng(7).permutation(rare) if is_faulty else rare
    model = perceptron()
    model.compile(keras.optimizers.Adam(1e-4 if is_faulty else 5e-3), "binary_crossentropy")
    monitor, readings = watched(model, x, shown, 8, class_weight={0: 1.0, 1: 12.0})
    weight = float(np.where(rare == 1, 12.0, 1.0).mean())
    told = [reading.numbers(Kind.SCALAR).get("sample_weight") for reading in readings]
    assert np.mean([each for each in told if each is not None]) == pytest.approx(weight, rel=1e-4)
    weights, yes = np.where(rare == 1, 12.0, 1.0), float(12.0 * rare.mean() / weight)
    guess = -float((weights * np.log(np.where(rare == 1, yes, 1.0 - yes))).mean())
    # Of small batches with one or two of the rare class, another one is the best for each.
    known = monitor.verdict.evidence["loss of the best constant guess"]
    assert 0.8 * guess < known < 1.02 * guess
    if is_faulty:
        assert monitor.verdict.word != "learned"
        assert alarms(monitor)
    else:
        assert monitor.verdict.word == "learned"
        assert alarms(monitor) == set()
