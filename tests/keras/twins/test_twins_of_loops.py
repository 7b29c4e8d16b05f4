"""Random hand-written loops, bare and under a monitor: not a bit may differ.

Tapes and `tf.function` on TensorFlow, `jax.jit` on JAX, `gradwatch.watch` on torch.
"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any

import hypothesis
import pytest

import gradwatch
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
from tests.keras.twins.loops import Loop
from tests.keras.twins.loops_jax import jax_loops
from tests.keras.twins.loops_tensorflow import tensorflow_loops
from tests.keras.twins.loops_torch import torch_loops

FEW = 10 if BACKEND == "torch" else 2
LOOPS = {"tensorflow": tensorflow_loops, "jax": jax_loops, "torch": torch_loops}


def outcome(loop: Loop, arguments: dict[str, Any] | None = None, **more: Any) -> Outcome:
    """What a loop leaves behind: under a monitor with these arguments, or bare."""
    names: dict[str, Any] = {}
    exec(compile(str(loop), "<program>", "exec"), names)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, quietly():

        def make(*watched: Any) -> Any:
            if watched:
                return gradwatch.watch(*watched, directory, **(arguments or {}))
            return gradwatch.Monitor(directory, **(arguments or {}))

        losses, arrays = names["train"](None if arguments is None else make, **more)
    return Outcome({"loss": losses}, arrays)


def unlike(loop: Loop, monitor: str) -> list[str]:
    """What a monitor changes in a loop, in words."""
    try:
        bare = outcome(loop)
    except Exception:
        hypothesis.reject()  # The framework itself cannot run it.
    arguments = MONITORS[monitor]
    watched = outcome(loop, arguments, sees="watch" in arguments)
    found = list(differences(bare, watched))
    if found and not loop.is_exact:
        nudges = [partial(nudge, unit=SINGLE, seed=seed) for seed in range(3)]
        nudged = [outcome(loop, change=change) for change in nudges]
        found = list(beyond_rounding(bare, watched, nudged, SINGLE))
    return found


@pytest.mark.parametrize("part", parts(FEW))
def test_a_random_loop_is_the_same_under_a_monitor(part: int) -> None:
    try_part(part, unlike, LOOPS[BACKEND]())
