"""A tensor that passes through a tap, and what a tap is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from gradwatch.core import Kind, Tensor
from gradwatch.util import Reporter


@dataclass
class Passage:
    """A tensor that passed through a tap, and the gradients that came back."""

    output: Any = None
    gradient: Any = None
    """None until there is one: the loss may not depend on the tensor."""
    arrivals: int = 0
    """How many gradients came; with several backward passes, more than one."""
    wants_gradient: bool = True
    is_probability: bool = False
    """Whether Keras may compute a loss of it from the logits behind it."""
    is_input: bool = False
    """Whether the layer returned its input as it is."""
    measured: dict[Kind, Any] = field(default_factory=dict)
    """Places of the rows that have been measured already, see `EagerStep`."""
    measure_gradient: Callable[[Passage], None] | None = None
    """Measures the gradient as it comes, and lets it go."""
    reporter: Reporter | None = None
    attention: Any = None
    """What gives the numbers of attention by their kinds, if the layer computed some."""

    @property
    def is_measured(self) -> bool:
        """Whether its tensors have been measured and released."""
        return self.output is MEASURED

    def note_gradient(self, gradient: Any) -> None:
        self.gradient = gradient
        self.arrivals += 1
        # Called in the midst of the user's backward pass: nothing may be raised.
        try:
            if self.measure_gradient is not None:
                self.measure_gradient(self)
        except Exception as error:
            if self.reporter is not None:
                self.reporter.internal_error(
                    error, "measuring the gradient of an output", "that gradient"
                )


MEASURED = object()
"""Stands for an output that was there."""


class Tap(Protocol):
    """One framework's way to note a tensor and its gradient, without changing either."""

    def aside(self, function: Any) -> Any:
        """A function that runs in the step, kept out of what is compiled."""

    def watching(self) -> AbstractContextManager[None]:
        """Goes around a step: tensors that are made inside, at this level, can leave it."""

    def through(self, tensor: Tensor, passage: Passage) -> Tensor:
        """The tensor that goes on in its place: itself wherever that is possible.

        The tensor, and later its gradient if that is wanted, are noted in `passage`. What is not a
        plain tensor of numbers raises TypeError.
        """

    def can_leave(self, tensor: Tensor) -> bool:
        """Whether a noted tensor exists at the step's own level.

        In a compiled step, one made inside a loop, a branch or a function of its own does not.
        """


def always() -> bool:
    """Whether the only replica is the watched one."""
    return True
