"""One framework's side of compiling a train function before it is called."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Taken:
    """A batch that was taken from the arguments of a train function, and the state before it."""

    state: Any
    batch: Any
    specification: Any = None
    """Of TensorFlow's iterator: what functions were traced for."""


class Tracer(ABC):
    """Takes the batch of a step, and traces train functions for it.

    Tracing runs the user's Python, and so happens on the thread that trains. What it returns can be
    compiled on any.
    """

    way: str
    """The framework, and how it runs what is traced."""

    seconds = 0.0
    """Of this thread, which `suits` has taken to trace what `trace` is asked for next."""

    def suits(self, function: Any, args: Any) -> bool:
        """Whether a measured function does the same on a batch as on these arguments."""
        return True

    def has_compiled(self, function: Any) -> bool:
        """Whether the model's own function has been compiled, as far as can be seen."""
        return False

    @abstractmethod
    def take(self, args: Any) -> Taken:
        """The batch that comes next; raises what taking it raises."""

    @abstractmethod
    def arguments(self, taken: Taken) -> Any:
        """Those of a function that `on_batch` returned."""

    @abstractmethod
    def on_batch(self, function: Any, taken: Taken) -> Any:
        """A train function, such that it takes `arguments`."""

    @abstractmethod
    def kind_of(self, args: Any) -> Hashable:
        """Equal for arguments of `on_batch` that one and the same compiled program takes."""

    @abstractmethod
    def trace(self, function: Any, args: Any) -> Callable[[], object] | None:
        """Trace what `on_batch` returned for its arguments; the result compiles it.

        None if it can be compiled only by calling it.
        """
