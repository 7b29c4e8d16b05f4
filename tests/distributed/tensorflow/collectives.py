"""Counting the collective operations of a TensorFlow program."""

from __future__ import annotations

from typing import Any

from tensorflow.python.eager import context


def collectives(function: Any) -> int:
    """How many a concrete function has, branches and all that it calls included."""
    definition = function.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return sum(_is_collective(node.op) for node in nodes)


def collectives_of_fit() -> dict[str, int]:
    """How many the training step of each `fit` so far has, by the name of its function."""
    found = {}
    for name in context.context().list_function_names():
        text = name.decode() if isinstance(name, bytes) else name
        if text.startswith("__inference_one_step_on_data"):
            found[text] = sum(
                _is_collective(node.op)
                for node in context.context().get_function_def(text).node_def
            )
    return found


def _is_collective(operation: str) -> bool:
    return operation.startswith(("Collective", "Nccl"))
