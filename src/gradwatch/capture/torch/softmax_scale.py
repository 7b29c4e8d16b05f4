"""The constant factor of what a softmax takes as logits: one over its temperature."""

from typing import Any

from gradwatch.capture.torch.graph_nodes import ancestors, arranged, operation, sources

_MASKING = frozenset({"MaskedFill", "Tril", "Triu"})
_NEAR = 200
"""Nodes; the softmax of a loss is near its end."""


def softmax_scale(root: Any) -> float | None:
    """The factor before the softmax of a loss, from the loss's node; None if there is none."""
    for node in ancestors(root, _NEAR):
        if operation(node) == "LogSoftmax" and sources(node):
            return _factor(_unmasked(sources(node)[0]))
    return None


def _unmasked(node: Any) -> Any:
    """The node whose values this one only arranges, and leaves some of them out."""
    node = arranged(node)
    while operation(node) in _MASKING and len(sources(node)) == 1:
        node = arranged(sources(node)[0])
    return node


def _factor(node: Any) -> float | None:
    name = operation(node)
    if name not in ("Mul", "Div") or len(sources(node)) != 1:
        return None
    other: Any = getattr(node, "_saved_other", None)
    if other is None or (hasattr(other, "numel") and (other.numel() != 1 or other.is_cuda)):
        return None
    value = float(other)
    return (1.0 / value if value else None) if name == "Div" else value
