"""One framework's side of keeping steps and running them again."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

Note = Callable[[Any], object]
"""Takes the batch of a step; never raises."""

Finite = Callable[[], tuple[bool, ...]]
"""Waits, and says of each variable of a state but the metrics' whether it is finite."""


class Rerunner(ABC):
    """Copies the state of a training, and runs its measured step on such a copy.

    What it runs again is compiled: no code of the user's is called.
    """

    device: str
    """Where the state is: `cpu`, `gpu`, ..."""

    def arguments(self, args: Any, note: Note) -> Any:
        """The arguments of a train function, such that the batches it takes are noted."""
        return args

    def noting(self, function: Any, note: Note) -> Any:
        """A train function that notes its batches, where its arguments do not do that."""
        return function

    @abstractmethod
    def copy_state(self, function: Any, args: Any) -> tuple[Any, Finite] | None:
        """A copy of the state before the call of the model's own train function; None if not."""

    @abstractmethod
    def size(self, state: Any) -> int:
        """The bytes of a state."""

    @abstractmethod
    def run(self, function: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        """Run a measured function on a batch; returns the measurement and the state after it.

        The given state is left as it is.
        """

    def refuses(self, function: Any, state: Any, batch: Any) -> bool:
        """Whether a measured function does more than compute, so that it must run only once."""
        return False

    def undisturbed(self) -> AbstractContextManager[None]:
        """Goes around `run`: the training's own state is the same afterwards."""
        return nullcontext()
