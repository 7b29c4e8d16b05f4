"""How many random trainings are tried, and in how many parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import hypothesis
import keras
from hypothesis import HealthCheck, settings

BACKEND = keras.backend.backend()
FULL = int(os.environ.get("GRADWATCH_TWINS", "0"))
_IN_A_PART = 25


def parts(few: int) -> range:
    """The parts in which trainings are tried: as many as pytest may spread over processes.

    Args:
        few: how many trainings are tried unless GRADWATCH_TWINS says another number.
    """
    return range(-(-(FULL or few) // _IN_A_PART))


def trying(part: int, few: int) -> Callable[[Any], Any]:
    """Decorates a test with `given`, to try the trainings of one part.

    Args:
        part: the number of the part; it has random programs of its own.
        few: as for `parts`.
    """
    among = parts(few)
    tried = settings(
        max_examples=-(-(FULL or few) // len(among)),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    return lambda test: hypothesis.seed(part)(tried(test))
