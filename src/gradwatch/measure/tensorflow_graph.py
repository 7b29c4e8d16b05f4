"""Keeps measurements in a TensorFlow graph from changing how Grappler optimises the training.

Grappler rewrites a graph before it runs, and considers how often a tensor is used. A sum that is
used once is merged into the sum that uses it, which adds in another order. A matrix product that
is used once, to add a bias, is computed by one kernel together with the bias and the activation.
Tensors that are used twice, the second time by a measurement, are not merged. So a measurement
never uses a tensor that training uses only once, but a copy computed from its inputs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

_MARK = "_gradwatch"
# Grappler computes these from static shapes: they are not uses.
_SHAPE_OPERATIONS = frozenset({"Shape", "ShapeN", "Rank", "Size", "ZerosLike", "OnesLike"})
# One pass over the elements at most.
_CHEAP = frozenset(
    {
        "Abs", "Add", "AddN", "AddV2", "BiasAdd", "Cast", "DivNoNan", "Elu", "Erf", "Exp",
        "ExpandDims", "Expm1", "Identity", "LeakyRelu", "Log", "Log1p", "Maximum", "Minimum", "Mul",
        "MulNoNan", "Neg", "Pow", "RealDiv", "Reciprocal", "Relu", "Relu6", "Reshape", "Rsqrt",
        "SelectV2", "Selu", "Sigmoid", "Sign", "Softplus", "Softsign", "Sqrt", "Square",
        "SquaredDifference", "Squeeze", "Sub", "Tanh", "Transpose",
    }
)  # fmt: skip

# If used once, by one of the biases, these become one kernel with it.
_CONTRACTIONS = frozenset({"BatchMatMulV2", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul"})
_BIASES = frozenset({"Add", "AddV2", "BiasAdd"})
_DEEPEST = 100
"""At most so many operations in a row are copied."""


@contextmanager
def marked() -> Iterator[None]:
    """Context that marks new operations as part of a measurement.

    Marked, they are also never merged with an operation of the training with the same inputs.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    scope = getattr(graph, "_attr_scope", None)
    if scope is None:
        yield
        return
    with scope({_MARK: tf.compat.v1.AttrValue(b=True)}):
        yield


def use_copies(outputs: Any) -> None:
    """Let marked operations use copies of the tensors that training uses only once."""
    if tf.executing_eagerly():
        return
    graph = tf.compat.v1.get_default_graph()
    operations = graph.get_operations()
    measuring = {operation for operation in operations if _is_marked(operation)}
    copies = _Copies(_uses(operations, measuring, outputs))
    with marked():
        for operation in filter(measuring.__contains__, operations):
            for i, tensor in enumerate(operation.inputs):
                if tensor.op not in measuring:
                    copy = copies.copy_of(tensor)
                    if copy is not tensor:
                        operation._update_input(i, copy)


class _Copies:
    """Copies of tensors, each made once; `uses` counts how often training uses a tensor."""

    def __init__(self, uses: Callable[[Any], int]) -> None:
        self._uses = uses
        self._made: dict[Any, Any] = {}

    def copy_of(self, tensor: Any, depth: int = 0) -> Any:
        """The tensor, or a copy if Grappler may merge it into its only use."""
        key = tensor.ref()
        if key not in self._made:
            is_copied = depth < _DEEPEST and self._may_be_merged(tensor)
            self._made[key] = self._copy(tensor.op, depth) if is_copied else tensor
        return self._made[key]

    def _may_be_merged(self, tensor: Any) -> bool:
        if self._uses(tensor) > 1:
            return False
        kind = tensor.op.type
        return kind in _CHEAP or (
            kind in _CONTRACTIONS and any(o.type in _BIASES for o in tensor.consumers())
        )

    def _copy(self, operation: Any, depth: int) -> Any:
        inputs = [self.copy_of(tensor, depth + 1) for tensor in operation.inputs]
        attributes = operation.node_def.attr
        with tf.device(operation.device or None):
            (copy,) = operation.graph.create_op(
                operation.type,
                inputs,
                [output.dtype for output in operation.outputs],
                attrs={name: attributes[name] for name in attributes if not name.startswith("_")},
                op_def=operation.op_def,
            ).outputs
        return copy


def _is_marked(operation: Any) -> bool:
    try:
        return bool(operation.get_attr(_MARK))
    except ValueError:
        return False


def _uses(operations: list[Any], measuring: set[Any], outputs: Any) -> Callable[[Any], int]:
    """How often training uses a tensor, as Grappler will count."""
    returned = [t for t in tf.nest.flatten(outputs) if isinstance(t, tf.Tensor)]
    live: set[Any] = set()
    waiting = [tensor.op for tensor in returned]
    waiting += [o for o in operations if o not in measuring and o.op_def.is_stateful]
    while waiting:
        operation = waiting.pop()
        if operation not in live:
            live.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
            waiting += operation.control_inputs
    kept = {tensor.ref() for tensor in returned}

    def uses(tensor: Any) -> int:
        consumers = {
            (o.type, tuple(t.ref() for t in o.inputs), str(o.node_def.attr))
            for o in tensor.consumers()
            if o in live and o not in measuring and o.type not in _SHAPE_OPERATIONS
        }
        return len(consumers) + (tensor.ref() in kept)

    return uses
