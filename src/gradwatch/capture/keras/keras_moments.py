"""What Keras's optimizers hold of each variable."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import keras

from gradwatch.capture.keras.model_parts import fact, is_of_keras
from gradwatch.capture.keras.optimizers import find_optimizers, updating_optimizers
from gradwatch.capture.keras.variables import model_variables
from gradwatch.capture.state import HeldMoments, state_infos
from gradwatch.core import KerasModel, KerasOptimizer, Kind, SiteInfo, Tensor
from gradwatch.measure import Framework
from gradwatch.watches import DERIVED_KINDS


class _KerasSlots(NamedTuple):
    """Where an optimizer keeps its moments: names of lists with a variable for each trainable one.

    An optional list is empty. The decay is that of the second moment, if its bias is corrected.
    """

    first: str = ""
    second: str = ""
    largest: str = ""
    mean: str = ""
    decay: str = ""
    is_epsilon_in_root: bool = False
    is_epsilon_corrected: bool = False
    is_descent: bool = False


_ADAM = _KerasSlots("_momentums", "_velocities", "_velocity_hats", decay="beta_2")
_CORRECTED = _ADAM._replace(is_epsilon_corrected=True, largest="")
_SLOTS: Mapping[str, _KerasSlots] = {
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "Nadam": _CORRECTED,
    "Lamb": _CORRECTED,
    "Adamax": _KerasSlots("_m"),
    "RMSprop": _KerasSlots(
        "_momentums", "_velocities", mean="_average_gradients", is_epsilon_in_root=True
    ),
    "Adagrad": _KerasSlots(second="_accumulators", is_epsilon_in_root=True),
    "Adadelta": _KerasSlots(second="_accumulated_grads", is_epsilon_in_root=True),
    "Lion": _KerasSlots("_momentums"),
    "SGD": _KerasSlots("momentums", is_descent=True),
    "Muon": _KerasSlots("momentums", "adam_velocities", decay="adam_beta_2"),
}
"""By the optimizer's class. Others, such as Adafactor and Ftrl, are refused by their names."""

Read = Callable[[Any], Any]
"""Gives the value of a variable of Keras's."""


class KerasState:
    """Reads the moments of optimizers."""

    def __init__(self, optimizers: Sequence[KerasOptimizer]) -> None:
        self._outermost = optimizers
        self._known: dict[int, tuple[KerasOptimizer, Any]] = {}

    @classmethod
    def of_model(cls, model: KerasModel) -> "KerasState":
        """On JAX only those of `model.optimizer`, whose variables the step returns."""
        every = find_optimizers(model)
        if keras.backend.backend() == "jax":
            own = fact(model, "optimizer")
            every = [each for each in every if each is own]
        return cls(every)

    @property
    def optimizers(self) -> list[KerasOptimizer]:
        """Those that update weights."""
        return updating_optimizers(self._outermost)

    @property
    def is_built(self) -> bool:
        """Whether all of them have made their variables."""
        return all(optimizer.built for optimizer in self.optimizers)

    @property
    def _owners(self) -> dict[int, tuple[KerasOptimizer, Any]]:
        """By the variable's id, the optimizer that updates it, and the variable."""
        if not self._known and self.is_built:
            self._known = {
                id(variable): (optimizer, variable)
                for optimizer in self.optimizers
                if _slots(optimizer) is not None
                for variable in optimizer._trainable_variables
            }
        return self._known

    def notices(self) -> list[str]:
        """What is not recorded, in words."""
        unknown = [type(each).__name__ for each in self.optimizers if _slots(each) is None]
        found = [
            f"The state of {name} is not recorded: it is of a form that is not known. Known are "
            f"those of Keras's own {', '.join(_SLOTS)}."
            for name in unknown
        ]
        if not found and not any(self._moments(key, _itself, None) for key in self._owners):
            names = ", ".join(sorted({type(each).__name__ for each in self.optimizers}))
            found.append(f"The optimizer ({names}) holds no moments, so none are recorded.")
        return found

    def infos(self, model: KerasModel) -> list[SiteInfo]:
        """The sites of all moments, in network order."""
        found: list[SiteInfo] = []
        for each in model_variables(model):
            moments = self._moments(id(each.variable), _itself, None)
            if moments is not None:
                found += state_infos(each.describe(Kind.WEIGHT)[0], moments)
        return found

    def moments_of_all(self, own: Framework, values: Any) -> dict[int, HeldMoments]:
        """By the variable's id; from the values of the optimizer's variables, if given."""
        read = self._reading(values)
        found = {key: self._moments(key, read, own) for key in self._owners}
        return {key: moments for key, moments in found.items() if moments is not None}

    def reader(self, own: Framework, eager: Any, state: Any) -> Callable[[Kind, int, Tensor], Any]:
        """After the step: what is measured of a variable, by kind, id and the gradient applied.

        `state` is that of a JAX step. An `EagerStep` measures at once what is computed for it.
        """
        read = self._reading(None if state is None else state[2])
        known: dict[int, HeldMoments | None] = {}

        def tensor(kind: Kind, key: int, gradient: Tensor) -> Any:
            if key not in known:
                known[key] = self._moments(key, read, own)
            moments = known[key]
            found = None if moments is None else moments.tensor(kind, gradient, own)
            if eager is None or kind not in DERIVED_KINDS:
                return found
            return eager.add(found, False)

        return tensor

    def _reading(self, values: Any) -> Read:
        if values is None:
            return _value
        variables = [v for optimizer in self._outermost for v in optimizer.variables]
        by_id = {id(v): x for v, x in zip(variables, values, strict=True)}
        return lambda variable: by_id[id(variable)]

    def _moments(self, key: int, read: Read, own: Framework | None) -> HeldMoments | None:
        """Those of the variable with that id; None if it has none.

        Without a framework, they only tell what there is.
        """
        if key not in self._owners:
            return None
        optimizer, variable = self._owners[key]
        slots, index = _slots(optimizer), optimizer._get_variable_index(variable)
        assert slots is not None
        first, second = (_at(optimizer, name, index) for name in (slots.first, slots.second))
        found = HeldMoments(
            None if first is None else read(first),
            None if second is None else read(second),
            floor=None if second is None else float(optimizer.epsilon),
            is_descent=slots.is_descent,
        )
        if own is None:
            return found if found.kinds else None
        if second is None:
            return found
        largest, mean = (_at(optimizer, name, index) for name in (slots.largest, slots.mean))
        if largest is not None:
            found = replace(found, divisor=read(largest))
        elif mean is not None:
            divisor = own.difference(found.second, own.copy(read(mean)) ** 2)
            found = replace(found, divisor=divisor)
        return _corrected(found, optimizer, slots, read, own)


def _corrected(
    found: HeldMoments, optimizer: KerasOptimizer, slots: _KerasSlots, read: Read, own: Framework
) -> HeldMoments:
    """The moments with the correction of their bias, and epsilon in its place."""
    decay = float(getattr(optimizer, slots.decay)) if slots.decay else 0.0
    correction: Any = 1.0
    if decay > 0:
        # Keras's own powers in float32 are less exact: 1e-5 of the correction at the first steps.
        count = read(optimizer._iterations)
        if optimizer.gradient_accumulation_steps:
            count = count // optimizer.gradient_accumulation_steps
        correction = own.bias_correction(decay, count)
    floor = found.floor
    if slots.is_epsilon_in_root:
        floor = floor**0.5
    elif slots.is_epsilon_corrected:
        floor = floor * correction**0.5
    return replace(found, correction=correction, floor=floor)


def _slots(optimizer: KerasOptimizer) -> _KerasSlots | None:
    # A class of the user may mean something else by the same names.
    return _SLOTS.get(type(optimizer).__name__) if is_of_keras(type(optimizer)) else None


def _at(optimizer: KerasOptimizer, name: str, index: int) -> Any:
    several = getattr(optimizer, name, None) if name else None
    return several[index] if several else None


def _itself(variable: Any) -> Any:
    return variable


def _value(variable: Any) -> Any:
    return variable.value
