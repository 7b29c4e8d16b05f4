"""Setting up the tests of `fit`; they run once for each Keras backend.

KERAS_BACKEND=tensorflow|jax|torch python -m pytest tests/keras
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before Keras is imported: TensorFlow reads this once.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# So that `tests.keras.support` is found whichever way pytest is started.
sys.path.insert(0, str(Path(__file__).parents[2]))

import keras
import pytest

import gradwatch
from gradwatch import Kind
from gradwatch.capture.keras.ahead import compiled_ahead
from gradwatch.sinks import pipeline
from tests.keras.support import Keep, seed_everything

FRAMEWORK_WARNINGS = [
    # Keras says this of a weight that the loss does not touch; it is one of our cases.
    "ignore:Gradients do not exist for variables:UserWarning",
    # torch's compiler says this of itself when it is loaded.
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
]


def pytest_configure(config: pytest.Config) -> None:
    for line in FRAMEWORK_WARNINGS:
        config.addinivalue_line("filterwarnings", line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What does not depend on the backend runs once, on the quickest; on all by `make test-all`."""
    if keras.backend.backend() == "torch" or os.environ.get("GRADWATCH_TESTS") == "full":
        return
    once = [item for item in items if item.get_closest_marker("any_backend")]
    config.hook.pytest_deselected(items=once)
    items[:] = [item for item in items if item not in set(once)]


def pytest_report_header() -> str:
    return f"Keras {keras.__version__} on {keras.backend.backend()}"


@pytest.fixture(autouse=True)
def fresh_keras() -> None:
    """Every test starts from the same random numbers and the same layer names."""
    seed_everything()


@pytest.fixture(autouse=True)
def first_steps_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the machine takes to trace a step: training waits for what measures it."""
    forever = dict.fromkeys(compiled_ahead.QUICK, math.inf)
    monkeypatch.setattr(compiled_ahead, "QUICK", forever)


@pytest.fixture
def backend() -> str:
    """The name of the Keras backend of this process."""
    return str(keras.backend.backend())


@pytest.fixture
def make_monitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Any, Keep]]:
    """Makes a monitor with a run directory of its own, and the sink that keeps its readings.

    The arguments are those of `Monitor`; more `sinks` are added to the keeping one. Where a test
    says what to watch, the numbers that are recorded in any case are not kept unless it names them.
    """
    made = 0
    # A busy machine may run only the thread that trains, for hundreds of steps as small as these.
    monkeypatch.setattr(pipeline, "MAX_PENDING", 100_000)

    def make(**arguments: Any) -> tuple[Any, Keep]:
        nonlocal made
        made += 1
        watch = arguments.get("watch") or []
        asked = {each.kind for each in (watch if isinstance(watch, list | tuple) else [watch])}
        is_about_tensors = {"watch", "layers"} & set(arguments) or not arguments.get("diagnose", 1)
        keep = Keep({Kind.LOSS, Kind.SCALAR} - asked if is_about_tensors else ())
        sinks = [keep, *arguments.pop("sinks", [])]
        return gradwatch.Monitor(tmp_path / f"run{made}", sinks=sinks, **arguments), keep

    return make
