"""The gradients that a Keras optimizer applies for all replicas: `Monitor.reduced_by`."""

from __future__ import annotations

from contextlib import ExitStack

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.guard import guarded
from gradwatch.capture.reductions import REDUCE, reductions
from gradwatch.capture.replicas import replica_index
from gradwatch.capture.variable_names import value_of, variables_of
from gradwatch.core import KerasOptimizer, Tensor, Tree
from gradwatch.util import Reporter


class ReducedGradients:
    """A context that notes the gradients, see `Monitor.reduced_by`."""

    def __init__(self, optimizer: KerasOptimizer, reporter: Reporter) -> None:
        if not hasattr(optimizer, REDUCE):
            raise WrongTypeError(
                "reduced_by() takes an optimizer of Keras on TensorFlow. "
                f"Received: {type(optimizer).__module__}.{type(optimizer).__name__}"
            )
        if hasattr(optimizer, "inner_optimizer"):
            raise WrongTypeError(
                f"reduced_by() does not see what a {type(optimizer).__name__} applies, which is "
                "in a branch. Scale the loss and the gradients yourself, and give the optimizer "
                "that is inside; or train with fit, where it is seen."
            )
        self._optimizer = optimizer
        self._reporter = reporter
        self._replica: int | None = 0
        self._gradients: dict[int, Tensor] | None = None
        self._tap = ExitStack()

    def __enter__(self) -> ReducedGradients:
        self._begin()
        return self

    @guarded("beginning to note reduced gradients", "gradients of that step")
    def _begin(self) -> None:
        self._replica = replica_index()
        self._tap.enter_context(reductions(self._optimizer, self._note, self._reporter))

    @guarded("restoring the optimizer after a step", "nothing")
    def __exit__(self, *exception: object) -> None:
        self._tap.close()

    def in_order_of(self, variables: Tree) -> list[Tensor]:
        """The gradients of variables that are given to `measure` or `record`; None where none."""
        if variables is None:
            raise WrongValueError("Give variables= too, with the gradients of reduced_by().")
        if self._gradients is None:
            raise WrongValueError(
                "reduced_by() has seen nothing. Apply the gradients in its context: "
                "`with monitor.reduced_by(optimizer) as gradients: optimizer.apply(...)`."
            )
        known = variables_of(variables)
        return [self._gradients.get(id(known.named[i].value)) for i in known.order]

    def _note(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        if replica_index() == self._replica:
            noted = {id(value_of(variable)): gradient for gradient, variable in pairs}
            self._gradients = {**(self._gradients or {}), **noted}
