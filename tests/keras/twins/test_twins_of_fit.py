"""Random trainings with `fit`, bare and under a monitor: not a bit may differ.

Some are tried here; `make test-twins` tries a thousand on each backend. A failure is reduced by
Hypothesis to a small program that shows it, and that is printed.
"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import gradwatch
from tests.keras.support import drawn
from tests.keras.twins.cases import BACKEND, parts, try_part
from tests.keras.twins.compare import (
    MONITORS,
    SINGLE,
    Outcome,
    beyond_rounding,
    differences,
    nudge,
    quietly,
)
from tests.keras.twins.programs import Program, programs

# Others compile each program several times.
FEW = 20 if BACKEND == "torch" else 2
# XLA may fuse a measured step differently: there, only rounding may differ.
MODES = {
    "tensorflow": ("eager", "graph", "graph", "xla"),
    "jax": ("eager", "eager", "xla"),
    "torch": ("eager",),
}[BACKEND]
UNITS = {"'mixed_float16'": 2.0**-10, "'mixed_bfloat16'": 2.0**-7}


class Nudge(keras.callbacks.Callback):
    """Moves every weight by one unit of rounding before training."""

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self._nudge = partial(nudge, unit=unit, seed=seed)

    def on_train_begin(self, logs: Any = None) -> None:
        for variable in self.model.trainable_variables:
            variable.assign(self._nudge(np.asarray(keras.ops.convert_to_numpy(variable))))


def outcome(program: Program, *callbacks: Any) -> Outcome:
    """Run a program, and collect what its training leaves behind."""
    names: dict[str, Any] = {}
    exec(compile(str(program), "<program>", "exec"), names)
    model, history = names["train"](list(callbacks))
    arrays = {
        f"{i} {variable.path}": np.array(keras.ops.convert_to_numpy(variable))
        for i, variable in enumerate([*model.variables, *model.optimizer.variables])
    }
    return Outcome(history, arrays | {"random numbers": np.array(drawn())})


def unlike(program: Program, monitor: str) -> list[str]:
    """What a monitor changes in a training, in words."""
    try:
        with quietly():
            bare = outcome(program)
    except Exception:
        hypothesis.reject()  # Keras itself cannot run it.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        quietly(),
        gradwatch.Monitor(directory, **MONITORS[monitor]) as watching,
    ):
        watched = outcome(program, watching)
    found = list(differences(bare, watched))
    if found and program.mode == "xla":
        unit = next((u for policy, u in UNITS.items() if policy in str(program)), SINGLE)
        with quietly():
            nudged = [outcome(program, Nudge(unit, seed)) for seed in range(3)]
        found = list(beyond_rounding(bare, watched, nudged, unit))
    return found


@pytest.mark.parametrize("part", parts(FEW))
def test_a_random_training_is_the_same_under_a_monitor(part: int) -> None:
    try_part(part, unlike, programs(BACKEND, MODES))


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "tensorflow", reason="there Keras hangs the logits on a tensor")
def test_an_identity_that_drops_what_keras_hangs_on_a_tensor_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tensorflow as tf

    from gradwatch.capture.taps.tensorflow_tap import TensorFlowTap

    note = TensorFlowTap.through
    monkeypatch.setattr(
        TensorFlowTap, "through", lambda tap, x, passage: tf.identity(note(tap, x, passage))
    )

    @settings(
        max_examples=100,
        phases=[Phase.generate],  # It need not be reduced.
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(BACKEND, ("eager",)), st.sampled_from(list(MONITORS)))
    def twins(program: Program, monitor: str) -> None:
        assert not unlike(program, monitor)

    with pytest.raises(AssertionError):
        twins()
