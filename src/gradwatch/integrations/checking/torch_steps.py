"""Monitors every torch optimizer that a script creates."""

import gc
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from gradwatch.integrations.checking.script_training import ScriptTraining
from gradwatch.record import watch


def patch_optimizers(torch: Any, training: ScriptTraining) -> Callable[[], None]:
    """Monitor each optimizer and the module that it trains; returns a function that undoes it."""
    step_hooks = import_module("torch.optim.optimizer")  # not exported by torch.optim
    optimizer_class = torch.optim.Optimizer
    init = optimizer_class.__init__
    watched: dict[int, Any] = {}
    losses: list[Any] = []

    @wraps(init)
    def watched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        module = _module_of(self, torch.nn.Module)
        if module is not None and id(self) not in watched:
            # Keeping the optimizer keeps its id from being reused.
            watched[id(self)] = self
            monitor = training.monitor(is_torch=True)
            watch(module, self, monitor)
            losses[:] = losses or [monitor._loop.backward_losses()]
            monitor._loop.record_losses(losses[0], self)

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        training.begin_step()

    hook = step_hooks.register_optimizer_step_pre_hook(before_step)

    def undo() -> None:
        optimizer_class.__init__ = init
        hook.remove()
        for each in losses:
            each.close()

    optimizer_class.__init__ = watched_init
    return undo


def _module_of(optimizer: Any, module_class: type[Any]) -> Any:
    """The module that holds all parameters of the optimizer; None if there is none.

    Of several, the one with the fewest other parameters, and of these the outermost.
    """
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    candidates: list[tuple[int, int, int, Any]] = []
    for each in gc.get_objects():
        if issubclass(type(each), module_class):
            own = {id(p) for p in each.parameters()}
            if held <= own:
                depth = sum(1 for _ in each.modules())
                candidates.append((len(own), -depth, len(candidates), each))
    return min(candidates)[-1] if candidates else None
