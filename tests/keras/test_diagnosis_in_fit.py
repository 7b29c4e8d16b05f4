"""The diagnosis in `fit`: what it is given, what it says, and that training goes on as ever."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from gradwatch.diagnosis import Severity, findings_file
from gradwatch.util import GradwatchWarning
from gradwatch.util.files import checked_json
from tests.distributed.patience import until_written
from tests.keras.support import classes, normal


def network(last: str = "sigmoid", loss: Any = "binary_crossentropy", rate: Any = 0.05) -> Any:
    layers = [
        keras.Input((8,)),
        keras.layers.Dense(16, "relu", name="hidden"),
        keras.layers.Dense(1, last, name="answer"),
    ]
    model = keras.Sequential(layers, name="net")
    model.compile(keras.optimizers.SGD(rate), loss)
    return model


def separable(samples: int = 320) -> tuple[np.ndarray, np.ndarray]:
    x = normal(samples, 8)
    return x, (x[:, :1] > 0).astype("float32")


def fit(model: Any, x: Any, y: Any, monitor: Any, **options: Any) -> Any:
    arguments = {"batch_size": 32, "epochs": 1, "verbose": 0, "shuffle": False} | options
    # Steps as quick as these are sooner over than recorded, on a busy machine.
    written = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: until_written(monitor))
    return model.fit(x, y, callbacks=[monitor, written], **arguments)


def test_inputs_and_targets_are_those_of_each_batch(make_monitor, no_complaint):
    x, y = separable()
    monitor, keep = make_monitor(every=1)
    fit(network(), x, y, monitor)
    for place, reading in enumerate(keep.readings):
        for kind, path, truth in ((Kind.INPUT, "input", x), (Kind.TARGET, "target", y)):
            batch = truth[32 * place : 32 * (place + 1)].astype("float64")
            row = reading.summary[reading.position[gradwatch.Site(kind, path)]]
            assert row.count == batch.size
            np.testing.assert_allclose(row.sum, batch.sum(), rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(row.sum_squares, (batch**2).sum(), rtol=1e-5)
            assert row.min == batch.min()
            assert row.max == batch.max()


@pytest.mark.any_backend
def test_integer_labels_and_named_inputs_are_summarised_too(make_monitor, no_complaint):
    a, b = keras.Input((4,), name="left"), keras.Input((2,), name="right")
    answer = keras.layers.Dense(5, "softmax")(keras.layers.Concatenate()([a, b]))
    model = keras.Model({"left": a, "right": b}, answer)
    model.compile("sgd", "sparse_categorical_crossentropy")
    data = {"left": normal(32, 4), "right": normal(32, 2, seed=3)}
    labels = classes(5, 32)
    monitor, keep = make_monitor(every=1)
    fit(model, data, labels, monitor)
    numbers = {
        str(site): keep.readings[0].summary[i]
        for i, site in enumerate(keep.readings[0].sites)
        if site.kind.is_of_batch
    }
    assert set(numbers) == {"input input/left", "input input/right", "target target"}
    assert numbers["target target"].max == labels.max()
    np.testing.assert_allclose(numbers["target target"].sum, labels.sum(), rtol=1e-6)
    np.testing.assert_allclose(
        numbers["input input/right"].sum_squares, (data["right"].astype("float64") ** 2).sum(),
        rtol=1e-5,
    )  # fmt: skip


def test_the_loss_is_that_of_the_batch_not_the_mean_so_far(make_monitor):
    x, y = separable()
    model = network(rate=0.0)
    monitor, keep = make_monitor(every=1)
    fit(model, x, y, monitor)
    answers = np.asarray(model.predict(x, verbose=0), "float64")
    truth = -(y * np.log(answers) + (1 - y) * np.log(1 - answers))
    losses = [reading.losses()["loss"] for reading in keep.readings]
    np.testing.assert_allclose(losses, truth.reshape(-1, 32).mean(1), rtol=1e-4)


def test_the_learning_rate_of_a_schedule_is_that_of_the_step(make_monitor):
    rates = keras.optimizers.schedules.PiecewiseConstantDecay([3, 6], [0.1, 0.01, 0.001])
    monitor, keep = make_monitor(every=1)
    fit(network(rate=rates), *separable(), monitor)
    told = [reading.numbers(Kind.SCALAR)["learning_rate"] for reading in keep.readings]
    truth = [0.1] * 4 + [0.01] * 3 + [0.001] * 3
    np.testing.assert_allclose(told, truth, rtol=1e-6)
    sizes = {round(reading.numbers(Kind.SCALAR)["batch_size"]) for reading in keep.readings}
    assert sizes == {32}


@pytest.mark.parametrize("has_columns", [True, False])
def test_how_outputs_go_with_targets_is_told_where_the_loss_is_the_users_own(
    make_monitor, has_columns
):
    def error(y, answer):
        return keras.ops.mean(keras.ops.square(y - answer), axis=-1)

    x, y = separable(64)
    x[32:] = x[32]
    model = network(loss=error, rate=0.0)
    monitor, keep = make_monitor(every=1)
    fit(model, x, y if has_columns else y[:, 0], monitor)
    answers = np.asarray(model.predict(x[:32], verbose=0), "float64")
    first, second = (reading.numbers(Kind.SCALAR) for reading in keep.readings)
    truth = np.corrcoef(y[:32, 0], answers[:, 0])[0, 1]
    np.testing.assert_allclose(first["agreement"], truth, rtol=1e-3)
    np.testing.assert_allclose(first["input_spread"], np.abs(x[:8] - x[0]).max(), rtol=1e-6)
    assert second["input_spread"] == 0
    monitor, keep = make_monitor(every=1)
    fit(network(), x, y, monitor)
    assert "agreement" not in keep.readings[0].numbers(Kind.SCALAR)


def test_a_loss_of_the_users_own_over_all_pairs_of_a_batch_is_found(make_monitor):
    def error(y, answer):
        return keras.ops.mean(keras.ops.square(keras.ops.reshape(y, (-1,)) - answer), axis=-1)

    monitor, _ = make_monitor(every=1)
    fit(network(loss=error), *separable(256), monitor)
    [finding] = [each for each in monitor.findings if each.rule == "structural-mismatch"]
    assert "over all pairs" in finding.title


@pytest.mark.any_backend
def test_a_healthy_training_is_left_in_peace(make_monitor, no_complaint, capsys):
    monitor, _ = make_monitor(every=1)
    fit(network(), *separable(640), monitor, epochs=4)
    assert monitor.findings == []
    assert capsys.readouterr().out == ""
    assert findings_file.read(monitor.directory).findings == []


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis:UserWarning")
@pytest.mark.any_backend
def test_a_softmax_over_one_unit_is_said_once_and_kept_in_the_run(make_monitor):
    heard: list[gradwatch.Finding] = []
    monitor, _ = make_monitor(every=1, on_finding=heard.append)
    with pytest.warns(GradwatchWarning) as said:  # Keras is told to be quiet.
        fit(network("softmax"), *separable(), monitor, epochs=3)
    alarm = "gradwatch · error: Softmax over one unit is always 1"
    assert [alarm in str(each.message) for each in said].count(True) == 1
    assert [each.rule for each in heard] == ["structural-mismatch"]
    [root] = [
        each for each in findings_file.read(monitor.directory).findings if not each.explained_by
    ]
    assert (root.rule, root.layer, root.since) == ("structural-mismatch", "net/answer", 1)
    rules = {each.rule for each in monitor.findings}
    assert "structural-mismatch" in rules
    # On TensorFlow, Keras takes the logits of the softmax for those of a sigmoid, and trains.
    assert ("zero-gradients" in rules) == (keras.backend.backend() != "tensorflow")


def spoiled(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Batches of 32 of which that of one step holds NaN, and no loss that refuses it."""
    x, y = separable()
    x[32 * (step - 1)] = np.nan
    return x, y


def test_nan_is_named_by_its_step_and_its_first_tensor(make_monitor):
    monitor, _ = make_monitor(every=1)
    fit(network("linear", "mse"), *spoiled(step=4), monitor)
    [finding] = [each for each in monitor.findings if not each.explained_by]
    assert finding.rule == "non-finite"
    assert finding.since == 4
    assert str(finding.sites[0]) == "input input"


def test_nan_in_a_step_that_is_not_measured_is_found_by_its_loss(make_monitor):
    monitor, keep = make_monitor(every=[2, 10])
    fit(network("linear", "mse"), *spoiled(step=4), monitor)
    assert {2, 10} <= set(keep.steps)
    [finding] = [each for each in monitor.findings if not each.explained_by]
    # Where relu turns NaN into 0, as XLA may, the loss is finite.
    if finding.since != 10:
        assert finding.since == 4
        assert finding.title.startswith("NaN in")


@pytest.mark.any_backend
def test_the_flight_recorder_keeps_the_steps_before_nan(make_monitor):
    monitor, keep = make_monitor(every=1)
    fit(network("linear", "mse"), *spoiled(step=4), monitor)
    content = checked_json.read(monitor.directory / "flight-4.json")
    assert [each["step"] for each in content["readings"]] == [1, 2, 3, 4]
    rows = np.array(content["readings"][1]["rows"], float)
    np.testing.assert_array_equal(rows, keep.readings[1].summary.pack())


def test_training_stops_after_an_error_when_asked_to(make_monitor):
    monitor, _ = make_monitor(every=1, stop_on="error")
    x, y = spoiled(step=2)
    history = fit(network("linear", "mse"), x, y, monitor, epochs=50)
    assert len(history.history["loss"]) < 50
    other, _ = make_monitor(every=1)
    history = fit(network("linear", "mse"), x, y, other, epochs=3)
    assert len(history.history["loss"]) == 3


@pytest.mark.any_backend
def test_a_rule_and_a_function_that_raise_do_not_reach_training(make_monitor, caplog):
    @gradwatch.diagnosis.rule("broken")
    def broken(history):
        raise ZeroDivisionError("of the rule")

    def no_good(finding):
        raise RuntimeError("of the function")

    try:
        monitor, keep = make_monitor(every=1, on_finding=no_good)
        fit(network("linear", "mse"), *spoiled(step=4), monitor)
    finally:
        from gradwatch.diagnosis.rule import RULES

        del RULES["broken"]
    assert keep.steps == list(range(1, 11))
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "'broken' failed and is switched off" in said
    assert "of the function" in said


def test_weights_are_the_same_with_and_without_the_diagnosis(make_monitor, backend):
    results = []
    for diagnose in (True, False):
        keras.utils.set_random_seed(3)
        model = network()
        monitor, _ = make_monitor(every=2, diagnose=diagnose)
        fit(model, *separable(), monitor, epochs=2)
        results.append([np.asarray(keras.ops.convert_to_numpy(v)) for v in model.weights])
    for one, other in zip(*results, strict=True):
        # Under XLA a measured step may be fused differently.
        np.testing.assert_allclose(one, other, rtol=0 if backend == "torch" else 1e-5)


@pytest.mark.any_backend
def test_only_what_is_watched_is_recorded_where_that_is_said(make_monitor):
    monitor, keep = make_monitor(every=1, diagnose=False)
    fit(network(), *separable(), monitor)
    assert {site.kind for site in keep.readings[0].sites} == {Kind.WEIGHT, Kind.GRADIENT}
    monitor, keep = make_monitor(every=1, watch=gradwatch.gradients())
    fit(network(), *separable(), monitor)
    assert {site.kind for site in keep.readings[0].sites} == {Kind.GRADIENT}


@pytest.mark.filterwarnings("ignore:.*received `from_logits=True`:UserWarning")
def test_the_facts_of_the_model_are_in_the_run(make_monitor):
    monitor, _ = make_monitor(
        every=1, diagnose=[gradwatch.silence("imbalance", "hidden", because="meant to be")]
    )
    fit(network(loss=keras.losses.BinaryCrossentropy(from_logits=True)), *separable(), monitor)
    told = json.loads((monitor.directory / "run.json").read_text())
    facts = gradwatch.diagnosis.ModelFacts.from_json(told["model"])
    assert [layer.path for layer in facts.layers] == ["net/hidden", "net/answer"]
    assert [layer.activation for layer in facts.layers] == ["relu", "sigmoid"]
    assert [layer.units for layer in facts.layers] == [16, 1]
    assert (facts.loss.name, facts.loss.from_logits) == ("binary_crossentropy", True)
    assert facts.optimizer.name == "sgd"
    np.testing.assert_allclose(facts.optimizer.learning_rate, 0.05, rtol=1e-6)
    assert told["diagnose"]["silences"][0]["because"] == "meant to be"


@pytest.mark.any_backend
def test_wrong_settings_are_refused_when_the_monitor_is_made(tmp_path):
    with pytest.raises(ValueError, match=r"There is no rule 'dead-unit'\. There are: dead-units"):
        gradwatch.Monitor(tmp_path, diagnose=["dead-unit"])
    with pytest.raises(ValueError, match="stop_on must be 'info', 'warning', 'error' or None"):
        gradwatch.Monitor(tmp_path, stop_on="fatal")
    with pytest.raises(TypeError, match="diagnose takes True, False, or a list"):
        gradwatch.Monitor(tmp_path, diagnose=[3])


@pytest.mark.any_backend
def test_assert_trains_says_what_is_wrong():
    from gradwatch.testing import assert_trains

    x, y = separable()
    assert assert_trains(network(), x, y, steps=30) == []
    with pytest.raises(AssertionError, match="NaN in step 4, first in input input"):
        assert_trains(network("linear", "mse"), *spoiled(step=4), steps=8, shuffle=False)
    assert Severity.ERROR.rank > Severity.WARNING.rank
