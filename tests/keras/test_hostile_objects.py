"""Objects of the user that raise when gradwatch reads them: training does not notice."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from tests.keras.support_behaviour import fit

pytestmark = pytest.mark.any_backend


class StrangersError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even its text can be read")


def hostile(base: type, name: str) -> type:
    """A class whose attribute of that name raises, but only if gradwatch itself reads it."""
    own = inspect.getattr_static(base, name, None)

    def read(self: Any) -> Any:
        if str(sys._getframe(1).f_globals["__name__"]).startswith("gradwatch."):
            raise StrangersError
        if name in vars(self):
            return vars(self)[name]
        if own is None:
            raise AttributeError(name)
        return own.__get__(self, type(self)) if hasattr(own, "__get__") else own

    def write(self: Any, value: Any) -> None:
        if isinstance(own, property) and own.fset is not None:
            own.fset(self, value)
        else:
            vars(self)[name] = value

    return type(base.__name__, (base,), {name: property(read, write)})


def trained(monitor: Any, owner: str = "", name: str = "") -> list[np.ndarray]:
    """The weights of a model after training; one attribute of one kind of object is hostile."""
    classes: dict[str, Any] = {
        "model": keras.Model,
        "layer": keras.layers.Dense,
        "optimizer": keras.optimizers.SGD,
        "loss": keras.losses.MeanSquaredError,
    }
    if owner:
        classes[owner] = hostile(classes[owner], name)

    class Net(classes["model"]):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="net")
            self.first = classes["layer"](4, activation="relu", name="first")
            self.second = keras.layers.Dense(2, name="second")

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

    keras.utils.set_random_seed(1)
    model = Net()
    model.compile(classes["optimizer"](0.1), classes["loss"]())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=gradwatch.GradwatchWarning)
        fit(model, 4, *([] if monitor is None else [monitor]), epochs=2)
    return [np.array(keras.ops.convert_to_numpy(w)) for w in model.weights]


ATTRIBUTES = {
    "model": "layers weights trainable_variables non_trainable_variables losses metrics name "
    "outputs built loss optimizer steps_per_execution jit_compile run_eagerly compiled _layers",
    "layer": "name weights path activation units filters compute_dtype trainable built data_format "
    "trainable_weights dtype_policy state_size _inbound_nodes quantization_mode _remat_mode call",
    "optimizer": "learning_rate _learning_rate iterations _iterations name variables built apply "
    "gradient_accumulation_steps clipnorm loss_scale_factor _get_current_learning_rate",
    "loss": "get_config name reduction",
}


CASES = [(owner, name) for owner, names in ATTRIBUTES.items() for name in names.split()]


@pytest.mark.parametrize(("owner", "name"), CASES)
def test_training_does_not_notice(make_monitor: Any, owner: str, name: str) -> None:
    said: list[str] = []
    monitor, _ = make_monitor(every=1)
    monitor._reporter.show = said.append
    truth = trained(None, owner, name)
    for mine, theirs in zip(trained(monitor, owner, name), truth, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert len(said) <= 1
    assert all("Not recorded: " in text or "Rules that need" in text for text in said)
    # What could not be read is not taken for something that is wrong with the training.
    assert [finding.rule for finding in monitor.findings] == []


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("model", "layers"),
        ("model", "losses"),
        ("model", "loss"),
        ("model", "outputs"),
        ("layer", "name"),
        ("layer", "activation"),
        ("layer", "units"),
        ("optimizer", "learning_rate"),
        ("optimizer", "name"),
        ("loss", "get_config"),
    ],
)
def test_no_more_is_lost_than_what_cannot_be_read(make_monitor: Any, owner: str, name: str) -> None:
    monitor, keep = make_monitor(every=1)
    trained(monitor, owner, name)
    assert keep.steps == list(range(1, 9))
    for kind, path in ((Kind.GRADIENT, "first/kernel"), (Kind.OUTPUT, "first")):
        assert Site(kind, f"net/{path}") in keep.readings[0].position


def test_a_fit_that_cannot_be_read_is_not_taken_for_the_one_before(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    trained(monitor)
    number = len(keep.readings)
    trained(monitor, "model", "trainable_variables")
    assert number > 0
    assert len(keep.readings) == number


def unreadable(base: Any) -> Any:
    """A class that raises for attributes which it does not have, as delegating objects do."""

    def read(self: Any, name: str) -> Any:
        known = getattr(super(made, self), "__getattr__", None)  # torch's modules have one.
        try:
            if known is not None:
                return known(name)
        except AttributeError:
            pass
        if str(sys._getframe(1).f_globals["__name__"]).startswith("gradwatch."):
            raise StrangersError
        raise AttributeError(name)

    made = type(base.__name__, (base,), {"__getattr__": read})
    return made


@pytest.mark.parametrize("owner", ["model", "layer", "optimizer", "loss"])
def test_an_object_that_raises_for_what_it_does_not_have_costs_nothing(
    make_monitor: Any, owner: str
) -> None:
    bases: dict[str, Any] = {
        "model": keras.Sequential,
        "layer": keras.layers.Dense,
        "optimizer": keras.optimizers.SGD,
        "loss": keras.losses.MeanSquaredError,
    }
    bases[owner] = unreadable(bases[owner])
    model = bases["model"]([keras.Input((3,)), bases["layer"](2, name="a")], name="net")
    model.compile(bases["optimizer"](0.1), bases["loss"]())
    monitor, keep = make_monitor(every=1)
    fit(model, 3, monitor)
    assert keep.steps == [1, 2, 3]
    sites = set(keep.readings[0].position)
    for kind, path in (
        (Kind.GRADIENT, "net/a/kernel"),
        (Kind.UPDATE, "net/a/bias"),
        (Kind.OUTPUT, "net/a"),
        (Kind.SCALAR, "learning_rate"),
    ):
        assert Site(kind, path) in sites


def test_facts_that_cannot_be_read_cost_no_finding(make_monitor: Any) -> None:
    class Unreadable(keras.losses.MeanSquaredError):
        def get_config(self) -> Any:
            raise StrangersError

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", Unreadable())
    said: list[str] = []
    monitor, _ = make_monitor(every=1, on_finding=lambda finding: None)
    monitor._reporter.show = said.append
    x = np.full((8, 3), np.nan, "float32")
    model.fit(x, np.zeros((8, 2)), callbacks=[monitor], verbose=0)
    assert [finding.rule for finding in monitor.findings] == ["non-finite"]
