"""Reads the gradients that replicas apply together off an optimizer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradwatch.core import KerasOptimizer, Tensor
from gradwatch.util import Reporter

REDUCE = "_all_reduce_sum_gradients"
"""The method of Keras optimizers on TensorFlow that sums gradients over replicas."""

Listener = Callable[[list[tuple[Tensor, Tensor]]], None]
"""Takes pairs of a reduced gradient and its variable, on every replica."""


@contextmanager
def reductions(optimizer: KerasOptimizer, listener: Listener, reporter: Reporter) -> Iterator[None]:
    """Pass on the gradients that an optimizer sums over replicas, while the context lasts.

    They are what its update rule uses: unscaled, clipped if it clips, the same on every replica.
    Nothing is reduced a second time. The contexts of several replicas may overlap in any order. The
    optimizer must be the one that applies the gradients, not one that scales the loss.
    """
    tap = optimizer.__dict__.get(REDUCE)
    if not isinstance(tap, _Tap):
        tap = _Tap(optimizer)
    entry = (listener, reporter)
    tap.listeners.append(entry)
    try:
        yield
    finally:
        tap.remove(entry)


class _Tap:
    """In place of an optimizer's reduction, as long as there is a listener."""

    def __init__(self, optimizer: KerasOptimizer) -> None:
        self.listeners: list[tuple[Listener, Reporter]] = []
        self._own: dict[str, Any] = optimizer.__dict__
        self._before = {n: m for n, m in self._own.items() if n == REDUCE}
        self._reduce = getattr(optimizer, REDUCE)
        # Into __dict__, past Keras's tracking of attributes.
        self._own[REDUCE] = self

    def __call__(self, grads_and_vars: Any) -> Any:
        reduced = self._reduce(grads_and_vars)
        for listener, reporter in tuple(self.listeners):
            try:
                listener(list(reduced))
            except Exception as error:
                reporter.internal_error(error, "noting reduced gradients", "gradients of this step")
        return reduced

    def remove(self, entry: tuple[Listener, Reporter]) -> None:
        # By identity: two listeners may be equal.
        self.listeners = [each for each in self.listeners if each is not entry]
        if not self.listeners:
            self._own.pop(REDUCE, None)
            self._own.update(self._before)
