"""One framework's way to differentiate a model outside of training."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

Compute = Callable[[list[Any], Any], Any]
"""Computes the loss from the weights' values and the inputs."""


class Differentiator(Protocol):
    def gradients(self, compute: Compute, values: list[Any], x: Any) -> tuple[Any, list[Any]]:
        """The loss and its gradients with respect to the values, None where there is none.

        It is also differentiated with respect to the inputs, for the gradients of all in between.
        """

    def run(self, step: Callable[[], dict[str, Any]], compiled: bool) -> dict[str, Any]:
        """What the step returns, which is run compiled, where the framework is made for it."""

    def guarded(self, model: Any) -> AbstractContextManager[None]:
        """Keeps what of the framework's own state Keras does not know of."""
