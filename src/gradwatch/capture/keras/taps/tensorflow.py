"""Tapping TensorFlow's tensors: eager, in a graph, or compiled by XLA."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from gradwatch.capture.keras.taps import Passage


class TensorFlowTap:
    """An identity whose gradient function notes what it is given."""

    def __init__(self) -> None:
        self._graph: Any = None

    def aside(self, function: Any) -> Any:
        return function

    def begin(self) -> None:
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()

    def through(self, tensor: Any, passage: Passage) -> Any:
        if not tf.is_tensor(tensor) or isinstance(tensor, tf.RaggedTensor | tf.SparseTensor):
            raise TypeError(f"a {type(tensor).__name__}")
        if not (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool):
            raise TypeError(f"a tensor of dtype {tensor.dtype.name}")
        passage.output = tensor
        if not tensor.dtype.is_floating or not self.can_leave(tensor):
            return tensor

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def identity(x: Any) -> Any:
            def backward(gradient: Any) -> Any:
                # Not by a call of ours, which might fail in the midst of the backward pass.
                passage.gradient = gradient
                passage.arrivals += 1
                return gradient

            return tf.identity(x), backward

        return identity(tensor)

    def can_leave(self, tensor: Any) -> bool:
        if isinstance(tensor, tf.IndexedSlices):
            tensor = tensor.values
        # An eager tensor has no graph, and says so by raising.
        return getattr(tensor, "graph", None) is self._graph
