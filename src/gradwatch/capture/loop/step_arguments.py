"""The arguments of `record` and `measure`, checked and parsed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gradwatch.capture.batch import batch_infos, batch_tensors
from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.layer_tensors import layer_tensors
from gradwatch.capture.loop.alignment import aligned
from gradwatch.capture.loop.given_state import given_moments
from gradwatch.capture.loop.reduced_gradients import ReducedGradients
from gradwatch.capture.loop.step_count import group_name, whole_number
from gradwatch.capture.shapes import common_framework
from gradwatch.capture.step_tensors import (
    ABSENT,
    SiteTensor,
    StepTensors,
    complex_notices,
    state_tensors,
    variable_tensors,
)
from gradwatch.capture.user_taps import TapRows
from gradwatch.capture.variable_names import NamedVariable, Variables, dtype_name, variables_of
from gradwatch.core import Kind, Tensor, Tree, scope
from gradwatch.measure import Framework, family, framework


@dataclass(frozen=True)
class StepArguments:
    """The arguments of one call, see `Monitor.record` and `Monitor.measure`."""

    readings: Any = None
    gradients: Tree = None
    variables: Tree = None
    parameters: Tree = None
    loss: Tensor = None
    losses: Tensor = None
    samples: Any = None
    metrics: Any = None
    previous: Tree = None
    applied_gradients: Tree = None
    optimizer_state: Any = None
    names: Any = None
    outputs: Any = None
    output_gradients: Any = None
    taps: Any = None
    inputs: Tree = None
    targets: Tree = None
    step: Any = None
    epoch: Any = None
    group: str | None = None
    micro_batch: int | None = None
    reduced: bool = False
    histograms: Any = True

    def detached(self) -> StepArguments:
        """The same without what torch keeps to differentiate the losses."""
        return replace(self, loss=detached(self.loss), losses=detached(self.losses))

    @cached_property
    def group_name(self) -> str:
        """The name of the group; empty without one."""
        return group_name(self.group)

    @cached_property
    def part(self) -> int | None:
        """The index of the micro-batch, if it is one."""
        return whole_number("micro_batch", self.micro_batch)

    @property
    def where(self) -> tuple[int | None, int | None]:
        """The step and the epoch, as far as they are given."""
        return whole_number("step", self.step), whole_number("epoch", self.epoch)

    @property
    def own_variables(self) -> Tree:
        """The variables, under either of their names."""
        if self.variables is not None and self.parameters is not None:
            raise WrongTypeError("variables= and parameters= are two names for the same. Give one.")
        return self.parameters if self.variables is None else self.variables

    @property
    def is_reduced(self) -> bool:
        """Whether the gradients are those of all replicas together."""
        return bool(self.reduced) or isinstance(self.gradients, ReducedGradients)

    @property
    def has_batch(self) -> bool:
        return self.inputs is not None or self.targets is not None

    @cached_property
    def has_tensors(self) -> bool:
        """Whether there are tensors of the network."""
        tensors = (self.gradients, self.own_variables, self.previous, self.applied_gradients)
        others = (self.names, self.outputs, self.output_gradients, self.optimizer_state)
        return any(x is not None for x in (*tensors, *others, self.taps))

    @property
    def has_only_metrics(self) -> bool:
        others = self.has_tensors or self.has_batch or self.readings is not None
        others = others or self.loss is not None or self.losses is not None
        return self.metrics is not None and not others

    def _tap_rows(self) -> TapRows:
        """What has passed taps; raises TypeError if it is anything else."""
        taps = TapRows() if self.taps is None else self.taps
        if not isinstance(taps, TapRows):
            raise WrongTypeError(
                "taps= takes what gradwatch.with_taps gives: result, taps = "
                f"gradwatch.with_taps(step)(...). Received: {type(taps).__name__}"
            )
        return taps

    def check(self) -> None:
        """Refuse combinations of arguments of `record` that cannot be meant."""
        if self.readings is not None and self.has_tensors:
            raise WrongTypeError("Give record() either readings or tensors, not both.")
        if self.readings is not None and self.micro_batch is not None:
            raise WrongTypeError(
                "micro_batch= is for measure(), when readings are given to record()."
            )
        if self.samples is not None and self.losses is None:
            raise WrongTypeError("samples= names the samples of losses=, which is not given.")
        given = self.has_tensors or self.has_batch or self.metrics is not None
        given = given or self.losses is not None
        if not given and all(x is None for x in (self.readings, self.loss, self.epoch)):
            raise WrongTypeError(
                "record() was given nothing. Call record(gradients=..., variables=...) or, after "
                "measure() in a compiled step, record(readings, step=...)."
            )

    def parse(self) -> StepTensors:
        """The tensors of the step; raises if the arguments do not fit together."""
        prefix = scope(self.group_name, self.part)
        layers = layer_tensors(self.outputs, self.output_gradients, prefix)
        inputs = self.parse_inputs(prefix)
        variables, gradients = self.own_variables, self.gradients
        if isinstance(gradients, ReducedGradients):
            gradients = gradients.in_order_of(variables)
        if isinstance(gradients, Iterator):
            gradients = list(gradients)
        known = Variables([], [], {})
        if gradients is not None or variables is not None:
            known = variables_of(gradients if variables is None else variables, self.names)
        elif not inputs.tensors and all(
            x is None for x in (self.outputs, self.output_gradients, self.taps)
        ):
            raise WrongTypeError(
                "There is nothing to measure. Give gradients= and variables= (a list, a tree or "
                "a model), for example record(gradients=grads, "
                "variables=model.trainable_variables)."
            )
        by_kind = self._by_kind(known, variables, gradients)
        everything = [x for tensors in by_kind.values() for x in tensors if x is not ABSENT]
        own = common_framework([*everything, *layers.sources, *inputs.sources])
        _reject_stale(known.named, by_kind, own)
        found = inputs + variable_tensors(known.named, by_kind, own.difference, prefix) + layers
        notices = [*found.notices, *complex_notices(known.complex_paths)]
        found = replace(found, taps=self._tap_rows(), notices=notices)
        if self.optimizer_state is None or self.part is not None:
            return found
        return found + self._state(known, by_kind, own, prefix)

    def _state(
        self, known: Variables, by_kind: dict[Kind, list[Tensor]], own: Framework, prefix: str
    ) -> StepTensors:
        """What is measured of the optimizer's state, relative to the gradients given to it."""
        moments, notices = given_moments(self.optimizer_state, known, own)
        none = [None] * len(known.named)
        given = by_kind.get(Kind.APPLIED_GRADIENT, by_kind.get(Kind.GRADIENT, none))
        gradients = [None if x is ABSENT else x for x in given]
        held = [(known.named[i], each, gradients[i]) for i, each in sorted(moments.items())]
        return replace(state_tensors(held, own, prefix), notices=notices)

    def parse_inputs(self, prefix: str | None = None) -> StepTensors:
        """The inputs and targets of the step; without a prefix, paths begin with the group."""
        prefix = self.group_name if prefix is None else prefix
        batch = batch_tensors(self.inputs, self.targets, prefix)
        return StepTensors(
            batch_infos({site: dtype_name(x) for site, x in batch.items()}),
            {site: [SiteTensor(site, x, _as_floats)] for site, x in batch.items()},
        )

    def _by_kind(
        self, known: Variables, variables: Tree, gradients: Tree
    ) -> dict[Kind, list[Tensor]]:
        """By kind, a tensor for each variable."""
        found: dict[Kind, list[Tensor]] = {}
        if gradients is not None:
            found[Kind.GRADIENT] = aligned("gradients", gradients, known)
        elif variables is not None and _are_torch_parameters(known):
            found[Kind.GRADIENT] = [n.value.grad if n.trainable else ABSENT for n in known.named]
        if self.applied_gradients is not None:
            applied = aligned("applied_gradients", self.applied_gradients, known)
            found[Kind.APPLIED_GRADIENT] = applied
        if variables is not None and self.part is None:
            found[Kind.WEIGHT] = [n.value for n in known.named]
        if self.previous is not None and self.part is None:
            if variables is None:
                raise WrongTypeError("previous= needs variables= too: an update is a difference.")
            found[Kind.UPDATE] = aligned("previous", self.previous, known)
        return found


def _are_torch_parameters(known: Variables) -> bool:
    return all(family(n.value) == "torch" and n.value.is_leaf for n in known.named)


def _reject_stale(
    named: list[NamedVariable], by_kind: dict[Kind, list[Tensor]], own: Framework
) -> None:
    """Keras variables in a JAX function hold the values of the time of tracing."""
    if own.NAME != "jax" or Kind.WEIGHT not in by_kind:
        return
    everything = [x for tensors in by_kind.values() for x in tensors if x is not ABSENT]
    if not any(own.is_traced(x) for x in everything if x is not None):
        return
    for variable in named:
        if variable.is_keras and not own.is_traced(variable.value):
            raise WrongValueError(
                f"Inside jax.jit the Keras variable {variable.path!r} has the value it had when "
                "the function was compiled, not the step's own. Give the arrays that the step "
                "works on, and the variables for their names: measure(gradients=grads, "
                "parameters=trainable_values, names=model.trainable_variables)."
            )


def detached(value: Any) -> Any:
    """The same value, without what torch keeps to differentiate it."""
    return value.detach() if hasattr(value, "detach") else value


def _as_floats(tensor: Tensor) -> Tensor:
    """The tensor, in floats if it is of whole numbers."""
    is_float = "float" in dtype_name(tensor)
    return tensor if is_float else framework(family(tensor) or "numpy").copy(tensor)
