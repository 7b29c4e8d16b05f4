"""Reads the gradients off an optimizer as they are handed to it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras

from gradwatch.capture.keras.attributes import replaced
from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.model_parts import fact, is_of_keras
from gradwatch.capture.keras.variables import current_values
from gradwatch.core import KerasModel, KerasOptimizer, Kind, Tensor
from gradwatch.util import Reporter

_NOTING = "noting the gradients that an optimizer is given", "gradients and updates of that step"

Keep = Callable[[Kind, int, Tensor], Any]
"""Takes a kind, a variable's id and a tensor that was made for it; returns what is noted."""


@dataclass
class Gradients:
    """The tensors that passed through the optimizers in one step, by the variable's id."""

    computed: dict[int, Any] = field(default_factory=dict)
    """Unscaled, before clipping; None where the loss does not depend on the variable."""
    applied: dict[int, Any] = field(default_factory=dict)
    """Accumulated and clipped."""
    updates: dict[int, Any] = field(default_factory=dict)
    """Whether the step updates the variable; absent where it always does."""
    applications: dict[int, int] = field(default_factory=dict)
    """How often in the step a gradient of the variable was applied."""
    lost: set[int] = field(default_factory=set)
    """Variables whose gradients were applied in a loop or branch that they cannot leave."""
    is_incomplete: bool = False
    """Whether an internal error has kept any of them from being noted."""
    before: dict[int, Any] = field(default_factory=dict)
    """The variable's value before the step's first change of it."""
    scales: dict[int, Any] = field(default_factory=dict)
    """What the loss was multiplied by, by the optimizer's id; absent where by nothing."""


def find_optimizers(model: KerasModel) -> list[KerasOptimizer]:
    """The optimizers that the model and its layers hold as attributes."""
    found: dict[int, Any] = {}

    def visit(value: Any, depth: int) -> None:
        if isinstance(value, keras.optimizers.Optimizer):
            found[id(value)] = value
        elif depth and isinstance(value, dict):
            for each in value.values():
                visit(each, depth - 1)
        elif depth and isinstance(value, list | tuple):
            for each in value:
                visit(each, depth - 1)

    kind = keras.optimizers.Optimizer
    for layer in model._flatten_layers():
        visit(fact(layer, "optimizer"), 0)
        values = list(vars(layer).values())
        # In lists and dicts only of models: with hundreds of layers, this is to be quick.
        if isinstance(layer, keras.Model) or layer is model:
            for value in values:
                visit(value, 2)
        else:
            found.update({id(value): value for value in values if isinstance(value, kind)})
    return list(found.values())


def innermost(optimizer: KerasOptimizer) -> KerasOptimizer:
    """The optimizer under any loss scaling."""
    while isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    return optimizer


def skips_overflows(model: KerasModel) -> bool:
    """Whether steps whose gradients are not finite are skipped, as loss scaling does."""
    scaling = keras.optimizers.LossScaleOptimizer
    return any(isinstance(optimizer, scaling) for optimizer in find_optimizers(model))


def updating_optimizers(optimizers: Sequence[KerasOptimizer]) -> list[KerasOptimizer]:
    """Those that update weights themselves: of a `MultiOptimizer`, the ones inside it.

    One that chooses them by a function has none before it is built.
    """
    found: list[KerasOptimizer] = []
    for optimizer in map(innermost, optimizers):
        found += optimizer.optimizers if _is_multi(optimizer) else [optimizer]
    return found


def _variables_of(optimizer: KerasOptimizer) -> list[Any]:
    """The variables that an optimizer was built with."""
    # Before Keras 3.10, a LossScaleOptimizer leaves them to the optimizer inside it.
    own: list[Any] = optimizer._trainable_variables
    return own or list(innermost(optimizer)._trainable_variables)


def _is_multi(optimizer: KerasOptimizer) -> bool:
    kind = getattr(keras.optimizers, "MultiOptimizer", None)  # Since Keras 3.14.
    return kind is not None and isinstance(optimizer, kind)


@contextmanager
def tapped(
    optimizers: Sequence[KerasOptimizer],
    backend: KerasBackend,
    reporter: Reporter,
    *,
    snapshots: Callable[[Sequence[Tensor]], Sequence[Tensor]] | None = None,
    with_applied: bool = False,
    updated: Collection[int] | None = None,
    keep: Keep | None = None,
    before: Mapping[int, Tensor] | None = None,
) -> Iterator[Gradients]:
    """Note the gradients that the optimizers are given, while the context lasts.

    The tap is on the outermost optimizer and undoes the loss scale itself: LossScaleOptimizer runs
    the inner one inside a conditional, from which no tensor can be carried out of a compiled step.

    Values before the update are noted if `snapshots`, which copies them, is given: those of the
    variables with the ids in `updated`, or of all if it is None. Those in `before` are known. If
    `with_applied`, the gradients that the update rule will use are noted, too. `keep` replaces
    gradients that are not the step's own but were made from these, to undo a scale or to clip them.
    """
    seen = Gradients(before=dict(before or {}))
    outside = backend.scope()
    # An optimizer's stateless_apply calls its own apply, a scaling one its inner's.
    inside = [False]

    def note(
        optimizer: KerasOptimizer, grads: list[Tensor], variables: list[Any], values: Any = None
    ) -> None:
        for variable in variables:
            seen.applications[id(variable)] = seen.applications.get(id(variable), 0) + 1
        if backend.scope() != outside:
            # JAX would notice the use of such a gradient only after the whole step.
            seen.lost |= {id(variable) for variable in variables}
            return
        if snapshots is not None:
            given = current_values(variables) if values is None else values
            new = {
                id(variable): value
                for variable, value in zip(variables, given, strict=True)
                if id(variable) not in seen.before and (updated is None or id(variable) in updated)
            }
            seen.before.update(zip(new, snapshots(list(new.values())), strict=True))
        _note(seen, optimizer, grads, variables, with_applied, keep)

    def taps(optimizer: KerasOptimizer) -> dict[str, Any]:
        apply, stateless_apply = optimizer.apply, optimizer.stateless_apply

        def tapped_apply(grads: Any, trainable_variables: Any = None) -> Any:
            grads = list(grads)
            if trainable_variables is not None:
                trainable_variables = list(trainable_variables)
            before, is_watched = inside[0], False
            # Nothing of gradwatch is called outside of this `try`: the update must happen.
            try:
                is_watched = backend.is_watched_replica()
                if is_watched and not before:
                    with backend.aside():
                        variables = trainable_variables or _variables_of(optimizer)
                        note(optimizer, grads, variables)
            except Exception as error:
                seen.is_incomplete = True
                reporter.internal_error(error, *_NOTING)
            if not is_watched:
                return apply(grads, trainable_variables)
            inside[0] = True
            try:
                return apply(grads, trainable_variables)
            finally:
                inside[0] = before

        def tapped_stateless_apply(
            optimizer_variables: Any, grads: Any, trainable_variables: Any
        ) -> Any:
            before = inside[0]
            try:
                if not before:
                    own, given = _variables_of(optimizer), list(grads)
                    state = list(zip(optimizer.variables, optimizer_variables, strict=False))
                    with keras.StatelessScope(state_mapping=state), backend.aside():
                        note(optimizer, given, own, trainable_variables)
            except Exception as error:
                seen.is_incomplete = True
                reporter.internal_error(error, *_NOTING)
            inside[0] = True
            try:
                return stateless_apply(optimizer_variables, grads, trainable_variables)
            finally:
                inside[0] = before

        return {"apply": tapped_apply, "stateless_apply": tapped_stateless_apply}

    # An instance may have such methods already: the user's, or another monitor's.
    with replaced((optimizer, taps(optimizer)) for optimizer in optimizers):
        yield seen


def _note(
    seen: Gradients,
    optimizer: KerasOptimizer,
    grads: list[Tensor],
    variables: list[Any],
    with_applied: bool,
    keep: Keep | None,
) -> None:
    if not optimizer.built:
        # apply() is about to do just this; its variables are needed already here.
        _build(optimizer, variables)
    scale = loss_scale(optimizer)
    if scale is not None:
        # A new tensor: the step may go on to change the scale.
        seen.scales[id(optimizer)] = keras.ops.multiply(scale, 1.0)
    is_skipping = optimizer is not innermost(optimizer)
    is_finite = optimizer.check_finite(grads) if with_applied and is_skipping else True
    own: list[Any] | None = [] if with_applied else None
    for gradient, variable in zip(grads, variables, strict=True):
        unscaled = _unscaled(gradient, variable, optimizer)
        if own is not None:
            own.append(unscaled)
        if keep is not None and unscaled is not gradient:
            unscaled = keep(Kind.GRADIENT, id(variable), unscaled)
        seen.computed[id(variable)] = unscaled
    if own is not None:
        for rule, pairs in _by_rule(innermost(optimizer), own, variables):
            _note_applied(seen, rule, pairs, is_finite, keep)


def _by_rule(
    optimizer: KerasOptimizer, grads: list[Tensor], variables: list[Any]
) -> list[tuple[KerasOptimizer, list[tuple[Tensor, Any]]]]:
    """Gradients and their variables, by the optimizer that updates the variables."""
    pairs = list(zip(grads, variables, strict=True))
    if not _is_multi(optimizer):
        return [(optimizer, pairs)]
    found: list[list[tuple[Tensor, Any]]] = [[] for _ in optimizer.optimizers]
    for gradient, variable in pairs:
        index = optimizer._var_to_optimizer_idx[optimizer._var_key(variable)]
        found[index].append((gradient, variable))
    return list(zip(optimizer.optimizers, found, strict=True))


def _note_applied(
    seen: Gradients,
    optimizer: KerasOptimizer,
    pairs: list[tuple[Tensor, Any]],
    is_finite: Any,
    keep: Keep | None,
) -> None:
    """Note what the update rule uses; nothing where loss scaling skips it, not being finite."""
    present = [(g, v) for g, v in pairs if g is not None and not _takes_gradient_as_value(v)]
    if not present:
        return
    used = [g for g, _ in present]
    every = optimizer.gradient_accumulation_steps
    if every:
        sums = [
            optimizer._accumulated_gradients[optimizer._get_variable_index(v)] for _, v in present
        ]
        used = [(g + a) / every for g, a in zip(used, sums, strict=True)]
        # Not `iterations`, which counts the updates.
        is_update = keras.ops.equal((optimizer._iterations + 1) % every, 0)
        is_finite = keras.ops.logical_and(is_update, is_finite)
    if is_finite is not True:
        seen.updates.update({id(v): is_finite for _, v in present})
    if not is_of_keras(type(optimizer)._clip_gradients):
        return  # Clipping of the user is never called once more: it may have a state.
    for gradient, (_, variable) in zip(optimizer._clip_gradients(used), present, strict=True):
        if keep is not None:
            gradient = keep(Kind.APPLIED_GRADIENT, id(variable), gradient)
        seen.applied[id(variable)] = gradient


def is_pure_schedule(rate: Any) -> bool:
    """Whether a rate is a schedule of Keras. One of the user may have a state: it is not called."""
    is_schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    return is_schedule and is_of_keras(type(rate))


def _unscaled(gradient: Tensor, variable: Any, optimizer: KerasOptimizer) -> Tensor:
    if gradient is None or _takes_gradient_as_value(variable):
        return gradient
    scale = loss_scale(optimizer)
    if scale is None:
        return gradient
    if type(gradient).__name__ == "IndexedSlices":
        values = gradient.values / keras.ops.cast(scale, gradient.values.dtype)
        return type(gradient)(values, gradient.indices, gradient.dense_shape)
    return keras.ops.divide(gradient, scale)


def loss_scale(optimizer: KerasOptimizer) -> Any:
    """What the optimizer multiplies the loss by; None if by nothing."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return optimizer.dynamic_scale
    return optimizer.loss_scale_factor


def _takes_gradient_as_value(variable: Any) -> bool:
    """Such as float8's scales: Keras overwrites them with the "gradient", unscaled."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


def build_optimizer(model: KerasModel) -> None:
    """Build the optimizer of a model of Keras's as the first step would, unless that is not known.

    TensorFlow traces a step twice if it creates variables.
    """
    optimizer, variables = model.optimizer, model.trainable_variables
    if optimizer is None or optimizer.built or not variables:
        return
    is_known = is_of_keras(type(model).train_step) and is_of_keras(type(optimizer).build)
    if is_known and "train_step" not in vars(model) and "build" not in vars(optimizer):
        _build(optimizer, variables)


def _build(optimizer: KerasOptimizer, variables: list[Any]) -> None:
    with _name_scope(optimizer):
        optimizer.build(variables)
    optimizer.built = True


def _name_scope(optimizer: KerasOptimizer) -> AbstractContextManager[Any]:
    scope: AbstractContextManager[Any] = keras.name_scope(optimizer.name, caller=optimizer)
    return scope
