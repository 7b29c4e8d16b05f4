"""Watching every optimizer of torch that a script makes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from gradwatch.integrations.checking.course import Course
from gradwatch.record import watch
from gradwatch.watches import watch as watches


def watch_optimizers(torch: Any, course: Course) -> Callable[[], None]:
    """Have each optimizer watched together with the module it trains; returns what undoes it.

    Args:
        torch: the module.
        course: is told of the steps.
    """
    hooks_of = import_module("torch.optim.optimizer")  # which torch.optim does not name
    optimizer_class, tensor_class = torch.optim.Optimizer, torch.Tensor
    init, backward = optimizer_class.__init__, tensor_class.backward
    watched: dict[int, tuple[Any, Any]] = {}
    losses: list[Any] = []

    @wraps(init)
    def watched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        module = _module_of(self, torch.nn.Module)
        if module is not None and id(self) not in watched:
            options = {"watch": [*_WATCHED, watches.outputs(per_unit=True)]}
            # The optimizer is kept, so that its id stays its own.
            watched[id(self)] = self, watch(module, self, course.monitor(**options))

    @wraps(backward)
    def noting_backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.numel() == 1:
            losses[:] = [self.detach().reshape(())]
        return backward(self, *args, **kwargs)

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        course.begin_step()

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if id(optimizer) in watched and losses:
            watched[id(optimizer)][1].record(loss=losses.pop())

    hooks = [
        hooks_of.register_optimizer_step_pre_hook(before),
        hooks_of.register_optimizer_step_post_hook(after),
    ]

    def undo() -> None:
        optimizer_class.__init__ = init
        tensor_class.backward = backward
        for hook in hooks:
            hook.remove()

    optimizer_class.__init__ = watched_init
    tensor_class.backward = noting_backward
    return undo


_WATCHED = [watches.gradients(), watches.weights(), watches.updates()]


def _module_of(optimizer: Any, module_class: type[Any]) -> Any:
    """The module that holds all that the optimizer trains; None if there is none.

    Of several, the one with the fewest other parameters, and of these the outermost.
    """
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    fitting: list[tuple[int, int, int, Any]] = []
    for each in gc.get_objects():
        if issubclass(type(each), module_class):
            own = {id(p) for p in each.parameters()}
            if held <= own:
                fitting.append((len(own), -sum(1 for _ in each.modules()), len(fitting), each))
    return min(fitting)[-1] if fitting else None
