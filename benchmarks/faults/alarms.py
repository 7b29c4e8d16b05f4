"""What any tool says of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .trace import Trace


@dataclass(frozen=True)
class Alarm:
    """One thing that a tool says.

    Attributes:
        rule: the tool's name for it.
        names: what it means in the names of our rules; any of them may be the right one.
        step: at which it was said.
        layer: where; empty if the tool does not say.
    """

    rule: str
    names: tuple[str, ...]
    step: int
    layer: str = ""


Tool = Callable[[Trace], list[Alarm]]
