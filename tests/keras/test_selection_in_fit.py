"""Which variables are measured: selection by layer, name, type, part and function."""

from __future__ import annotations

import re
from typing import Any

import keras
import pytest

import gradwatch
from gradwatch import Kind
from gradwatch.core import SiteInfo, select
from tests.keras.support import normal

pytestmark = pytest.mark.any_backend


def convolutional() -> Any:
    model = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Conv2D(2, 2, name="conv_a"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Conv2D(2, 2, name="conv_b"),
            keras.layers.Flatten(name="flat"),
            keras.layers.Dense(3, name="hidden"),
            keras.layers.Dense(1, name="head"),
        ],
        name="net",
    )
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def fit(model: Any, monitor: Any) -> None:
    model.fit(normal(4, 4, 4, 1), normal(4, 1), batch_size=4, verbose=0, callbacks=[monitor])


CONV_A, CONV_B = ["conv_a/kernel", "conv_a/bias"], ["conv_b/kernel", "conv_b/bias"]
HIDDEN, HEAD = ["hidden/kernel", "hidden/bias"], ["head/kernel", "head/bias"]
TRAINED = ["norm/gamma", "norm/beta"]
STATISTICS = ["norm/moving_mean", "norm/moving_variance"]


def is_small(info: SiteInfo) -> bool:
    return info.parameters == 1


SELECTIONS: dict[str, tuple[Any, list[str]]] = {
    "names-and-indices": (["conv*", 0, -1], [*CONV_A, *CONV_B, *HEAD]),
    "one-name": ("hidden", HIDDEN),
    "regex": ([re.compile(r"conv_[b-z]|head")], [*CONV_B, *HEAD]),
    "type": ([keras.layers.Conv2D], [*CONV_A, *CONV_B]),
    "type-by-name": ([select.layer_type("Dense")], [*HIDDEN, *HEAD]),
    "part": ([select.part("gamma")], ["norm/gamma"]),
    "path": (["conv*/kernel"], [CONV_A[0], CONV_B[0]]),
    "predicate": ([is_small], ["head/bias"]),
    "exclusion": (["conv*", "!bias"], [CONV_A[0], CONV_B[0]]),
    "only-exclusion": (["!conv*", "!norm"], [*HIDDEN, *HEAD]),
    "combined": (
        [select.layer_type(keras.layers.Conv2D) & ~select.part("bias")],
        [CONV_A[0], CONV_B[0]],
    ),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_layers_selects_the_gradients_and_weights_of(make_monitor: Any, name: str) -> None:
    layers, expected = SELECTIONS[name]
    monitor, keep = make_monitor(every=1, layers=layers)
    fit(convolutional(), monitor)
    (reading,) = keep.readings
    for kind in (Kind.GRADIENT, Kind.WEIGHT):
        paths = [s.path.removeprefix("net/") for s in reading.sites if s.kind is kind]
        assert paths == expected


def test_without_a_selection_all_weights_and_all_trained_gradients_are_measured(
    make_monitor: Any,
) -> None:
    monitor, keep = make_monitor(every=1, diagnose=False)
    fit(convolutional(), monitor)
    (reading,) = keep.readings
    paths: dict[Kind, list[str]] = {Kind.GRADIENT: [], Kind.WEIGHT: []}
    for site in reading.sites:
        paths[site.kind].append(site.path.removeprefix("net/"))
    assert paths[Kind.GRADIENT] == [*CONV_A, *TRAINED, *CONV_B, *HIDDEN, *HEAD]
    assert paths[Kind.WEIGHT] == [*CONV_A, *TRAINED, *STATISTICS, *CONV_B, *HIDDEN, *HEAD]


def test_each_watch_has_its_own_selection(make_monitor: Any) -> None:
    watch = [gradwatch.gradients("head"), gradwatch.weights("norm"), gradwatch.updates(0)]
    monitor, keep = make_monitor(every=1, watch=watch)
    fit(convolutional(), monitor)
    (reading,) = keep.readings
    found = [str(site).replace("net/", "") for site in reading.sites]
    expected = [f"{kind} {path}" for path in CONV_A for kind in ("weight", "update")]
    expected += [f"weight {path}" for path in [*TRAINED, *STATISTICS]]
    expected += [f"gradient {path}" for path in HEAD]
    assert found == expected


class NeverTrained(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        raise AssertionError("training has begun")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"layers": ["convv_a"]}, ["gradients('convv_a') matched none of 10", "net/conv_a/kernel"]),
        ({"layers": [99]}, ["layer(99)", "gradwatch.sites(model)"]),
        ({"watch": [gradwatch.weights("hiden")]}, ["weights('hiden')", "net/hidden/kernel"]),
        ({"layers": ["head", "!head"]}, ["leaves nothing"]),
        # Statistics of a normalization have no gradient.
        ({"watch": [gradwatch.gradients("moving_mean")]}, ["gradients('moving_mean')"]),
    ],
    ids=["name", "index", "watch", "excluded", "untrained"],
)
def test_a_selector_that_matches_nothing_stops_fit_before_training_with_near_misses(
    make_monitor: Any, arguments: Any, said: list[str]
) -> None:
    monitor, keep = make_monitor(every=1, **arguments)
    model = convolutional()
    with pytest.raises(select.SelectionError) as caught:
        model.fit(
            *(normal(4, 4, 4, 1), normal(4, 1)), verbose=0, callbacks=[monitor, NeverTrained()]
        )
    for words in said:
        assert words in str(caught.value)
    assert keep.readings == []


def test_frozen_layers_have_weights_but_no_gradients(make_monitor: Any) -> None:
    model = convolutional()
    model.get_layer("conv_a").trainable = False
    model.compile("sgd", "mse", run_eagerly=True)
    monitor, keep = make_monitor(every=1)
    fit(model, monitor)
    (reading,) = keep.readings
    for kind, has in ((Kind.WEIGHT, True), (Kind.GRADIENT, False)):
        assert (gradwatch.Site(kind, "net/conv_a/kernel") in reading.position) is has
    infos = [i for i in gradwatch.sites(model) if i.path == "net/conv_a/kernel"]
    assert [(i.kind, i.trainable) for i in infos if not i.kind.is_of_layer] == [
        (Kind.WEIGHT, False)
    ]


def test_sites_lists_what_could_be_watched() -> None:
    sites = gradwatch.sites(convolutional())
    (info,) = [i for i in sites if str(i.site) == "gradient net/conv_b/kernel"]
    assert (info.shape, info.dtype, info.parameters) == ((2, 2, 2, 2), "float32", 16)
    assert info.part == "kernel"
    assert info.trainable
    kinds = {i.kind for i in sites if i.path == "net/norm/moving_mean"}
    assert kinds == {Kind.WEIGHT}
    header, first = str(sites).splitlines()[:2]
    assert header.split() == ["kind", "path", "shape", "dtype", "parameters"]
    assert first.split() == ["weight", "net/conv_a/kernel", "(2,", "2,", "1,", "2)", "float32", "8"]


def test_sites_of_a_model_without_variables_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="has no variables yet"):
        gradwatch.sites(keras.Sequential([keras.layers.Dense(2)]))
    with pytest.raises(TypeError, match="takes a Keras model"):
        gradwatch.sites("model")
