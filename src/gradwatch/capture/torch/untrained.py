"""Parameters that get gradients, and that no optimizer changes."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from gradwatch.capture.torch.graph_nodes import ancestors
from gradwatch.capture.torch.torch_parallel import is_dtensor
from gradwatch.capture.variable_names import unwrapped
from gradwatch.core import TorchModule, TorchOptimizer

_STEPS = 5
"""Steps until it is known: the first ones may change nothing, with a warm-up for example."""
_STEPS_OF_OTHERS = 30
"""Steps until it is known that nothing trains what was never trained: others may begin later."""
_ELEMENTS = 64
"""Elements of each parameter that are compared."""
_MOST = 200


class UntrainedParameters:
    """Looks for them in the first steps; another optimizer, which is not watched, may train them.

    `unheld` and `unregistered` are the paths of their layers, `elements` the number of parameters;
    None until that is known. `fresh` are those of `unheld` that have never been trained before,
    `alike` those of trained layers whose units are all the same.
    """

    def __init__(self, module: TorchModule, optimizer: TorchOptimizer) -> None:
        self.unheld: tuple[str, ...] = ()
        self.unregistered: tuple[str, ...] = ()
        self.fresh: tuple[str, ...] = ()
        self.alike: tuple[str, ...] = ()
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
        if self._steps == _STEPS:
            self.alike = tuple(_alike(self._module))
        if self._steps not in (_STEPS, _STEPS_OF_OTHERS) or not self._before:
            return self._steps == _STEPS and bool(self.alike)
        same = {n: x for n, x in self._before.items() if torch.equal(x[1], _part(x[0]))}
        self._before = same
        self.unheld = _layers({n: x for n, x in same.items() if not x[2]})
        self.unregistered = _layers({n: x for n, x in same.items() if x[2]})
        self.elements = sum(x[0].numel() for x in same.values())
        if self._steps == _STEPS_OF_OTHERS:
            self.fresh = _layers(dict(_fresh({n: x[0] for n, x in same.items() if not x[2]})))
            self._before = {}
            return True
        return bool(same or self.alike)

    def _candidates(self) -> Iterator[tuple[str, tuple[Any, Any, bool]]]:
        held = {id(p) for part in self._optimizer.param_groups for p in part["params"]}
        known = dict(self._module.named_parameters(remove_duplicate=False))
        registered = {id(p) for p in known.values()}
        hidden = {n: p for n, p in hidden_parameters(self._module) if id(p) not in registered}
        for name, parameter in list({**hidden, **known}.items()):
            is_learning = parameter.requires_grad and parameter.grad is not None
            # Those with a gradient of 0 need no optimizer.
            is_candidate = is_learning and id(parameter) not in held and _is_whole(parameter)
            if is_candidate and len(self._before) < _MOST:
                yield name, (parameter, _part(parameter), name in hidden)


def _alike(module: Any) -> Iterator[str]:
    """The layers whose units all have the same weights, although these are trained.

    Not those whose units get other inputs each, or are looked up, or are a single one.
    """
    for path, each in module.named_modules():
        weight = each._parameters.get("weight")
        if weight is None or weight.ndim < 2 or weight.shape[0] < 2 or weight.grad is None:
            continue
        if not _is_whole(weight):
            continue
        if isinstance(each, torch.nn.Embedding | torch.nn.EmbeddingBag):
            continue
        if getattr(each, "groups", 1) > 1 or getattr(each, "transposed", False):
            continue
        values = weight.detach()
        # Two units first: those of nearly all layers differ, and then nothing large is made.
        if not torch.equal(values[0], values[1]):
            continue
        if bool((values == values[:1]).all()) and bool((values != 0).any()):
            yield path.replace(".", "/")


def _is_whole(parameter: Any) -> bool:
    """Whether this process has all of it: looking at shards would be a collective of one rank."""
    return not is_dtensor(parameter)


def _part(parameter: Any) -> Any:
    """A copy of some elements."""
    return parameter.detach().flatten()[:_ELEMENTS].clone()


def is_fresh(module: TorchModule) -> bool:
    """Whether a module has never been trained: its norms are 1; without any, by its matrices."""
    parameters = dict(unwrapped(module).named_parameters())
    if not all(map(_is_whole, parameters.values())):
        return False
    norms = [p for name, p in parameters.items() if p.ndim == 1 and name.endswith("weight")]
    if norms:
        return all(bool((p.detach() == 1.0).all()) for p in norms)
    return bool(dict(_fresh(parameters)))


def _fresh(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Those that have never been trained; none, if most matrices have: a few may look so."""
    found = {name: p for name, p in parameters.items() if _is_fresh(name, p)}
    matrices = [name for name, p in parameters.items() if p.ndim > 1]
    if 2 * sum(name in found for name in matrices) > len(matrices):
        yield from found.items()


def _is_fresh(name: str, parameter: Any) -> bool:
    """Whether values are as torch initializes them: a training leaves no bound and no 0 as it was.

    Matrices are uniform up to a bound that their shape gives, norms are 1, biases 0.
    """
    values = parameter.detach()
    if values.ndim < 2:
        constant = {"weight": 1.0, "bias": 0.0}.get(name.rpartition(".")[2])
        return constant is not None and bool((values == constant).all())
    inside = math.prod(values.shape[2:])
    given, returned = values.shape[1] * inside, values.shape[0] * inside
    if values.numel() < _ELEMENTS or not values.is_floating_point():
        return False
    largest, spread = float(values.abs().max()), float(values.float().std())
    for square in (1.0 / given, 6.0 / given, 3.0 / given, 6.0 / (given + returned)):
        bound = math.sqrt(square)
        # Of so many samples; low precision rounds.
        is_bound = 1.0 - 5.0 / values.numel() < largest / bound < 1.001
        off = abs(spread * math.sqrt(3.0) / bound - 1.0)
        if is_bound and off < 2.0 / math.sqrt(values.numel()):
            return True
    return False


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


def own_parameters(module: TorchModule, optimizer: TorchOptimizer) -> set[int]:
    """The ids of the parameters of a module, hidden ones too, and of its optimizer."""
    own = {id(p) for p in module.parameters()}
    own.update(id(p) for _, p in hidden_parameters(unwrapped(module)))
    own.update(id(p) for part in optimizer.param_groups for p in part["params"])
    return own


class OwnLosses:
    """Tells the losses of an optimizer from those of another one in the same loop.

    A loss from which none of its parameters learns is another's: that of a discriminator that is a
    part of the same module. If a whole step has no other, it is taken all the same.
    """

    def __init__(self, optimizer: TorchOptimizer) -> None:
        self._optimizer = optimizer
        self._held: set[int] = set()
        self._count = -1
        self._takes_any = self._has_left_out = False

    def __contains__(self, root: Any) -> bool:
        """Whether a loss, given by the root of its graph, is one of this optimizer."""
        groups = self._optimizer.param_groups
        if self._count != (count := sum(len(part["params"]) for part in groups)):
            self._count, self._held = count, {id(p) for part in groups for p in part["params"]}
        nodes = ancestors(root, 20_000)
        is_own = self._takes_any or any(
            id(getattr(x, "variable", None)) in self._held for x in nodes
        )
        self._has_left_out |= not is_own
        return is_own

    def step_ended(self, has_read: bool) -> None:
        """A step has ended; `has_read` says whether a loss was read in it or before."""
        self._takes_any |= self._has_left_out and not has_read
