"""Random trainings with `fit`, bare and under a monitor: not a bit may differ.

60 of them are tried here; `make test-twins` tries a thousand on each backend. A failure is
reduced by Hypothesis to the smallest program that shows it, and that is printed.
"""

from __future__ import annotations

import os
from typing import Any

import hypothesis
import keras
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.keras.twins.compare import (
    MONITORS,
    Different,
    beyond_rounding,
    differences,
    monitored,
    outcome,
    quietly,
)
from tests.keras.twins.programs import Program, programs

BACKEND = keras.backend.backend()
# XLA may fuse a measured step differently: there, only rounding may differ.
MODES = {
    "tensorflow": ("eager", "graph", "graph", "xla"),
    "jax": ("eager", "eager", "xla"),
    "torch": ("eager",),
}[BACKEND]
CASES = int(os.environ.get("GRADWATCH_TWINS", "60"))
PARTS = 4 if CASES <= 60 else CASES // 50
UNITS = {"'mixed_float16'": 2.0**-10, "'mixed_bfloat16'": 2.0**-7}


def unlike(program: Program, monitor: str) -> list[str]:
    """What a monitor changes in a training, in words.

    Raises:
        hypothesis.errors.UnsatisfiedAssumption: Keras itself cannot run the program.
    """
    names: dict[str, Any] = {}
    exec(compile(str(program), "<program>", "exec"), names)
    train = names["train"]
    try:
        with quietly():
            bare = outcome(train)
    except Exception:
        hypothesis.reject()
    watched = monitored(train, **MONITORS[monitor])
    found = list(differences(bare, watched))
    if found and program.mode == "xla":
        unit = next((u for policy, u in UNITS.items() if policy in str(program)), 2.0**-23)
        found = list(beyond_rounding(train, bare, watched, unit))
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_a_random_training_is_the_same_under_a_monitor(part: int) -> None:
    @hypothesis.seed(part)
    @settings(
        max_examples=-(-CASES // PARTS),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(programs(BACKEND, MODES), st.sampled_from(list(MONITORS)))
    def twins(program: Program, monitor: str) -> None:
        found = unlike(program, monitor)
        if found:
            listed = "\n".join(found[:5])
            raise Different(f"{monitor} changes this training:\n{listed}\n\n{program}")

    twins()
