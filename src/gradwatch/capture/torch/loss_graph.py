"""Recognizes losses, their outputs and targets in what a torch loop differentiates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradwatch.capture.torch.graph_nodes import (
    ARRANGING,
    ancestors,
    arranged,
    operation,
    result_shape,
    sources,
)
from gradwatch.capture.torch.loss_terms import LossTerm, recognized
from gradwatch.core import LossFacts

_MOST_NODES = 64
_MOST_PENALTY_NODES = 2000
_LAYERS = frozenset({"Addmm", "Mm", "Bmm", "Linear", "Convolution", "Embedding"})
# What may be between a loss and what is differentiated: reductions, factors, signs.
_WRAPPING = ARRANGING | {"Mean", "Sum", "Neg", "Mul", "Div", "Add", "Sub", "Rsub", "NanToNum"}


@dataclass(frozen=True)
class SeenLoss:
    """What is differentiated: its facts and, if it has one output, the term that receives it.

    Of several outputs, `parts` are their terms, each with its factor, if the loss is these and
    what is about weights or the same outputs only.
    """

    facts: LossFacts
    term: LossTerm | None = None
    parts: tuple[LossTerm, ...] = ()


def read_loss(root: Any) -> SeenLoss:
    """What the graph of a loss tells, from the node that computes the loss."""
    surroundings = _Surroundings()
    terms = surroundings.terms(root)
    if not terms:
        return SeenLoss(LossFacts())
    term = terms[0]
    if _are_of_discriminator(terms):
        facts = replace(term.facts, reduction="other", is_of_own_step=True)
        return SeenLoss(facts, term if len(terms) == 1 else None)
    if len(terms) > 1:
        return _of_several(terms, surroundings)
    weighted = surroundings.weighted(term)
    if weighted is not None:
        return SeenLoss(weighted.facts, weighted)
    if not surroundings.are_plain(term):
        # Weights and other terms may be negative.
        rest = surroundings.rest_of(terms)
        term = replace(term, reduction="other", is_nonnegative=False, rest=rest)
    if surroundings.is_weighted and operation(term.chosen) in ("Gather", "Index"):
        return SeenLoss(LossFacts(is_nonnegative=False))  # A policy gradient, for example.
    return SeenLoss(term.facts, term)


def _of_several(terms: Sequence[LossTerm], surroundings: _Surroundings) -> SeenLoss:
    rest = surroundings.rest_of(terms)
    is_one_kind = len({term.name for term in terms}) == 1
    known = terms[0].facts if is_one_kind else LossFacts()
    facts = replace(known, reduction="other", is_nonnegative=False, rest=rest)
    if rest == "terms":
        # Whatever else is learned may be what matters.
        return SeenLoss(facts if is_one_kind else LossFacts())
    return SeenLoss(facts, parts=tuple(terms))


def _are_of_discriminator(terms: Sequence[LossTerm]) -> bool:
    """Whether all of one batch is to be called genuine, and all of another generated, if any."""
    if terms[0].name != "binary_crossentropy":
        return False
    numbers = set()
    for term in terms:
        target = term.target()
        if target is None or target.is_cuda or not target.numel():
            return False
        low, high = target.aminmax()
        if low != high:
            return False
        numbers.add(float(low))
    return len(numbers) == 2 or (len(terms) == 1 and max(numbers) > 0.5)


class _Surroundings:
    """What is between a loss and what is differentiated: reductions, factors, other terms."""

    def __init__(self) -> None:
        self.is_weighted = False
        self._has_others = False
        self._others: list[Any] = []
        self._weights: list[Any] = []
        """Factors of single elements."""
        self._is_sum = self._is_product = False
        self._divisors: list[float] = []
        self._factors = 0

    def are_plain(self, term: LossTerm) -> bool:
        """Whether the loss is a mean or a sum of the term alone."""
        if self._has_others or self._factors or self.is_weighted:
            return False
        shape = result_shape(term.output)
        samples = shape[0] if shape else None
        return not self._divisors or (self._is_sum and self._divisors == [samples])

    def weighted(self, term: LossTerm) -> LossTerm | None:
        """The term with a factor for each element that is a weight; None if it has no such."""
        if len(self._weights) != 1 or self._has_others or self._factors != 1 or self._is_product:
            return None
        weights, target = self._weights[0], term.target()
        if term.weights is not None or operation(term.chosen) in ("Gather", "Index", "Mul"):
            return None
        if target is None or weights.is_cuda or weights.shape != target.shape:
            return None
        if result_shape(term.chosen) != tuple(weights.shape) or not bool((weights >= 0).all()):
            return None
        total = float(weights.sum())
        is_over_weights = self._is_sum and len(self._divisors) == 1
        if is_over_weights and not math.isclose(self._divisors[0], total, rel_tol=1e-3):
            return None
        if not is_over_weights and (self._is_sum or self._divisors):
            return None
        weights = weights.detach()
        return replace(
            term,
            reduction="mean",
            weights=lambda targets: weights,
            is_over_weights=is_over_weights,
        )

    def rest_of(self, terms: Sequence[LossTerm]) -> str:
        """Whether all but the terms is about weights, or about the outputs of the terms."""
        if self._is_product:
            return "terms"  # Whatever it is multiplied by: a focal loss is another one.
        known = [node for term in terms for node in (arranged(term.output), term.chosen)]
        for other in self._others:
            for node in ancestors(other, _MOST_PENALTY_NODES, known):
                if operation(node) in _LAYERS and any(map(_is_computed, sources(node))):
                    return "terms"
        return "terms" if self.is_weighted else "penalties"

    def terms(self, root: Any) -> list[LossTerm]:
        """The losses that are recognized, each with the factor before it, if that is constant."""
        found: list[LossTerm] = []
        stack: list[tuple[Any, float]] = [(root, 1.0)]
        seen = {root}
        while stack:
            node, factor = stack.pop()
            term = recognized(node)
            if term is not None:
                found.append(replace(term, factor=factor))
                continue
            name = operation(node)
            if name not in _WRAPPING or len(seen) > _MOST_NODES:
                self._has_others = True
                self._others.append(node)
                continue
            self._is_sum |= name == "Sum"
            if name in ("Mul", "Div"):
                self._is_product |= len(sources(node)) > 1
                self._add_factor(node)
            elif name in ("Add", "Sub") and len(sources(node)) < len(node.next_functions):
                self._has_others = True  # A constant.
            for i, (child, _) in enumerate(node.next_functions):
                if child is not None and child not in seen:
                    seen.add(child)
                    stack.append((child, factor * _factor(node, i)))
        is_mean = not self._is_sum or len(self._divisors) > 0
        return [
            replace(term, reduction="mean" if is_mean else "sum")
            if term.reduction in (None, "none")
            else term
            for term in found
        ]

    def _add_factor(self, node: Any) -> None:
        factor = _constant_of(node)
        if hasattr(factor, "ndim") and factor.ndim > 0:
            # A factor that is differentiated is among the other terms.
            if len(sources(node)) < 2:
                self.is_weighted = True
                self._weights.append(factor)
            self._factors += 1
        elif hasattr(factor, "device") and factor.device.type != "cpu":
            pass  # The scale of a GradScaler; reading it would wait for the device.
        elif factor is not None and float(factor) == 1.0:
            pass  # The number of micro-batches, for example.
        elif operation(node) == "Div" and factor is not None:
            self._divisors.append(float(factor))
        else:
            self._factors += 1


def _is_computed(node: Any) -> bool:
    """Whether a node is no parameter."""
    return operation(arranged(node)) != "AccumulateGrad"


def _factor(node: Any, child: int) -> float:
    """By what a node multiplies one of its sources; NaN if that is no known constant."""
    name = operation(node)
    if name == "Neg" or (name == "Sub" and child == 1) or (name == "Rsub" and child == 0):
        return -1.0
    if name in ("Mean", "Stack", "Cat"):
        shape = result_shape(sources(node)[0]) if sources(node) else None
        # The mean of several losses, which were stacked.
        return 1.0 if name != "Mean" or shape is None or shape == () else _mean_of(sources(node)[0])
    if name not in ("Mul", "Div"):
        return 1.0
    factor = _constant_of(node)
    if len(sources(node)) > 1 or factor is None or getattr(factor, "ndim", 0) > 0:
        return math.nan
    if hasattr(factor, "device") and factor.device.type != "cpu":
        return math.nan
    return 1.0 / float(factor) if name == "Div" and float(factor) else float(factor)


def _constant_of(node: Any) -> Any:
    """What a product or a quotient has beside what is differentiated: the second factor, mostly."""
    other = getattr(node, "_saved_other", None)
    is_second = operation(node) == "Mul" and other is None
    return getattr(node, "_saved_self", None) if is_second else other


def _mean_of(node: Any) -> float:
    """The factor of each of several losses in their mean; 1 if it is one of many elements."""
    inner = arranged(node)
    count = len(sources(inner)) if operation(inner) in ("Stack", "Cat") else 1
    return 1.0 / max(count, 1)
