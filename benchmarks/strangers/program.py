"""A program, as somebody might have written it: a function that trains a network.

It has several cases: healthy ones, which may look broken, and faulty ones, in which one thing is
wrong. The function gets the case by name, and returns a score of held-out data: 1 for all right,
0 for no better than a constant guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .run import Run

Function: TypeAlias = Callable[[Run, str], float]


@dataclass(frozen=True)
class Fault:
    """What is wrong in a case.

    Attributes:
        kind: a key of `KINDS`.
        step: at which the fault begins.
        layer: the first bad layer, as its path may be written; empty if none is defined.
        twin: the healthy case without the fault; the first one of the program if empty.
    """

    kind: str
    step: int = 1
    layer: tuple[str, ...] = ()
    twin: str = ""


@dataclass(frozen=True)
class Case:
    """A program with its case.

    Attributes:
        learns: the score that a healthy case must reach; None for a faulty one.
    """

    family: str
    program: str
    case: str
    function: Function = field(repr=False)
    learns: float | None = None
    fault: Fault | None = None
    twin: str = ""

    @property
    def name(self) -> str:
        """Such as `torch_mlp/digits:low_rate`."""
        return f"{self.family}/{self.program}:{self.case}"


_CASES: dict[str, Case] = {}


def fault(kind: str, step: int = 1, layer: str | tuple[str, ...] = (), twin: str = "") -> Fault:
    """A faulty case; see `Fault`."""
    return Fault(kind, step, (layer,) if isinstance(layer, str) else layer, twin)


def program(**cases: float | Fault) -> Callable[[Function], Function]:
    """Register a function as a program.

    Args:
        cases: by name: the score that a healthy case must reach, or the fault of a faulty one.
    """

    def register(function: Function) -> Function:
        # A family is a module, or a package of several.
        family = function.__module__.partition(".families.")[2].partition(".")[0]
        healthy = [name for name, case in cases.items() if not isinstance(case, Fault)]
        for name, case in cases.items():
            options: dict[str, Any] = {"learns": case}
            if isinstance(case, Fault):
                twin = f"{family}/{function.__name__}:{case.twin or healthy[0]}"
                options = {"fault": case, "twin": twin}
            made = Case(family, function.__name__, name, function, **options)
            _CASES[made.name] = made
        return function

    return register


def registered() -> dict[str, Case]:
    """All cases of the families that are imported, by name."""
    return dict(_CASES)
