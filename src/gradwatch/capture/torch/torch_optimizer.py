"""What a torch optimizer holds, and what it is about to do with it."""

from __future__ import annotations

from typing import Any

from gradwatch.capture.errors import WrongValueError
from gradwatch.capture.variable_names import NamedVariable, variables_of
from gradwatch.util import Reporter


def owned(module: Any, optimizer: Any, reporter: Reporter) -> list[NamedVariable]:
    """The module's parameters that the optimizer holds."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    everything = variables_of(module).named
    named = [n for n in everything if id(n.value) in held]
    if not named:
        raise WrongValueError(
            f"The optimizer ({type_of(optimizer)}) holds none of the parameters of the module "
            f"({type_of(module)}). Make it from module.parameters(), after moving the module "
            "to its device."
        )
    if len(named) < len(held):
        reporter.notice(
            f"The optimizer holds {len(held) - len(named)} parameters that the watched module does "
            "not: they are not recorded. Watch the module that holds all of them."
        )
    return named


def scale_of(optimizer: Any) -> Any:
    """What the gradients are still multiplied by, or None.

    `GradScaler.step` unscales them before it calls the optimizer, except for fused
    optimizers: to those it gives the scale, to divide by themselves.
    """
    return getattr(optimizer, "grad_scale", None)


def type_of(given: Any) -> str:
    """The name of its type, for messages."""
    return type(given).__name__
