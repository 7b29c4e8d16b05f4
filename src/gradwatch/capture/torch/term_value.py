"""The value of a loss's term by itself, without factors, weights and other terms."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from gradwatch.capture.constant_guess import (
    CLASS_GUESS,
    CONSTANT_LOSS,
    WEIGHTED_GUESS,
    constant_loss,
    is_of_classes,
)
from gradwatch.capture.rest_classes import rest_numbers
from gradwatch.capture.torch.graph_nodes import arranged, operation, sources
from gradwatch.capture.torch.loss_terms import SPARSE, LossTerm, ignored_class

TERM_LOSS = "term_loss"
"""The loss without factors, weights and other terms."""
_MOST_ELEMENTS = 1 << 23
"""Larger tensors are not looked at."""


def term_numbers(term: LossTerm, target: Any) -> Mapping[str, Any]:
    """The loss of the best constant guess for the targets of a term, and the term's own value.

    The value only where the loss is more than that term; without it, such a term cannot be
    compared. With weights of classes, what is left of their entropy, too.
    """
    guess = guess_of_term(term, target)
    if guess is None:
        return {}
    found = {}
    if term.weights is not None and is_of_classes(term.name):
        with torch.no_grad():
            plain = constant_loss(torch, term.name, target.float())
            found = {WEIGHTED_GUESS: guess / _scale(term, target), CLASS_GUESS: plain}
    if term.facts.is_mean:
        return {CONSTANT_LOSS: guess, **found}
    value = term_value(term)
    return found if value is None else {CONSTANT_LOSS: guess, TERM_LOSS: value, **found}


def guess_of_term(term: LossTerm, target: Any) -> Any | None:
    """The loss of the best constant guess for the targets of a term; None if unknown."""
    with torch.no_grad():
        placed = _in_places(term)
        if placed is not None:
            return constant_loss(torch, term.name, *placed)
        target = target.float()
        weights = None if term.weights is None else term.weights(target)
        guess = constant_loss(torch, term.name, target, weights)
        return guess if guess is None else guess * _scale(term, target)


def _in_places(term: LossTerm) -> tuple[Any, Any] | None:
    """The classes in their places and their weights, if a sample has several; else None."""
    target = getattr(term.chosen, "_saved_target", None)
    if term.name != SPARSE or target is None or target.ndim < 2:
        return None
    ignored, own = ignored_class(term.chosen), term.chosen._saved_weight
    counts = (target != ignored).float()
    if own is not None:
        counts = counts * own[target.clamp(0, len(own) - 1)]
    return target.float(), counts


def rest_of_classes(term: LossTerm, samples: int) -> Mapping[str, Any]:
    """How well all but the most frequent class are told apart, where a sample has several."""
    node = term.chosen
    logs, target = getattr(node, "_saved_self", None), getattr(node, "_saved_target", None)
    if term.name != SPARSE or logs is None or target is None or target.numel() < 2 * samples:
        return {}
    if logs.ndim < 2 or logs.numel() > _MOST_ELEMENTS:
        return {}
    with torch.no_grad():
        logs = logs.detach().movedim(1, -1).reshape(-1, logs.shape[1]).float()
        target = target.reshape(-1)
        counts = (target != ignored_class(node)).float()
        return rest_numbers(torch, logs, target.float(), counts)


def _scale(term: LossTerm, target: Any) -> Any:
    """What the weights of a term multiply its level by."""
    if term.weights is None or term.is_over_weights:
        return 1.0
    return term.weights(target.float()).mean()


def term_value(term: LossTerm) -> Any | None:
    """The mean of a term over its samples, from what the graph has kept; None if it has not."""
    node = term.chosen
    with torch.no_grad():
        return _value(operation(node), node)


def target_of(term: LossTerm, outputs: Sequence[Any]) -> Any | None:
    """The targets of a term, kept by its graph or found by what the module returned."""
    target = term.target()
    if target is not None:
        return target
    found = (target_of_difference(term, output) for output in outputs)
    return next((each for each in found if each is not None), None)


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
        ignored = ignored_class(node)
        return F.nll_loss(x, node._saved_target, node._saved_weight, ignore_index=ignored)
    if name == "MseLoss":
        return F.mse_loss(x, node._saved_target)
    if name == "BinaryCrossEntropyWithLogits":
        return F.binary_cross_entropy_with_logits(
            x, node._saved_target, node._saved_weight, pos_weight=node._saved_pos_weight
        )
    if name == "BinaryCrossEntropy":
        return F.binary_cross_entropy(x, node._saved_target, node._saved_weight)
    return None


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
