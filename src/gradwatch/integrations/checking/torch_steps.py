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
    hooks = import_module("torch.optim.optimizer")  # not exported by torch.optim
    modules = import_module("torch.nn.modules.module")
    from gradwatch.capture.torch import add_global_hook

    optimizer_class = torch.optim.Optimizer
    init = optimizer_class.__init__
    waiting: list[Any] = []
    # Keeping the optimizers keeps their ids from being reused.
    known: dict[int, Any] = {}
    losses: list[Any] = []

    @wraps(init)
    def noting_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if id(self) not in known:
            known[id(self)] = self
            waiting.append(self)

    def begin() -> None:
        optimizers, waiting[:] = list(waiting), []
        for optimizer in optimizers:
            module = _module_of(optimizer, torch.nn.Module)
            if module is None:
                continue
            monitor = training.monitor(is_torch=True)
            watch(module, optimizer, monitor)
            losses[:] = losses or [monitor._loop.backward_losses()]
            monitor._loop.record_losses(losses[0], optimizer)

    def before_forward(module: Any, args: Any) -> None:
        # Not earlier: trainers wrap the module after they have made its optimizer.
        if waiting and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            begin()

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        begin()
        training.begin_step()

    ends = [
        add_global_hook(modules.register_module_forward_pre_hook, before_forward),
        hooks.register_optimizer_step_pre_hook(before_step).remove,
    ]

    def undo() -> None:
        optimizer_class.__init__ = init
        for end in ends:
            end()
        for each in losses:
            each.close()

    optimizer_class.__init__ = noting_init
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
