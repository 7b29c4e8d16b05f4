"""The layers of a torch module in the autograd graph of its output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradwatch.capture.torch.graph_nodes import (
    ACTIVATIONS,
    ARRANGING,
    ancestors,
    arranged,
    is_linear,
    operation,
    sources,
)

_MOST_NODES = 20_000


@dataclass(frozen=True)
class SeenLayers:
    """What the graph of an output tells of its layers.

    Attributes:
        order: the paths of layers whose parameters get a gradient, in the order of execution.
        activations: what is applied to the results of some of them.
        last: the path of the layer that computes the output, before its activation.
        is_linear: whether the output, before its activation, is a linear function of the input;
            None if the graph is too large.
    """

    order: tuple[str, ...]
    activations: Mapping[str, str]
    last: str | None
    is_linear: bool | None


def read_layers(output: Any, owners: Mapping[int, str]) -> SeenLayers:
    """Read the graph of an output; `owners` has the layer's path by the id of each parameter."""
    output = arranged(output)
    nodes = list(ancestors(output, _MOST_NODES))
    computing: dict[Any, str] = {}
    """The nodes that use parameters, with the layer that these belong to."""
    for node in nodes:
        if operation(node) in ARRANGING or operation(node) == "AccumulateGrad":
            continue
        for child in sources(node):
            parameter = getattr(arranged(child), "variable", None)
            if parameter is not None and id(parameter) in owners:
                computing[node] = owners[id(parameter)]
    by_time = sorted(computing, key=lambda node: int(node._sequence_nr()))
    activations: dict[str, str] = {}
    for node in nodes:
        name = operation(node)
        if name in ACTIVATIONS and sources(node):
            layer = computing.get(arranged(sources(node)[0]))
            if layer is not None:
                activations.setdefault(layer, ACTIVATIONS[name])
    inner = output
    while operation(inner) in ACTIVATIONS and sources(inner):
        inner = arranged(sources(inner)[0])
    is_small = len(nodes) < _MOST_NODES
    return SeenLayers(
        order=tuple(dict.fromkeys(computing[node] for node in by_time)),
        activations=activations,
        last=computing.get(inner),
        is_linear=all(map(is_linear, ancestors(inner, _MOST_NODES))) if is_small else None,
    )
