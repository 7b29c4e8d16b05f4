"""How many random trainings are tried, and in how many parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import hypothesis
import keras
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.keras.twins.compare import MONITORS, DifferentError

BACKEND = keras.backend.backend()
FULL = int(os.environ.get("GRADWATCH_TWINS", "0"))
"""How many trainings to try; 0 for the few of each test."""
_IN_A_PART = 2


def parts(few: int) -> range:
    """The parts in which trainings are tried, which pytest may spread over processes.

    Args:
        few: how many trainings are tried unless GRADWATCH_TWINS says another number.
    """
    return range(-(-(FULL or few) // _IN_A_PART))


def try_part(part: int, unlike: Callable[[Any, str], list[str]], programs: Any) -> None:
    """Try the trainings of one part; a failure is reduced by Hypothesis.

    Each is a search of its own: left to one search, Hypothesis would try variations of the same
    few programs.

    Args:
        part: the number of the part; it has random programs of its own.
        unlike: tells, in words, what a monitor changes in a training.
        programs: draws a training.

    Raises:
        DifferentError: a monitor changes one of them, which is printed.
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
        @given(st.integers(0, 2**64), programs, st.sampled_from(list(MONITORS)))
        def search(not_the_simplest: int, program: Any, monitor: str) -> None:
            # Every search begins with the simplest program there is.
            hypothesis.assume(not_the_simplest)
            found = "\n".join(unlike(program, monitor)[:5])
            if found:
                raise DifferentError(f"{monitor} changes this training:\n{found}\n\n{program}")

        search()
