"""How many random trainings are tried, and in how many parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import hypothesis
import keras
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BACKEND = keras.backend.backend()
FULL = int(os.environ.get("GRADWATCH_TWINS", "0"))
"""How many trainings to try; 0 for the few of each test."""
_IN_A_PART = 5


def parts(few: int) -> range:
    """The parts in which trainings are tried, which pytest may spread over processes.

    Args:
        few: how many trainings are tried unless GRADWATCH_TWINS says another number.
    """
    return range(-(-(FULL or few) // _IN_A_PART))


def try_part(part: int, test: Callable[..., None], *strategies: Any) -> None:
    """Try the trainings of one part; a failure is reduced by Hypothesis.

    Each is a search of its own: left to one search, Hypothesis would try variations of the same
    few programs.

    Args:
        part: the number of the part; it has random programs of its own.
        test: is given what the strategies draw, and raises if that is a failure.
        strategies: draw a training.
    """
    for number in range(part * _IN_A_PART, (part + 1) * _IN_A_PART):

        @hypothesis.seed(number)
        @settings(
            max_examples=1,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        @given(st.integers(0, 2**64), st.tuples(*strategies))
        def search(not_the_simplest: int, drawn: tuple[Any, ...]) -> None:
            # Every search begins with the simplest program there is.
            hypothesis.assume(not_the_simplest)
            test(*drawn)

        search()
