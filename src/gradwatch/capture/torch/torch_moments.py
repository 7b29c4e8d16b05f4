"""What optimizers of torch hold of each parameter."""

from collections.abc import Mapping, Sequence
from operator import is_not
from typing import Any, NamedTuple

import torch

from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.state import HeldMoments
from gradwatch.capture.step_tensors import StepTensors, state_tensors
from gradwatch.capture.torch.torch_parallel import Spread
from gradwatch.capture.variable_names import NamedVariable
from gradwatch.core import Kind, Tensor, TorchOptimizer
from gradwatch.measure import framework


class _TorchSlots(NamedTuple):
    """The keys of an optimizer's moments; `divides` if it divides by the root of the second one."""

    first: str = ""
    second: str = ""
    divides: bool = True
    is_epsilon_in_root: bool = False
    corrects: bool = False


class _Correction(NamedTuple):
    """Of a second moment: what it is divided by, and the floor of its root before that."""

    factor: Any
    floor: Any


_ADAM = _TorchSlots("exp_avg", "exp_avg_sq", corrects=True)
_SLOTS: Mapping[str, _TorchSlots] = {
    **dict.fromkeys(("Adam", "AdamW", "NAdam"), _ADAM),
    "RAdam": _ADAM._replace(divides=False),
    "Adamax": _TorchSlots("exp_avg"),
    "RMSprop": _TorchSlots("momentum_buffer", "square_avg"),
    "Adagrad": _TorchSlots(second="sum"),
    "Adadelta": _TorchSlots(second="square_avg", is_epsilon_in_root=True),
    "SGD": _TorchSlots("momentum_buffer"),
    "Muon": _TorchSlots("momentum_buffer"),
}
"""By the class, of those in `torch.optim`."""

_UNKNOWN = _TorchSlots("exp_avg", "exp_avg_sq", divides=False)
"""Of other classes: these names mean the same everywhere, but not what is made of them."""


class TorchState:
    """Reads the moments of an optimizer; `expected` tells beforehand which there will be."""

    def __init__(self, optimizer: TorchOptimizer) -> None:
        self._optimizer = optimizer
        kind = type(optimizer)
        is_own = f"{kind.__module__}.".startswith("torch.optim.")
        self._name = kind.__name__
        self._slots = _SLOTS.get(self._name) if is_own else _UNKNOWN
        self._known_groups: list[Mapping[str, Any]] = []
        self._group_of: dict[int, Mapping[str, Any]] = {}

    def _group(self, parameter: Tensor) -> Mapping[str, Any] | None:
        """The group of a parameter: loading a state replaces all groups, and some may be added."""
        groups, known = self._optimizer.param_groups, self._known_groups
        if len(groups) != len(known) or any(map(is_not, groups, known)):
            self._known_groups = list(groups)
            self._group_of = {id(p): group for group in groups for p in group["params"]}
        return self._group_of.get(id(parameter))

    @property
    def changes_gradients(self) -> bool:
        """Whether a step may leave other gradients than it was given."""
        is_nesterov = any(group.get("nesterov") for group in self._optimizer.param_groups)
        is_scaled = getattr(self._optimizer, "grad_scale", None) is not None
        return self._slots is _UNKNOWN or is_nesterov or is_scaled

    def expected(self, parameter: Tensor) -> HeldMoments | None:
        """What there will be of a parameter after a step: placeholders instead of tensors."""
        slots, group = self._slots, self._group(parameter)
        if slots is None or group is None:
            return None
        keys = {slots.first, slots.second} - {""}
        if not group.get("momentum", 1):
            keys -= {"momentum_buffer"}
        if slots is _UNKNOWN and parameter in self._optimizer.state:
            state = self._optimizer.state[parameter]
            keys = {key for key in keys if _moment(state, key, parameter) is not None}
        first = parameter if slots.first in keys else None
        second = parameter if slots.second in keys else None
        return HeldMoments(first, second, floor=0.0 if slots.divides else None)

    def moments(self, parameters: Sequence[Tensor]) -> dict[int, HeldMoments]:
        """Those after a step, by the parameter's id; empty where there are none yet."""
        corrections = self._corrections(parameters)
        return {id(p): self._moments(p, corrections.get(id(p))) for p in parameters}

    def _moments(self, parameter: Tensor, correction: _Correction | None) -> HeldMoments:
        slots, group = self._slots, self._group(parameter)
        state = self._optimizer.state.get(parameter)
        if slots is None or group is None or not state:
            return HeldMoments()
        first, second = (_moment(state, key, parameter) for key in (slots.first, slots.second))
        # torch gives such an optimizer the negative of the gradient.
        is_descent = bool(group.get("maximize"))
        if second is None or not slots.divides:
            return HeldMoments(first, second, is_descent=is_descent)
        own, epsilon = framework("torch"), group["eps"]
        divisor = None
        if group.get("amsgrad"):
            divisor = state.get("max_exp_avg_sq")
        elif group.get("centered"):
            divisor = own.difference(second, own.copy(state["grad_avg"]) ** 2)
        if correction is None:
            correction = _Correction(1.0, epsilon**0.5 if slots.is_epsilon_in_root else epsilon)
        return HeldMoments(first, second, divisor, *correction, is_descent)

    def _corrections(self, parameters: Sequence[Tensor]) -> dict[int, _Correction]:
        """Of the bias of second moments, by the parameter's id.

        Counts of steps on a device are used there, as fetching one would wait, and all at once, as
        with hundreds of them, calls take longer than computing.
        """
        if self._slots is None or not self._slots.corrects:
            return {}
        found: dict[int, _Correction] = {}
        away: dict[Any, tuple[Mapping[str, Any], dict[int, Tensor]]] = {}
        for parameter in parameters:
            group, state = self._group(parameter), self._optimizer.state.get(parameter)
            if group is None or not state:
                continue
            if _is_away(state["step"]):
                _, counts = away.setdefault((id(group), state["step"].device), (group, {}))
                counts[id(parameter)] = state["step"]
            else:
                found[id(parameter)] = _corrected(group, float(state["step"]))
        for group, counts in away.values():
            several = _corrected(group, torch.stack(list(counts.values())).float())
            each = map(_Correction, several.factor.unbind(), several.floor.unbind())
            found |= zip(counts, each, strict=True)
        return found

    def tensors(self, named: Sequence[NamedVariable], prefix: str) -> StepTensors:
        """The sites of the moments of these parameters, with the parameters as their tensors."""
        found = [(n, self.expected(n.value)) for n in named if n.value.requires_grad]
        return state_tensors([(n, m, None) for n, m in found if m is not None], None, prefix)

    def notice(self) -> str | None:
        """What is not recorded, in words."""
        if self._slots is None:
            return (
                f"The state of {self._name} is not recorded: it is of a form that is not known. "
                f"Known are those of torch.optim's {', '.join(_SLOTS)}."
            )
        if self._slots is _UNKNOWN:
            return (
                f"Of {self._name}, which is not one of torch.optim, exp_avg and exp_avg_sq are "
                "recorded as first and second moment, if it has them in the parameter's shape; not "
                "gradients relative to the second moment, as it is not known what the optimizer "
                "makes of it."
            )
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        expected = [self.expected(parameter) for parameter in parameters]
        if any(moments is not None and moments.kinds for moments in expected):
            return None
        return f"The optimizer ({self._name}) holds no moments, so none are recorded."


def _moment(state: Mapping[str, Any], key: str, parameter: Tensor) -> Tensor:
    """The tensor under a key; None if there is none of the parameter's shape, but a packed one."""
    found = state.get(key)
    is_moment = isinstance(found, torch.Tensor) and found.shape == parameter.shape
    return found if is_moment else None


def _is_away(count: Any) -> bool:
    """Whether reading it would wait for a device."""
    return isinstance(count, torch.Tensor) and count.device.type != "cpu"


def _corrected(group: Mapping[str, Any], count: Any) -> _Correction:
    factor = framework("torch").bias_correction(group["betas"][1], count)
    return _Correction(factor, group["eps"] * factor**0.5)


def state_of(optimizer: TorchOptimizer, spread: Spread, loop: LoopCapture) -> TorchState | None:
    """Reads what an optimizer holds; None if that is not watched, or shards hold it."""
    if Kind.FIRST_MOMENT not in loop.timetable.kinds:
        return None
    if spread is Spread.SHARDED:
        loop.reporter.notice(
            "The optimizer's state is not recorded: its tensors are spread over the processes."
        )
        return None
    state = TorchState(optimizer)
    if (notice := state.notice()) is not None:
        loop.reporter.notice(notice)
    return state
