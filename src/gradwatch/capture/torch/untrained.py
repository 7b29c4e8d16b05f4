"""Parameters that get gradients, and that no optimizer changes."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from gradwatch.capture.variable_names import unwrapped
from gradwatch.core import TorchModule, TorchOptimizer

_STEPS = 5
"""Steps until it is known: the first ones may change nothing, with a warm-up for example."""
_ELEMENTS = 64
"""Elements of each parameter that are compared."""
_MOST = 200


class UntrainedParameters:
    """Looks for them in the first steps; another optimizer, which is not watched, may train them.

    `unheld` and `unregistered` are the paths of their layers, `elements` the number of parameters;
    None until that is known.
    """

    def __init__(self, module: TorchModule, optimizer: TorchOptimizer) -> None:
        self.unheld: tuple[str, ...] = ()
        self.unregistered: tuple[str, ...] = ()
        self.elements: int | None = None
        self._module = unwrapped(module)
        self._optimizer = optimizer
        self._steps = 0
        self._before: dict[str, tuple[Any, Any, bool]] = {}

    def step_ended(self) -> bool:
        """A step has ended; True if more is known now."""
        self._steps += 1
        if self._steps == 1:
            self._before = dict(self._candidates())
        if self._steps != _STEPS or not self._before:
            return False
        same = {n: x for n, x in self._before.items() if torch.equal(x[1], _part(x[0]))}
        self._before = {}
        self.unheld = _layers({n: x for n, x in same.items() if not x[2]})
        self.unregistered = _layers({n: x for n, x in same.items() if x[2]})
        self.elements = sum(x[0].numel() for x in same.values())
        return bool(same)

    def _candidates(self) -> Iterator[tuple[str, tuple[Any, Any, bool]]]:
        held = {id(p) for part in self._optimizer.param_groups for p in part["params"]}
        known = dict(self._module.named_parameters(remove_duplicate=False))
        registered = {id(p) for p in known.values()}
        hidden = {n: p for n, p in hidden_parameters(self._module) if id(p) not in registered}
        for name, parameter in list({**hidden, **known}.items()):
            is_learning = parameter.requires_grad and parameter.grad is not None
            # Those with a gradient of 0 need no optimizer.
            if is_learning and id(parameter) not in held and len(self._before) < _MOST:
                yield name, (parameter, _part(parameter), name in hidden)


def _part(parameter: Any) -> Any:
    """A copy of some elements."""
    return parameter.detach().flatten()[:_ELEMENTS].clone()


def hidden_parameters(module: Any) -> Iterator[tuple[str, Any]]:
    """The parameters of modules in plain lists and dicts, which torch does not know."""
    for path, each in module.named_modules():
        for name, value in vars(each).items():
            if name.startswith("_") or not isinstance(value, list | tuple | dict):
                continue
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, inner in items:
                if isinstance(inner, torch.nn.Module):
                    prefix = ".".join([*filter(None, [path]), name, str(key)])
                    for own, parameter in inner.named_parameters():
                        yield f"{prefix}.{own}", parameter


def _layers(named: Mapping[str, Any]) -> tuple[str, ...]:
    paths = [name.replace(".", "/").rpartition("/") for name in named]
    return tuple(dict.fromkeys(layer or name for layer, _, name in paths))
