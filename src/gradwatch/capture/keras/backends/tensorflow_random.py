"""Random numbers whose state TensorFlow keeps inside a compiled function.

`tf.random.normal` and the like go on from where they were at the last call of the same function.
A measured step is another function than the model's own: if the two took turns, each would draw
the numbers that the other has drawn already. Keras's own random numbers, and those of
`tf.random.Generator`, have their state in a variable, which both share.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

# Attributes that name the functions which an operation calls.
_CALLED = ("f", "then_branch", "else_branch", "cond", "body")


def holds_random_state() -> bool:
    """Whether the graph that is being traced draws numbers from a seeded state of its own."""
    if tf.executing_eagerly():
        return False
    return any(is_seeded(each) for each in stateful_operations(tf.compat.v1.get_default_graph()))


def stateful_operations(graph: Any) -> Iterator[Any]:
    """Those of a graph, and of the functions that it calls."""
    for operation in graph.get_operations():
        # Others call nothing that has a state.
        if operation.op_def.is_stateful:
            yield operation
            for name in _CALLED:
                called = _attribute(operation, name)
                if called is not None and hasattr(called, "name"):
                    yield from stateful_operations(graph._get_function(called.name).graph)


def is_seeded(operation: Any) -> bool:
    """Whether an operation draws numbers from a seeded state of its own."""
    # Without a seed, no two trainings draw the same.
    return bool(_attribute(operation, "seed") or _attribute(operation, "seed2"))


def _attribute(operation: Any, name: str) -> Any:
    known = any(attribute.name == name for attribute in operation.op_def.attr)
    return operation.get_attr(name) if known else None
