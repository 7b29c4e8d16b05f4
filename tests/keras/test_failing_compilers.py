"""A measured step that cannot be compiled is left out, and training goes on as if bare."""

from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.capture.keras import observation
from tests.keras.support import seed_everything
from tests.keras.support_behaviour import fit, linear_model

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="torch does not compile the step of fit"
)


class CompilerError(Exception):
    pass


def cannot_be_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What measuring adds to the step is refused by the compiler."""
    measure = observation.Observation.measure

    def failing(self: Any, *args: Any) -> Any:
        measured = measure(self, *args)
        if keras.backend.backend() == "tensorflow":
            raise CompilerError  # Its own compiler cannot be made to fail so early.
        import jax
        from jax.extend.core import Primitive

        unknown = Primitive("unknown")
        unknown.def_abstract_eval(lambda x: x)
        return jax.tree.map(unknown.bind, measured)

    monkeypatch.setattr(observation.Observation, "measure", failing)


def weights_of(model: Any) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(variable) for variable in model.variables]


@pytest.mark.parametrize("every", [1, None], ids=["every-step", "budget"])
def test_training_goes_on_and_it_is_said_once(
    make_monitor: Any, monkeypatch: pytest.MonkeyPatch, every: int | None
) -> None:
    seed_everything()
    bare = linear_model()
    fit(bare, 6)
    cannot_be_lowered(monkeypatch)
    seed_everything()
    monitor, keep = make_monitor(**({} if every is None else {"every": every}))
    model = linear_model()
    with pytest.warns(gradwatch.GradwatchWarning, match="Internal error") as said:
        fit(model, 6, monitor)
    own = [each for each in said if each.category is gradwatch.GradwatchWarning]
    assert len(own) == 1
    assert keep.steps == []
    for own, other in zip(weights_of(model), weights_of(bare), strict=True):
        np.testing.assert_array_equal(own, other)


class Failing(keras.Sequential):
    def train_step(self, *args: Any) -> Any:
        raise KeyError("of the user")


@pytest.mark.parametrize("every", [1, None], ids=["every-step", "budget"])
def test_what_the_users_step_raises_is_raised(make_monitor: Any, every: int | None) -> None:
    monitor, _ = make_monitor(**({} if every is None else {"every": every}))
    with pytest.raises(KeyError, match="of the user"):
        fit(linear_model(cls=Failing), 2, monitor)


class FailingOnce(keras.Sequential):
    """A step that raises only when it is called, or traced, for the first time."""

    calls = 0

    def train_step(self, *args: Any) -> Any:
        type(self).calls += 1
        if type(self).calls == 1:
            raise KeyError("of the user")
        return super().train_step(*args)


@pytest.mark.parametrize("jit_compile", ["auto", False], ids=["xla", "plain"])
@pytest.mark.parametrize("every", [1, 2, None], ids=["each-step", "each-second-step", "budget"])
def test_what_the_users_step_raises_only_once_is_raised(
    make_monitor: Any, every: int | None, jit_compile: Any
) -> None:
    FailingOnce.calls = 0
    monitor, _ = make_monitor(**({} if every is None else {"every": every}))
    model = linear_model(cls=FailingOnce)
    model.compile("sgd", "mse", jit_compile=jit_compile)
    with pytest.raises(KeyError, match="of the user"):
        fit(model, 4, monitor)
    assert FailingOnce.calls == 1
