"""What differs between Keras's backends: the shape of a training step."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import keras

from gradwatch.measure import Framework


class Backend(Protocol):
    """One framework's side of a measured training step."""

    framework: Framework
    """What it can do with tensors."""

    def wrap(self, train_step: Any, observation: Any) -> Any:
        """A train step that returns `{"logs": ..., "measured": ...}` for its logs."""

    has_state: bool
    """Whether the step maps a state and a batch to its logs and a new state; else it maps a
    batch to logs, and the function that is made of it takes the batch from an iterator."""

    holds_random_state: bool
    """Whether random numbers have their state inside the compiled step, so that one and the same
    must run all steps."""

    own_step_has_run: bool
    """Whether the model's own step has run already, so that a measured one cannot run them all."""

    while_compiling: Mapping[str, Any]
    """Attributes that the model needs while Keras makes a train function in the midst of `fit`."""

    def arguments(self, args: Any, histograms_due: bool) -> Any:
        """The arguments for a train function made from a wrapped step."""

    def one_batch(self, args: Any) -> Any:
        """The arguments for a single step, where Keras would run several at once.

        Raises:
            StopIteration: there is no batch left, here or when the function is called.
        """

    def advance(self, args: Any, result: Any) -> Any:
        """The arguments of the next call, after one that returned `result`."""

    def scope(self) -> Any:
        """Where tensors are being made: equal for two places that may use each other's."""

    def aside(self) -> AbstractContextManager[None]:
        """Around whatever we compute in the midst of the step."""


@runtime_checkable
class OfReplicas(Protocol):
    """A backend whose training step is run by several replicas."""

    def observation(self, make: Any, require_plan: Any) -> Any:
        """What watches all of them.

        Args:
            make: makes an `Observation` from a function that tells whether the replica that
                is running is the one it watches.
            require_plan: gives the plan.
        """


@runtime_checkable
class Eager(Protocol):
    """A backend whose training step may run without being traced."""

    def eager_step(self, model: Any, parameters: int) -> Any:
        """What measures the step that begins, an `EagerStep`; None where it is compiled.

        Args:
            model: the Keras model.
            parameters: the bytes of its variables.
        """


def make_backend(model: Any) -> Backend:
    """The backend that Keras is running on.

    Raises:
        RuntimeError: a backend that cannot train.
    """
    name = keras.backend.backend()
    if name == "tensorflow":
        strategy = model.distribute_strategy
        if strategy.num_replicas_in_sync > 1:
            from gradwatch.capture.keras.backends.mirrored_backend import ReplicatedBackend

            return ReplicatedBackend(model, strategy)
        from gradwatch.capture.keras.backends.tensorflow_backend import TensorFlowBackend

        return TensorFlowBackend(model)
    if name == "jax":
        from gradwatch.capture.keras.backends.jax_backend import JaxBackend

        return JaxBackend(model)
    if name == "torch":
        from gradwatch.capture.keras.backends.torch_backend import TorchBackend

        return TorchBackend()
    raise RuntimeError(f"Keras's backend {name!r} does not train, so there is nothing to watch.")
