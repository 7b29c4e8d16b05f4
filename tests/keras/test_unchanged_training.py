"""Law 1: training with the monitor is training without it."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.core import schedule
from tests.keras.support import Keep, classes, drawn, normal
from tests.keras.support_behaviour import EVERYTHING, KERAS_AND_NUMPY_2, copied

pytestmark = pytest.mark.filterwarnings(KERAS_AND_NUMPY_2)
BACKEND = keras.backend.backend()
# Where the compiler may fuse a measured step differently, results agree to rounding.
EXACT, ROUNDED = 0.0, 1e-6
MODES = {
    "tensorflow": {
        "eager": ({"run_eagerly": True}, EXACT),
        "graph": ({"jit_compile": False}, EXACT),
        "xla": ({"jit_compile": True}, ROUNDED),
    },
    "jax": {
        "eager": ({"run_eagerly": True}, EXACT),
        "jit": ({"jit_compile": True}, ROUNDED),
    },
    "torch": {"eager": ({"jit_compile": False}, EXACT)},
}[BACKEND]


@dataclass(frozen=True)
class Outcome:
    """All that training leaves behind."""

    model: Any
    history: dict[str, list[float]]
    random_numbers: list[float]


def train(*callbacks: Any, **compiling: Any) -> Outcome:
    keras.utils.clear_session()
    keras.utils.set_random_seed(11)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, "relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(0.01, clipnorm=1.0)
    model.compile(optimizer, loss, metrics=["accuracy"], **compiling)
    x, y = normal(24, 6), classes(3, 24)
    history = model.fit(
        *(x, y),
        batch_size=8,
        epochs=2,
        verbose=0,
        validation_data=(x, y),
        callbacks=list(callbacks),
    )
    return Outcome(model, history.history, drawn())


@cache
def train_bare(mode: str) -> Outcome:
    return train(**MODES[mode][0])


def assert_same(measured: Any, bare: Any, tolerance: float) -> None:
    assert len(measured) == len(bare)
    for ours, theirs in zip(measured, bare, strict=True):
        ours, theirs = np.asarray(ours, "float64"), np.asarray(theirs, "float64")
        assert np.linalg.norm(ours - theirs) <= tolerance * np.linalg.norm(theirs)


@pytest.mark.parametrize(
    ("mode", "every"),
    [*((mode, 1) for mode in MODES), (list(MODES)[-1], schedule.every(2))],
    ids=[*(f"{mode}-every-step" for mode in MODES), "every-2nd-step"],
)
def test_training_is_the_same_with_and_without_the_monitor(
    make_monitor: Any, mode: str, every: Any
) -> None:
    compiling, tolerance = MODES[mode]
    monitor, keep = make_monitor(every=every, watch=EVERYTHING)
    measured, bare = train(monitor, **compiling), train_bare(mode)

    assert keep.steps == ([1, 2, 3, 4, 5, 6] if every == 1 else [2, 4, 6])
    # Dropout's random state is among the variables.
    assert_same(copied(measured.model.variables), copied(bare.model.variables), tolerance)
    optimizers = [copied(m.model.optimizer.variables) for m in (measured, bare)]
    assert_same(*optimizers, tolerance)
    assert measured.random_numbers == bare.random_numbers
    assert list(measured.history) == list(bare.history)
    assert_same(measured.history.values(), bare.history.values(), tolerance)


def test_the_model_has_the_same_variables_and_attributes_afterwards(make_monitor: Any) -> None:
    mode = next(reversed(MODES))  # the compiled one, where there is one
    monitor, keep = make_monitor(every=2, watch=EVERYTHING)
    measured, bare = train(monitor, **MODES[mode][0]).model, train_bare(mode).model

    assert keep.steps == [2, 4, 6]
    for variables in ("weights", "variables", "trainable_variables", "metrics_variables"):
        paths = [[v.path for v in getattr(m, variables)] for m in (measured, bare)]
        assert paths[0] == paths[1]
    optimizers = [[v.path for v in m.optimizer.variables] for m in (measured, bare)]
    assert optimizers[0] == optimizers[1]
    assert vars(measured).keys() == vars(bare).keys()
    assert vars(measured.optimizer).keys() == vars(bare.optimizer).keys()
    assert "train_step" not in vars(measured)


def without_object_ids(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "shared_object_id"}


def contents(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """The configuration and the datasets of a saved model."""
    with zipfile.ZipFile(path) as archive:
        # Keras numbers shared objects by their place in memory, which no two runs share.
        config = json.loads(archive.read("config.json"), object_hook=without_object_ids)
        archive.extract("model.weights.h5", path.with_suffix(""))
    with h5py.File(path.with_suffix("") / "model.weights.h5") as file:
        names: list[str] = []
        file.visit(names.append)
        datasets = {n: file[n][()] for n in names if isinstance(file[n], h5py.Dataset)}
    return config, datasets


def test_a_saved_model_is_the_same_file_and_loads_again(make_monitor: Any, tmp_path: Path) -> None:
    compiling, tolerance = MODES["eager"]
    monitor, keep = make_monitor(every=2, watch=EVERYTHING)
    measured, bare = train(monitor, **compiling).model, train_bare("eager").model
    assert keep.steps == [2, 4, 6]
    assert tolerance == EXACT
    measured.save(tmp_path / "measured.keras")
    bare.save(tmp_path / "bare.keras")

    config, datasets = contents(tmp_path / "measured.keras")
    config_bare, datasets_bare = contents(tmp_path / "bare.keras")
    assert config == config_bare
    assert datasets.keys() == datasets_bare.keys()
    for name, values in datasets_bare.items():
        np.testing.assert_array_equal(datasets[name], values, err_msg=name)

    loaded = keras.models.load_model(tmp_path / "measured.keras")
    assert_same(copied(loaded.weights), copied(measured.weights), EXACT)
    assert_same(copied(loaded.optimizer.variables), copied(measured.optimizer.variables), EXACT)
    x = normal(5, 6, seed=3)
    assert_same([loaded.predict(x, verbose=0)], [measured.predict(x, verbose=0)], EXACT)


def test_a_reloaded_model_goes_on_under_a_new_monitor(make_monitor: Any, tmp_path: Path) -> None:
    monitor, _ = make_monitor(every=1)
    train(monitor, **MODES["eager"][0]).model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    keep = Keep()
    again = gradwatch.Monitor(tmp_path / "again", every=1, sinks=[keep])
    loaded.fit(normal(16, 6), classes(3, 16), batch_size=8, verbose=0, callbacks=[again])
    assert keep.steps == [7, 8]
