"""Monitors every torch optimizer that a script creates."""

import gc
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from gradwatch.integrations.checking.checked_training import CheckedTraining
from gradwatch.record import watch
from gradwatch.watches import watch as watches


def patch_optimizers(torch: Any, training: CheckedTraining) -> Callable[[], None]:
    """Monitor each optimizer and the module that it trains; returns a function that undoes it."""
    step_hooks = import_module("torch.optim.optimizer")  # not exported by torch.optim
    optimizer_class, tensor_class = torch.optim.Optimizer, torch.Tensor
    init, backward = optimizer_class.__init__, tensor_class.backward
    watched: dict[int, tuple[Any, Any]] = {}
    losses: list[Any] = []

    @wraps(init)
    def watched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        module = _module_of(self, torch.nn.Module)
        if module is not None and id(self) not in watched:
            kinds = [watches.gradients(), watches.weights(), watches.updates()]
            monitor = training.monitor(watch=[*kinds, watches.outputs(per_unit=True)])
            # Keeping the optimizer keeps its id from being reused.
            watched[id(self)] = self, watch(module, self, monitor)

    @wraps(backward)
    def watched_backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.numel() == 1:
            losses[:] = [self.detach().reshape(())]
        return backward(self, *args, **kwargs)

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        training.begin_step()

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if id(optimizer) in watched and losses:
            watched[id(optimizer)][1].record(loss=losses.pop())

    hooks = [
        step_hooks.register_optimizer_step_pre_hook(before_step),
        step_hooks.register_optimizer_step_post_hook(after_step),
    ]

    def undo() -> None:
        optimizer_class.__init__ = init
        tensor_class.backward = backward
        for hook in hooks:
            hook.remove()

    optimizer_class.__init__ = watched_init
    tensor_class.backward = watched_backward
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
