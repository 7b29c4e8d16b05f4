"""One framework's side of a measured training step of Keras."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gradwatch.core import KerasModel
from gradwatch.measure import Framework
from gradwatch.util import Reporter

if TYPE_CHECKING:
    from gradwatch.capture.keras.observation import Observation


class KerasBackend(ABC):
    """The differences between training steps on TensorFlow, JAX and torch."""

    framework: Framework
    has_state = False
    """Whether the step maps a state and a batch to its logs and a new state; else it maps a
    batch to logs, and the function that is made of it takes the batch from an iterator."""
    holds_random_state = False
    """Whether random numbers have their state inside the compiled step, so that one and the same
    step must run all batches."""
    own_step_has_run = False
    """Whether the model's own step has run already, so that a measured one cannot run them all."""
    while_compiling: Mapping[str, Any] = MappingProxyType({})
    """Attributes that the model needs while Keras makes a train function in the midst of `fit`."""

    @abstractmethod
    def wrap(self, train_step: Any, observation: Any) -> Any:
        """A train step that returns `{"logs": ..., "measured": ...}` for its logs."""

    def on_host(self, model: KerasModel) -> Framework | None:
        """What measures the tensors of a step on the host, for a step that is soon compiled.

        None where the step measures them itself, or must.
        """
        return None

    @abstractmethod
    def arguments(self, args: Any, histograms_due: bool) -> Any:
        """The arguments for a train function made from a wrapped step."""

    def one_batch(self, args: Any) -> Any:
        """The arguments for a single step, where Keras would run several at once.

        If no batch is left, StopIteration is raised, here or when the function is called.
        """
        return args

    def advance(self, args: Any, result: Any) -> Any:
        """The arguments of the next call, after one that returned `result`."""
        return args

    def can_run_own(self, args: Any) -> bool:
        """Whether the own step can still run on the arguments of a measured one that has failed."""
        return False

    def compiles(self, model: KerasModel) -> bool:
        """Whether a step that is not run eagerly is compiled."""
        return bool(model.jit_compile)

    def runs_eagerly(self, model: KerasModel) -> bool:
        """Whether nothing is compiled, so that steps may differ in what is measured."""
        return False

    def scope(self) -> Any:
        """Where tensors are being made: equal for two places that may use each other's."""
        return None

    def aside(self) -> AbstractContextManager[None]:
        """Goes around all that gradwatch computes inside the step."""
        return nullcontext()

    is_replicated = False

    def is_watched_replica(self) -> bool:
        """Whether the replica that is running is the one that is observed."""
        return True

    def eager_step(self, model: KerasModel, size: Callable[[], int]) -> Any:
        """An `EagerStep` for variables of `size()` bytes; None where the step is traced."""
        return None

    def step_checks(self, model: KerasModel, send: Any, reporter: Reporter) -> Any:
        """`StepChecks`, which look at steps that are not measured; None where there are none."""
        return None

    def observation(self, make: Callable[[KerasBackend], Observation]) -> Any:
        """The observation of a step; `make` is given the backend of each replica."""
        return make(self)
