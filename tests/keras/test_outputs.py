"""Outputs of layers, and the gradients with respect to them, in `fit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import Kind, Reading, Site
from gradwatch.capture.keras.layers import inside_recurrent, model_layers
from gradwatch.core import STATISTICS
from gradwatch.core.select import SelectionError
from tests.keras.cases import BATCH
from tests.keras.models import CASES
from tests.keras.output_truth import true_outputs
from tests.keras.support import State, StatesOfSteps, normal, seed_everything
from tests.keras.truth import assert_cells, assert_statistics, batch_of, initial_state
from tests.keras.ways import (
    BACKEND,
    EAGERLY,
    OWN_WAYS,
    WAYS,
    combinations,
    mostly_on_torch,
    usual_way_first,
)

MODELS = [
    "sequential_mlp",
    "sequential_cnn_with_batch_norm",
    "functional_two_inputs_two_outputs",
    "subclassed_unbuilt_before_fit",
    "functional_in_sequential_in_subclassed",
    "layer_used_twice",
    "embedding_with_repeated_indices_and_mask",
    "frozen_layers",
    "weight_that_the_loss_does_not_touch",
    "lstm",
    "dropout_and_gaussian_noise",
    "small_transformer",
    "two_layers_of_one_name",
]
# Where the backward pass of training does not go: no gradient is recorded.
UNREACHED = {
    "frozen_layers": {"sequential/frozen", "sequential/frozen_norm"},
    "weight_that_the_loss_does_not_touch": {"half_used/idle"},
    # Nothing before it is trained.
    "dropout_and_gaussian_noise": {"sequential/gaussian_noise"},
}
if BACKEND == "tensorflow":
    # Keras computes the loss from the logits behind these.
    UNREACHED["functional_two_inputs_two_outputs"] = {"kind"}
    UNREACHED["embedding_with_repeated_indices_and_mask"] = {"sequential/dense"}
# These take long where JAX compiles each operation apart.
SLOW = {"small_transformer", "functional_two_inputs_two_outputs", "lstm"}
COMBINATIONS = [
    *dict.fromkeys(
        (name, "xla" if BACKEND == "jax" and name in SLOW else way)
        for name, way in combinations(MODELS)
    ),
    ("layer_used_twice", "eager"),
    ("subclassed_unbuilt_before_fit", "eager"),
]
WATCHES = [gradwatch.outputs(per_unit=True, histogram=True), gradwatch.output_gradients()]


def fit(model: Any, x: Any, y: Any, *callbacks: Any, **more: Any) -> Any:
    settings = {"batch_size": BATCH, "shuffle": False, "verbose": 0, **more}
    return model.fit(x, y, callbacks=list(callbacks), **settings)


def recorded(reading: Reading, site: Site) -> dict[str, float]:
    row = reading.position[site]
    return {name: float(reading.statistic(name)[row]) for name in STATISTICS}


def mean_of(reading: Reading, kind: Kind, path: str) -> float:
    return recorded(reading, Site(kind, path))["mean"]


@pytest.mark.parametrize(("name", "way"), mostly_on_torch(COMBINATIONS, OWN_WAYS))
def test_outputs_and_their_gradients_are_the_true_ones(
    name: str, way: str, make_monitor: Callable[..., Any]
) -> None:
    case = CASES[name]()
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    states = StatesOfSteps()
    model = case.build(**{**WAYS, "eager": EAGERLY}[way])
    fit(model, case.x, case.y, monitor, states, **case.fit)
    if len(states.before[0].values) < len(states.after[0].values):
        states.before[0] = initial_state(case)
    cells = inside_recurrent(model)
    known = {m.path: m.layer for m in model_layers(model) if id(m.layer) not in cells}
    assert keep.steps == [1, 2]
    # The first step of an unbuilt model is one of its own; elsewhere the next one will do.
    step = 0 if "subclassed" in name else 1
    with_xla = way == "xla" and case.random
    truth = true_outputs(model, known, states.before[step], batch_of(case, step), with_xla)
    check(keep.readings[step], truth, UNREACHED.get(name, set()))


def check(reading: Reading, truth: Any, unreached: set[str]) -> None:
    found = {site.path for site in reading.sites if site.kind is Kind.OUTPUT}
    assert found == set(truth)
    assert found == {s.path for s in reading.sites if s.kind is Kind.OUTPUT_GRADIENT}
    for path, (output, gradient) in truth.items():
        what = f"{path} at step {reading.step}"
        site = Site(Kind.OUTPUT, path)
        assert_statistics(recorded(reading, site), output, 1e-5, f"output {what}")
        reach = 1e-5 * np.abs(output).max(initial=0.0)
        assert_cells(reading.cells[reading.position[site]], output, reach, what)
        got = recorded(reading, Site(Kind.OUTPUT_GRADIENT, path))
        # TensorFlow goes back further than need be.
        if got["count"] > 0 or path not in unreached:
            assert gradient.size, what
            assert_statistics(got, gradient, 1e-5, f"gradient {what}")
        if output.ndim > 1:
            dead = np.all(output == 0, axis=tuple(range(output.ndim - 1)))
            counted = recorded(reading, Site(Kind.DEAD_UNIT, path))
            assert (counted["count"], counted["sum"]) == (dead.size, dead.sum()), what


def test_a_shared_layer_has_a_site_for_each_call(make_monitor: Callable[..., Any]) -> None:
    case = CASES["layer_used_twice"]()
    monitor, keep = make_monitor(every=1, watch=gradwatch.output_gradients("shared"))
    fit(case.build(), case.x, case.y, monitor)
    assert [str(site) for site in keep.readings[0].sites] == [
        "output_gradient shared",
        "output_gradient shared@2",
    ]
    assert {site.layer for site in keep.readings[0].sites} == {"shared"}
    assert list(keep.readings[0].layers(Kind.OUTPUT_GRADIENT)) == ["shared"]


class TwoFaced(layers.Layer):
    """Returns two tensors."""

    def call(self, x: Any) -> Any:
        return {"half": x / 2, "square": x * x}


@pytest.mark.any_backend
def test_a_layer_with_several_outputs_has_a_site_for_each(make_monitor: Callable[..., Any]) -> None:
    x = keras.Input((3,))
    both = TwoFaced(name="two")(layers.Dense(3, name="first")(x))
    model = keras.Model(x, layers.Dense(1)(both["half"] + both["square"]))
    model.compile("sgd", "mse")
    monitor, keep = make_monitor(every=1, watch=gradwatch.outputs("two", "first"))
    fit(model, normal(BATCH, 3), normal(BATCH, 1), monitor)
    reading = keep.readings[0]
    assert [site.path for site in reading.sites] == ["first", "two:0", "two:1"]
    l2, squares = (float(reading.statistic(s)[0]) for s in ("l2", "sum"))
    assert float(reading.statistic("l2")[1]) == pytest.approx(l2 / 2, rel=1e-6)
    assert float(reading.statistic("sum")[2]) == pytest.approx(l2**2, rel=1e-5), squares


def small(**compiling: Any) -> Any:
    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(6, "relu", name="a"),
            layers.BatchNormalization(name="norm"),
            layers.Dropout(0.3, name="drop"),
            layers.Dense(1, "sigmoid", name="b"),
        ],
        name="net",
    )
    model.compile(keras.optimizers.Adam(0.01), "mse", **compiling)
    return model


@pytest.mark.parametrize("way", usual_way_first())
def test_training_is_the_same_with_outputs_watched(
    way: str, make_monitor: Callable[..., Any]
) -> None:
    compiling = {**WAYS, "eager": EAGERLY}[way]
    x, y = normal(4 * BATCH, 5), normal(4 * BATCH, 1)
    left = []
    for watched in (True, False):
        seed_everything()
        model = small(**compiling)
        monitor, keep = make_monitor(every=2, watch=WATCHES)
        own = [set(vars(layer)) for layer in model.layers]
        history = fit(model, x, y, *([monitor] if watched else []), epochs=2, shuffle=True)
        assert [set(vars(layer)) for layer in model.layers] == own
        assert not any("call" in vars(layer) for layer in model._flatten_layers())
        assert keep.steps == ([2, 4, 6, 8] if watched else [])
        left.append((State.of(model).values, history.history))
    # XLA may fuse a measured step differently.
    tolerance = 1e-6 if way == "xla" else 0.0
    for ours, theirs in zip(keras.tree.flatten(left[0]), keras.tree.flatten(left[1]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.any_backend
def test_layers_are_chosen_by_name_index_type_and_predicate(
    make_monitor: Callable[..., Any],
) -> None:
    monitor, keep = make_monitor(
        every=1,
        watch=[
            gradwatch.outputs("a"),
            gradwatch.outputs(-1),
            gradwatch.outputs(layers.Dropout),
            gradwatch.output_gradients(lambda info: info.path.endswith("norm")),
        ],
    )
    fit(small(), normal(BATCH, 5), normal(BATCH, 1), monitor)
    kinds = (Kind.OUTPUT, Kind.OUTPUT_GRADIENT)
    assert [str(site) for site in keep.readings[0].sites if site.kind in kinds] == [
        "output net/a",
        "output_gradient net/norm",
        "output net/drop",
        "output net/b",
    ]


@pytest.mark.any_backend
def test_a_layer_that_does_not_exist_is_an_error_with_near_misses(
    make_monitor: Callable[..., Any],
) -> None:
    monitor, _ = make_monitor(every=1, watch=gradwatch.outputs("dropp"))
    with pytest.raises(SelectionError, match=r"outputs\('dropp'\).*layers.*Closest: net/drop"):
        fit(small(), normal(BATCH, 5), normal(BATCH, 1), monitor)


def test_dead_units_and_saturation_are_counted(make_monitor: Callable[..., Any]) -> None:
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(5, "relu", name="r"), layers.Dense(3, "tanh", name="t")],
        name="net",
    )
    model.compile(keras.optimizers.SGD(0.0), "mse")
    kernel, bias = model.get_layer("r").get_weights()
    bias[:2] = -1e6  # Two units that never wake.
    model.get_layer("r").set_weights([kernel, bias])
    kernel, bias = model.get_layer("t").get_weights()
    bias[0] = 1e3  # One that is always at its bound.
    model.get_layer("t").set_weights([np.zeros_like(kernel), bias])
    monitor, keep = make_monitor(
        every=1, watch=[gradwatch.outputs(per_unit=True), gradwatch.weights()]
    )
    fit(model, np.ones((BATCH, 4), "float32"), normal(BATCH, 3), monitor)
    reading = keep.readings[0]
    relu = recorded(reading, Site(Kind.OUTPUT, "net/r"))
    assert recorded(reading, Site(Kind.DEAD_UNIT, "net/r"))["sum"] >= 2
    assert relu["zeros"] >= 2 * BATCH
    assert mean_of(reading, Kind.SATURATED, "net/t") == pytest.approx(1 / 3)
    # The other two are 0 for all samples.
    assert mean_of(reading, Kind.DEAD_UNIT, "net/t") == pytest.approx(2 / 3)
    assert Site(Kind.SATURATED, "net/r") not in reading.position


def test_output_gradients_are_undone_of_loss_scaling(make_monitor: Callable[..., Any]) -> None:
    found = []
    for scaled in (False, True):
        seed_everything()
        model = keras.Sequential([keras.Input((3,)), layers.Dense(2, name="d")], name="net")
        optimizer = keras.optimizers.SGD(0.1)
        if scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024.0)
        model.compile(optimizer, "mse")
        monitor, keep = make_monitor(every=1, watch=gradwatch.output_gradients())
        fit(model, normal(BATCH, 3), normal(BATCH, 2), monitor)
        found.append(keep.series(Kind.OUTPUT_GRADIENT, "net/d", "l2"))
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.any_backend
def test_all_sinks_show_outputs(
    make_monitor: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sinks = [gradwatch.CSV(), gradwatch.TensorBoard(), gradwatch.Console()]
    monitor, _ = make_monitor(every=1, watch=[*WATCHES, gradwatch.weights()], sinks=sinks)
    fit(small(), normal(BATCH, 5), normal(BATCH, 1), monitor, verbose=2)
    lines = (monitor.directory / "summaries.csv").read_text().splitlines()
    assert {line.split(",")[3] for line in lines[1:]} == {
        *("loss", "scalar", "metric", "epoch_metric"),
        "weight",
        "output",
        "output_gradient",
        "dead_unit",
        "saturated",
    }
    events = b"".join(p.read_bytes() for p in monitor.directory.glob("events.out.*"))
    assert b"per_layer_output_gradient_l2/net/a" in events
    assert b"model/dead_unit_mean" in events
    shown = capsys.readouterr().out
    assert "out zeros" in shown
    assert "dead units" in shown


@pytest.mark.any_backend
def test_the_inventory_lists_outputs() -> None:
    paths = [i.path for i in gradwatch.sites(small()) if i.kind is Kind.OUTPUT]
    assert paths == ["net/a", "net/norm", "net/drop", "net/b"]


def test_two_monitors_watch_outputs_at_once(make_monitor: Callable[..., Any]) -> None:
    case = CASES["layer_used_twice"]()
    first, kept = make_monitor(every=1, watch=gradwatch.output_gradients())
    second, also = make_monitor(every=1, watch=WATCHES)
    fit(case.build(), case.x, case.y, first, second)
    series = [k.series(Kind.OUTPUT_GRADIENT, "shared@2", "l2") for k in (kept, also)]
    assert len(series[0]) == 2
    # Rows of tensors measured together add up in another order.
    assert series[0] == pytest.approx(series[1], rel=1e-6)
