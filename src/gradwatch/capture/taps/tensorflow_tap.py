"""Reads TensorFlow tensors: eager, in a graph, or compiled by XLA."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from gradwatch.capture.taps.passage import Passage, always
from gradwatch.capture.taps.tape_sources import asking_tapes
from gradwatch.util import Reporter

# Ops by which Keras recognises probabilities, whose loss it then computes from the op's input.
_PROBABILITIES = ("Softmax", "Sigmoid")


class TensorFlowTap:
    """Notes tensors as they are; asks the step's own tapes for their gradients.

    Nothing is put between a layer and its successor: a tape that is asked for the gradient
    of one more tensor returns a tensor that it computes anyway.
    """

    def __init__(self, reporter: Reporter, is_watched_replica: Callable[[], bool] = always) -> None:
        self._reporter = reporter
        self._is_watched_replica = is_watched_replica
        self._graph: Any = None
        self._wanted: list[tuple[Any, Passage]] = []

    def aside(self, function: Any) -> Any:
        return function

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self._wanted = []
        try:
            with asking_tapes(self._sources, self._arrived, self._reporter):
                yield
        finally:
            self._wanted = []

    def through(self, tensor: Any, passage: Passage) -> Any:
        if not tf.is_tensor(tensor) or isinstance(tensor, tf.RaggedTensor | tf.SparseTensor):
            raise TypeError(f"a {type(tensor).__name__}")
        if not (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool):
            raise TypeError(f"a tensor of dtype {tensor.dtype.name}")
        passage.output = tensor
        if passage.wants_gradient and tensor.dtype.is_floating and self.can_leave(tensor):
            passage.is_probability = _is_probability(tensor)
            self._wanted.append((tensor, passage))
        return tensor

    def can_leave(self, tensor: Any) -> bool:
        if isinstance(tensor, tf.IndexedSlices):
            tensor = tensor.values
        # An eager tensor has no graph, and says so by raising: it is a constant of any graph.
        return getattr(tensor, "graph", None) in (None, self._graph)

    def _sources(self) -> list[Any]:
        """The tensors whose gradients are wanted, if the tape is one of the step itself."""
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if graph is not self._graph or not self._is_watched_replica():
            return []
        return [tensor for tensor, _ in self._wanted]

    def _arrived(self, gradients: list[Any]) -> None:
        for (_, passage), gradient in zip(self._wanted, gradients, strict=True):
            if gradient is not None:
                passage.note_gradient(gradient)


def _is_probability(tensor: Any) -> bool:
    if hasattr(tensor, "_keras_logits"):
        return True
    return not tf.executing_eagerly() and tensor.op.type in _PROBABILITIES
