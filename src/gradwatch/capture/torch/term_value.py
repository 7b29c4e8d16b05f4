"""The value of a loss's term by itself, without factors, weights and other terms."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from gradwatch.capture.torch.graph_nodes import arranged, operation, sources
from gradwatch.capture.torch.loss_graph import LossTerm

_MOST_ELEMENTS = 1 << 23
"""Larger tensors are not looked at."""


def term_value(term: LossTerm) -> Any | None:
    """The mean of a term over its samples, from what the graph has kept; None if it has not."""
    node = term.chosen
    with torch.no_grad():
        return _value(operation(node), node)


def target_of_difference(term: LossTerm, output: Any) -> Any | None:
    """The targets of a loss that is written by hand, if its output is what the module returned."""
    node = term.chosen
    if operation(node) not in ("Pow", "Abs") or output is None or output.grad_fn is None:
        return None
    if arranged(output.grad_fn) is not arranged(term.output):
        return None
    difference, around = node._saved_self, sources(node)[0]
    if operation(around) != "Sub" or difference.numel() != output.numel():
        return None
    with torch.no_grad():
        is_first = around.next_functions[0][0] is not None
        given = output.detach().reshape(difference.shape)
        return given - difference if is_first else given + difference


def is_one_of(target: Any, inputs: Sequence[Any]) -> bool:
    """Whether the targets are what the module was given; False on a GPU, to not wait for it."""
    with torch.no_grad():
        return any(
            not target.is_cuda
            and x.is_floating_point()
            and x.numel() == target.numel()
            # Targets that follow from a difference are rounded.
            and torch.allclose(x.flatten(), target.flatten().to(x.dtype), 1e-3, 1e-4)
            for x in inputs
        )


def _value(name: str, node: Any) -> Any | None:
    if name in ("Pow", "Abs"):
        x = _small(node._saved_self)
        return None if x is None else x.square().mean() if name == "Pow" else x.abs().mean()
    if name in ("Gather", "Index", "Mul"):
        chosen = next(arranged(each) for each in sources(node))
        logs = _small(chosen._saved_result) if operation(chosen) == "LogSoftmax" else None
        return None if logs is None else _chosen(name, node, logs)
    x = _small(getattr(node, "_saved_self", None))
    if x is None:
        return None
    if name.startswith("NllLoss"):
        ignored = int(node._saved_ignore_index)
        ignored -= (1 << 64) * (ignored >= 1 << 63)
        return F.nll_loss(x, node._saved_target, ignore_index=ignored)
    if name == "MseLoss":
        return F.mse_loss(x, node._saved_target)
    if name == "BinaryCrossEntropyWithLogits":
        return F.binary_cross_entropy_with_logits(x, node._saved_target)
    return F.binary_cross_entropy(x, node._saved_target) if name == "BinaryCrossEntropy" else None


def _chosen(name: str, node: Any, logs: Any) -> Any | None:
    """The cross-entropy from the logarithms of all classes."""
    if name == "Gather":
        return -logs.gather(-1, node._saved_index).mean() if logs.ndim == 2 else None
    if name == "Index":
        places = [slice(None) if i is None else i for i in node._saved_indices]
        return -logs[tuple(places)].mean()
    labels = node._saved_self if node._saved_self is not None else node._saved_other
    return -(logs * labels).sum(-1).mean()


def _small(tensor: Any) -> Any | None:
    is_small = tensor is not None and 0 < tensor.numel() <= _MOST_ELEMENTS
    return tensor.detach() if is_small else None
