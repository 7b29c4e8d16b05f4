"""What `Monitor.reduced_by` gives: a context that sees the gradients an optimizer applies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.loop.variable_names import value_of, variables_of

REDUCE = "_all_reduce_sum_gradients"
"""The method of Keras's optimizers on TensorFlow that sums gradients over replicas."""


class Reduced:
    """See `Monitor.reduced_by`.

    Args:
        optimizer: of Keras, on TensorFlow.
        fault: told of an exception of ours.

    Raises:
        TypeError: it is another one, or scales the loss.
    """

    def __init__(self, optimizer: Any, fault: Callable[[Exception], None]) -> None:
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
        self._fault = fault
        self._replica = 0
        self._seen: dict[int, Any] | None = None

    def __enter__(self) -> Reduced:
        try:
            self._replica = _replica()
            _Tap.of(self._optimizer).listeners[self._replica] = self._note
        except Exception as error:
            self._fault(error)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            _Tap.of(self._optimizer).forget(self._replica)
        except Exception as error:
            self._fault(error)

    def in_order_of(self, variables: Any) -> list[Any]:
        """The gradients of variables that are given to `measure` or `record`; None where none.

        Raises:
            ValueError: no gradient was applied in the context; no variables.
        """
        if variables is None:
            raise WrongValueError("Give variables= beside what reduced_by() has seen.")
        if self._seen is None:
            raise WrongValueError(
                "reduced_by() has seen nothing. Apply the gradients in its context: "
                "`with monitor.reduced_by(optimizer) as gradients: optimizer.apply(...)`."
            )
        known = variables_of(variables)
        return [self._seen.get(id(known.named[i].value)) for i in known.order]

    def _note(self, pairs: list[tuple[Any, Any]]) -> None:
        self._seen = {**(self._seen or {}), **{id(value_of(v)): g for g, v in pairs}}


class _Tap:
    """On an optimizer, for as long as any replica listens.

    The replicas of a process take turns, so they neither begin nor end in each other's order.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._own = {n: m for n, m in vars(optimizer).items() if n == REDUCE}
        self._reduce = getattr(optimizer, REDUCE)
        self.listeners: dict[int, Callable[[list[tuple[Any, Any]]], None]] = {}
        # Into __dict__, past Keras's tracking of attributes.
        vars(optimizer)[REDUCE] = self

    @classmethod
    def of(cls, optimizer: Any) -> _Tap:
        tap = vars(optimizer).get(REDUCE)
        return tap if isinstance(tap, _Tap) else cls(optimizer)

    def __call__(self, grads_and_vars: Any) -> Any:
        reduced = self._reduce(grads_and_vars)
        with suppress(Exception):  # The update must come to pass; `measure` says what is missing.
            listener = self.listeners.get(_replica())
            if listener is not None:
                listener(list(reduced))
        return reduced

    def forget(self, replica: int) -> None:
        self.listeners.pop(replica, None)
        if not self.listeners:
            vars(self._optimizer).pop(REDUCE, None)
            vars(self._optimizer).update(self._own)


def _replica() -> int:
    context = sys.modules["tensorflow"].distribute.get_replica_context()
    return 0 if context is None else int(context._replica_id_in_sync_group)
