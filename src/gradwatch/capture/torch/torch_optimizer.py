"""What `watch` is given: a module, an optimizer, its parameters, the scale of its gradients."""

import torch

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.variable_names import NamedVariable, variables_of
from gradwatch.core import Tensor, TorchModule, TorchOptimizer
from gradwatch.util import Reporter

_WRAPPERS = ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning")
"""Packages whose optimizers call one of torch's, their `optimizer`."""


def innermost(optimizer: TorchOptimizer) -> TorchOptimizer:
    """The optimizer of torch that one of a library calls; any other is returned as it is."""
    while type(optimizer).__module__.partition(".")[0] in _WRAPPERS:
        inner = getattr(optimizer, "optimizer", None)
        if inner is None:
            break
        optimizer = inner
    return optimizer


def check(module: TorchModule, optimizer: TorchOptimizer) -> None:
    """Raise TypeError if they are none of torch."""
    if not isinstance(module, torch.nn.Module):
        raise WrongTypeError(f"watch() takes a torch.nn.Module. Received: {type(module).__name__}")
    if isinstance(optimizer, torch.optim.Optimizer):
        return
    several = (
        " Call it for each of several, with the monitor of the first: "
        "monitor = gradwatch.watch(module_a, optimizer_a, directory, group='a'), then "
        "gradwatch.watch(module_b, optimizer_b, monitor, group='b')."
    )
    advice = several if isinstance(optimizer, list | tuple | dict) else ""
    raise WrongTypeError(
        f"watch() takes a torch optimizer. Received: {type(optimizer).__name__}.{advice}"
    )


def owned(
    module: TorchModule, optimizer: TorchOptimizer, reporter: Reporter
) -> list[NamedVariable]:
    """The parameters of the module that the optimizer holds."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    everything = variables_of(module).named
    named = [n for n in everything if id(n.value) in held]
    if not named:
        raise WrongValueError(
            f"The optimizer ({type(optimizer).__name__}) holds none of the parameters of the "
            f"module ({type(module).__name__}). Make it from module.parameters(), after moving "
            "the module to its device."
        )
    if len(named) < len(held):
        reporter.notice(
            f"The optimizer holds {len(held) - len(named)} parameters that the watched module does "
            "not: they are not recorded. Watch the module that holds all of them."
        )
    return named


def scale_of(optimizer: TorchOptimizer) -> Tensor | None:
    """The factor that gradients are still multiplied by, or None.

    `GradScaler.step` unscales gradients before it calls the optimizer, except for fused
    optimizers, which get the scale and divide by it themselves.
    """
    return getattr(optimizer, "grad_scale", None)


def learning_rates(optimizer: TorchOptimizer) -> dict[str, float]:
    """The learning rate, and the one that a scheduler multiplies, if all parameters share it."""
    rates = {float(part["lr"]) for part in optimizer.param_groups if "lr" in part}
    bases = {float(part.get("initial_lr", 0.0)) for part in optimizer.param_groups}
    found = {"learning_rate": rates.pop()} if len(rates) == 1 else {}
    if len(bases) == 1 and max(bases) > 0:
        found["base_learning_rate"] = bases.pop()
    return found
