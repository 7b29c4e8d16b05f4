"""What is known of a program before it runs."""

from __future__ import annotations

from typing import Any

from .kinds import KINDS
from .program import Program


def describe(program: Program) -> dict[str, Any]:
    """The part of a run's label that does not depend on how it came out."""
    fault = program.fault
    label: dict[str, Any] = {
        "program": program.name,
        "half": program.half,
        "healthy": fault is None,
    }
    if fault is not None:
        kind = KINDS[fault.kind]
        label |= {
            "kind": fault.kind,
            "symptoms": list(fault.symptoms or kind.symptoms),
            "layer": None if fault.layer is None else list(fault.layer),
            "step": fault.step,
            "visible": kind.visible if fault.visible is None else fault.visible,
        }
    return label
