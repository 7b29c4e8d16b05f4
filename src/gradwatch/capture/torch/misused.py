"""Operations between the last layers and the loss that cannot be meant as they are called."""

from collections.abc import Callable, Iterator
from typing import Any

from gradwatch.capture.torch.graph_nodes import (
    arranged,
    operation,
    result_shape,
    sources,
    uses_parameters,
)

SOFTMAX_OF_ONE = "softmax of one"
BLANK_IN_TARGETS = "blank in targets"
PROBABILITIES_FOR_LOGS = "probabilities for logarithms"

_MOST = 200
"""Nodes; there are few behind the last layers."""


def misused(root: Any) -> list[str]:
    """The names of the misuses in the graph of a loss, given by the loss's node, each once."""
    checks = (_blank_in_targets, _probabilities_for_logs)
    nodes = list(_behind_layers(root))
    found = [name for node in nodes for check in checks for name in check(node)]
    # Beside other ways to the layers, it is the share of the only component of a mixture.
    others = _behind_layers(root, _is_softmax_of_one)
    if any(map(_is_softmax_of_one, nodes)) and not any(map(uses_parameters, others)):
        found.append(SOFTMAX_OF_ONE)
    return list(dict.fromkeys(found))


def _behind_layers(root: Any, stops: Callable[[Any], bool] = uses_parameters) -> Iterator[Any]:
    """The nodes up to the last layers, these included; or up to those that `stops` tells."""
    seen, stack = {root}, [root]
    while stack and len(seen) <= _MOST:
        node = stack.pop()
        yield node
        if stops(node) or uses_parameters(node):
            continue
        for each in sources(node):
            if each not in seen:
                seen.add(each)
                stack.append(each)


def _is_softmax_of_one(node: Any) -> bool:
    shape, axis = result_shape(node), getattr(node, "_saved_dim", None)
    if operation(node) not in ("Softmax", "LogSoftmax") or not shape or not isinstance(axis, int):
        return False
    if axis >= 1 << 63:  # Negative numbers are shown as unsigned ones.
        axis -= 1 << 64
    return shape[axis] == 1 and max(shape) > 1


def _blank_in_targets(node: Any) -> Iterator[str]:
    """The letters that a connectionist loss is to find have one that stands for none."""
    if operation(node) != "CtcLoss" or node._saved_targets.is_cuda:
        return  # On a device, to look would wait for it.
    letters, lengths = node._saved_targets, node._saved_target_lengths
    parts = [letters]
    if letters.ndim == 2:
        parts = [row[: int(length)] for row, length in zip(letters, lengths, strict=True)]
    if any(bool((part == node._saved_blank).any()) for part in parts):
        yield BLANK_IN_TARGETS


def _probabilities_for_logs(node: Any) -> Iterator[str]:
    """A divergence is the sum of p * log(p) - p * q, where q is to be a logarithm, too.

    Its graph has p * q only.
    """
    inner = node
    for name in (("Sum", "Mean"), ("Sub",), ("Mul",)):
        if operation(inner) not in name or len(sources(inner)) != 1:
            return
        inner = sources(inner)[0]
    if operation(arranged(inner)) == "Softmax":
        yield PROBABILITIES_FOR_LOGS
