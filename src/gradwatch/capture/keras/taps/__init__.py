"""Reading a tensor and its gradient as they pass by, one module per framework."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from gradwatch.core import Kind


@dataclass
class Passage:
    """A tensor that passed through a tap, and the gradients that came back."""

    output: Any = None
    gradient: Any = None
    """None until there is one: the loss may not depend on the tensor."""
    arrivals: int = 0
    """How many gradients came; with several backward passes, more than one."""
    wants_gradient: bool = True
    """Whether anybody asks for it; else nothing is done to the tensor but to note it."""
    is_probability: bool = False
    """Whether Keras may compute a loss of it from the logits behind it."""
    is_input: bool = False
    """Whether the layer returned its input as it is."""
    measured: dict[Kind, Any] = field(default_factory=dict)
    """Where the rows are of what has been measured already, see `EagerStep`."""
    measure_gradient: Callable[[Passage], None] | None = None
    """Measures it as it comes, and lets it go."""
    fault: Callable[[Exception], None] | None = None
    """Told of an exception of that."""

    @property
    def is_measured(self) -> bool:
        """Whether its tensors have been let go of."""
        return self.output is MEASURED

    def note_gradient(self, gradient: Any) -> None:
        self.gradient = gradient
        self.arrivals += 1
        # Called in the midst of the user's backward pass, into which nothing may be raised.
        try:
            if self.measure_gradient is not None:
                self.measure_gradient(self)
        except Exception as error:
            if self.fault is not None:
                self.fault(error)


MEASURED = object()
"""Stands for an output that was there."""


class Tap(Protocol):
    """One framework's way to note a tensor and its gradient, without changing either."""

    def aside(self, function: Any) -> Any:
        """A function of ours that runs in the step, kept out of what is compiled."""

    def watching(self) -> AbstractContextManager[None]:
        """Around a step: what is computed inside, at this level, can leave it."""

    def through(self, tensor: Any, passage: Passage) -> Any:
        """What is to go on in the place of the tensor: itself wherever that is possible.

        It, and later its gradient if that is wanted, are noted in `passage`.

        Raises:
            TypeError: what it is given is not a plain tensor of numbers.
        """

    def can_leave(self, tensor: Any) -> bool:
        """Whether a noted tensor exists at the step's own level.

        In a compiled step, one that was made inside a loop, a branch or a
        function of its own does not.
        """


def make_tap(
    model: Any, fault: Callable[[Exception], None], mine: Callable[[], bool] | None = None
) -> Tap:
    """The tap of the backend that Keras is running on, for a step of that model.

    Args:
        model: the Keras model.
        fault: told of an exception of ours.
        mine: tells whether it is the replica to be noted that runs; None if there is but one.
    """
    # Not at the top: plain torch modules are tapped where there is no Keras.
    import keras

    name = keras.backend.backend()
    if name == "tensorflow":
        from gradwatch.capture.keras.taps.tensorflow_tap import TensorFlowTap

        return TensorFlowTap(fault, mine)
    if name == "jax":
        from gradwatch.capture.keras.taps.jax_tap import JaxTap

        return JaxTap()
    from gradwatch.capture.keras.taps.torch_tap import TorchTap

    return TorchTap(compiled=bool(model.compiled and model.jit_compile and not model.run_eagerly))
