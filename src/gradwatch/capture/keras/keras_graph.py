"""What the graph of a functional Keras model tells: its residual sums, and its output layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import keras

from gradwatch.capture.keras.model_parts import fact


class ResidualSum(NamedTuple):
    """An addition of what a branch computed from a stream with weights."""

    operation: Any
    """A layer, or an operation of the graph, which is called with both."""
    stream: int
    """Which of its two arguments is the stream."""
    branch: Any
    """The last operation with weights that computes what is added."""


def graphs_of(model: Any) -> Iterator[Any]:
    """The functional models in a model, itself included."""
    for each in [model, *model._flatten_layers(include_self=False)]:
        graph = fact(each, "_functional") if isinstance(each, keras.Sequential) else each
        if isinstance(graph, keras.Model) and fact(graph, "_nodes_by_depth"):
            yield graph


def residual_sums(model: Any) -> list[ResidualSum]:
    """The residual sums in a model, each once, in the order of the graph."""
    found: dict[int, list[ResidualSum | None]] = {}
    for graph in {id(graph): graph for graph in graphs_of(model)}.values():
        by_depth = graph._nodes_by_depth
        nodes = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
        made_at = {id(x): i for i, node in enumerate(nodes) for x in node.output_tensors}
        for i, node in enumerate(nodes):
            if _is_sum(node.operation) and len(node.input_tensors) == 2:
                entry = _read_sum(nodes, i, [made_at.get(id(x), -1) for x in node.input_tensors])
                found.setdefault(id(node.operation), []).append(entry)
    # An operation that is used in several places must be a residual sum of one form in all.
    return [
        several[0]
        for several in found.values()
        if several[0] is not None
        and all(each is not None and each.stream == several[0].stream for each in several)
    ]


def _is_sum(operation: Any) -> bool:
    # The operator: an operation of Keras that is no layer.
    is_operator = type(operation).__name__ == "Add" and not isinstance(operation, keras.Layer)
    return isinstance(operation, keras.layers.Add) or is_operator


def _read_sum(nodes: list[Any], place: int, made_at: list[int]) -> ResidualSum | None:
    node = nodes[place]
    first, second = node.input_tensors
    if tuple(first.shape) != tuple(second.shape) or len(first.shape) < 2:
        return None
    stream = 0 if made_at[0] < made_at[1] else 1
    reached = {id(node.input_tensors[stream]): False}
    for each in nodes[max(made_at[stream], 0) : place]:
        before = [reached[id(x)] for x in each.input_tensors if id(x) in reached]
        if before:
            is_weighted = any(before) or bool(getattr(each.operation, "weights", ()))
            reached.update(dict.fromkeys(map(id, each.output_tensors), is_weighted))
    branch = node.input_tensors[1 - stream]
    if not reached.get(id(branch), False):
        return None
    return ResidualSum(node.operation, stream, _origin(branch))


def _origin(tensor: Any) -> Any:
    """What has computed a tensor, before dropout, scaling and the like; None if it is a sum."""
    while True:
        operation, index, _ = tensor._keras_history
        if getattr(operation, "weights", ()):
            return operation
        inputs = operation._inbound_nodes[index].input_tensors
        if len(inputs) != 1:
            return None
        tensor = inputs[0]


def output_operations(model: Any) -> list[Any]:
    """The operation that computes each output of a model; empty if it has no graph."""
    graph = fact(model, "_functional") if isinstance(model, keras.Sequential) else model
    if not isinstance(graph, keras.Model) or not fact(graph, "_nodes_by_depth"):
        return []
    found = []
    for output in keras.tree.flatten(graph.outputs):
        operation, _, index = output._keras_history
        inner = output_operations(operation) if isinstance(operation, keras.Model) else []
        found.append(inner[index] if index < len(inner) else operation)
    return found
