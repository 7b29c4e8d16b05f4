"""Recognizes a loss, its output and its targets in torch's autograd graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradwatch.capture.torch.graph_nodes import (
    ACTIVATIONS,
    ARRANGING,
    ancestors,
    arranged,
    operation,
    result_shape,
    sources,
    unexpanded,
)
from gradwatch.core import LossFacts, Tensor

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}
_WEIGHTS = "_saved_weight", "_saved_pos_weight"
"""Of classes or elements: what is best for these is not so for the mean."""
_MOST_NODES = 64
_MOST_PENALTY_NODES = 2000
_LAYERS = frozenset({"Addmm", "Mm", "Bmm", "Linear", "Convolution", "Embedding"})
# What may be between a loss and what is differentiated: reductions, factors, signs.
_WRAPPING = ARRANGING | {"Mean", "Sum", "Neg", "Mul", "Div", "Add", "Sub", "Rsub", "NanToNum"}
_FUSED = {
    "MseLoss": ("mean_squared_error", None),
    "SmoothL1Loss": ("smooth_l1", None),
    "HuberLoss": ("huber", None),
    "BinaryCrossEntropy": ("binary_crossentropy", False),
    "BinaryCrossEntropyWithLogits": ("binary_crossentropy", True),
}
SPARSE, CATEGORICAL = "sparse_categorical_crossentropy", "categorical_crossentropy"
NLL = "nll_loss"
"""The negative log-likelihood of what are no log-probabilities."""


@dataclass(frozen=True)
class LossTerm:
    """A loss that was recognized.

    `output` is the node that computes what the loss receives, logits for example, and `activation`
    what is applied to it before, as far as that is known. `target` returns the targets, if the
    graph has kept them; not all graphs have.
    """

    name: str
    output: Any
    from_logits: bool | None = None
    reduction: str | None = None
    activation: str | None = None
    axis: int | None = None
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    target: Callable[[], Tensor | None] = lambda: None
    is_nonnegative: bool | None = None
    chosen: Any = None
    """The node in which it was recognized."""
    rest: str | None = None

    @property
    def facts(self) -> LossFacts:
        return LossFacts(
            name=self.name,
            from_logits=self.from_logits,
            is_nonnegative=self.is_nonnegative,
            reduction=self.reduction,
            rest=self.rest,
            axis=self.axis,
            shapes=self.shapes,
        )


@dataclass(frozen=True)
class SeenLoss:
    """What is differentiated: its facts and, if it has one output, the term that receives it."""

    facts: LossFacts
    term: LossTerm | None = None


def read_loss(root: Any) -> SeenLoss:
    """What the graph of a loss tells, from the node that computes the loss."""
    surroundings = _Surroundings()
    terms = surroundings.terms(root)
    if len({term.name for term in terms}) != 1:
        return SeenLoss(LossFacts())
    term = terms[0]
    if _are_of_discriminator(terms):
        facts = replace(term.facts, reduction="other", is_of_own_step=True)
        return SeenLoss(facts, term if len(terms) == 1 else None)
    if any(getattr(term.chosen, name, None) is not None for name in _WEIGHTS):
        surroundings.is_weighted = True
    if len(terms) > 1 or not surroundings.are_plain(term):
        # Weights and other terms may be negative.
        rest = surroundings.rest_of(term)
        term = replace(term, reduction="other", is_nonnegative=False, rest=rest)
    if surroundings.is_weighted and operation(term.chosen) in ("Gather", "Index"):
        return SeenLoss(LossFacts(is_nonnegative=False))  # A policy gradient, for example.
    return SeenLoss(term.facts, term if len(terms) == 1 else None)


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

    def rest_of(self, term: LossTerm) -> str:
        """Whether all but a term is about weights, or about the output of the term."""
        if self._is_product:
            return "terms"  # Whatever it is multiplied by: a focal loss is another one.
        known = [arranged(term.output), term.chosen]
        for other in self._others:
            for node in ancestors(other, _MOST_PENALTY_NODES, known):
                if operation(node) in _LAYERS and any(map(_is_computed, sources(node))):
                    return "terms"
        return "terms" if self.is_weighted else "penalties"

    def terms(self, root: Any) -> list[LossTerm]:
        """The losses that are recognized."""
        found: list[LossTerm] = []
        stack, seen = [root], {root}
        while stack:
            node = stack.pop()
            term = _term(node)
            if term is not None:
                found.append(term)
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
            for child in sources(node):
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        is_mean = not self._is_sum or len(self._divisors) > 0
        return [
            replace(term, reduction="mean" if is_mean else "sum")
            if term.reduction in (None, "none")
            else term
            for term in found
        ]

    def _add_factor(self, node: Any) -> None:
        factor: Any = getattr(node, "_saved_other", None)
        if hasattr(factor, "ndim") and factor.ndim > 0:
            # A factor that is differentiated is among the other terms.
            self.is_weighted |= len(sources(node)) < 2
            self._factors += 1
        elif hasattr(factor, "device") and factor.device.type != "cpu":
            pass  # The scale of a GradScaler; reading it would wait for the device.
        elif factor is not None and float(factor) == 1.0:
            pass  # The number of micro-batches, for example.
        elif operation(node) == "Div" and factor is not None:
            self._divisors.append(float(factor))
        else:
            self._factors += 1


def _term(node: Any) -> LossTerm | None:
    term = _recognized(node)
    return None if term is None else replace(term, chosen=node)


def _recognized(node: Any) -> LossTerm | None:
    name, reduction = operation(node), None
    if hasattr(node, "_saved_reduction"):
        reduction = _REDUCTIONS.get(int(node._saved_reduction), "other")
    if name in ("NllLoss", "NllLoss2D", "NllLossNd"):
        return _of_classes(node, reduction, lambda: _unignored(node))
    if name in _FUSED and sources(node):
        loss, from_logits = _FUSED[name]
        return _of_values(loss, node, sources(node)[0], reduction, from_logits, "_saved_target")
    if name == "Pow" and _number(getattr(node, "_saved_exponent", None)) == 2.0:
        return _of_difference("mean_squared_error", node, reduction)
    if name == "Abs":
        return _of_difference("mean_absolute_error", node, reduction)
    if name == "Gather":
        return _of_classes(node, reduction, lambda: node._saved_index, is_own=True)
    if name == "Index":
        return _of_classes(node, reduction, lambda: node._saved_indices[-1], is_own=True)
    if name == "Mul":
        return _of_soft_labels(node, reduction)
    return None


def _of_classes(
    node: Any, reduction: str | None, target: Callable[[], Tensor], is_own: bool = False
) -> LossTerm | None:
    """The cross-entropy with class numbers, from the node that chooses each sample's own class."""
    chosen = arranged(sources(node)[0])
    if operation(chosen) == "LogSoftmax":
        return _cross_entropy(SPARSE, chosen, reduction, target)
    is_log = operation(chosen) == "Log"
    inner = arranged(_past_guards(sources(chosen)[0])) if is_log else chosen
    activation = _activation(inner)
    if is_log and activation == "softmax":
        return LossTerm(
            SPARSE, inner, False, reduction, activation, _class_axis(inner), target=target
        )
    if is_own or is_log:
        return None  # It may mean anything.
    return LossTerm(NLL, inner, None, reduction, activation, target=target)


def _of_soft_labels(node: Any, reduction: str | None) -> LossTerm | None:
    children = [child for child, _ in node.next_functions]
    places = [i for i, child in enumerate(children) if child is not None]
    if len(places) != 1 or len(children) != 2:
        return None
    chosen = arranged(children[places[0]])
    if operation(chosen) != "LogSoftmax" or result_shape(node) != result_shape(chosen):
        return None
    saved = "_saved_self" if places[0] else "_saved_other"
    return _cross_entropy(CATEGORICAL, chosen, reduction, lambda: getattr(node, saved))


def _cross_entropy(
    name: str, log_softmax: Any, reduction: str | None, target: Callable[[], Tensor]
) -> LossTerm:
    output = sources(log_softmax)[0]
    axis, inner = _class_axis(log_softmax), arranged(output)
    if operation(inner) == "Softmax" and _class_axis(inner) == 0:
        axis = 0
    return LossTerm(name, output, True, reduction, _activation(output), axis, target=target)


def _of_values(
    name: str, node: Any, output: Any, reduction: str | None, from_logits: bool | None, saved: str
) -> LossTerm:
    def target() -> Tensor:
        return unexpanded(getattr(node, saved))

    shape, shapes = result_shape(output), None
    inner = output
    while operation(inner) == "Expand" and sources(inner):
        inner = sources(inner)[0]
    given = result_shape(inner)
    if given is not None and shape is not None and given != shape:
        shapes = given, tuple(map(int, target().shape))
    return LossTerm(
        name, inner, from_logits, reduction, _activation(inner), None, shapes, target=target
    )


def _of_difference(name: str, node: Any, reduction: str | None) -> LossTerm | None:
    """A loss that is written by hand, of the difference between an output and targets."""
    difference = sources(node)[0]
    if operation(difference) not in ("Sub", "Add") or len(sources(difference)) != 1:
        return None
    output = sources(difference)[0]
    given, shape = result_shape(output), result_shape(difference)
    shapes = None
    if given is not None and shape is not None and given != shape:
        # The graph has not kept the targets; their shape follows from the result.
        padded = (1,) * (len(shape) - len(given)) + given
        other = tuple(n if n != own else 1 for n, own in zip(shape, padded, strict=True))
        shapes = given, other
    return LossTerm(name, output, None, reduction, _activation(output), None, shapes)


def _is_computed(node: Any) -> bool:
    """Whether a node is no parameter."""
    return operation(arranged(node)) != "AccumulateGrad"


def _activation(node: Any) -> str | None:
    """What is applied last to what a node returns; `linear` if that is a layer without one."""
    node = arranged(node)
    name = operation(node)
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    return "linear" if name in ("Addmm", "Mm", "Linear", "Convolution", "Add") else None


def _past_guards(node: Any) -> Any:
    """The node before a small number is added to it, or it is clamped, so that its log exists."""
    while operation(node) in ("Add", "Clamp", "ClampMin") and len(sources(node)) == 1:
        node = sources(node)[0]
    return node


def _class_axis(softmax: Any) -> int | None:
    """The axis of a softmax, counted from the end; 0 for the samples."""
    shape = result_shape(softmax)
    axis = getattr(softmax, "_saved_dim", None)
    if shape is None or not isinstance(axis, int):
        return None
    if axis >= 1 << 63:  # Negative numbers are shown as unsigned ones.
        axis -= 1 << 64
    axis = axis - len(shape) if axis >= 0 else axis
    return 0 if axis == -len(shape) and len(shape) > 1 else axis


def _unignored(node: Any) -> Tensor:
    """The classes, without those that the loss ignores."""
    target = node._saved_target
    ignored = int(node._saved_ignore_index)
    if ignored >= 1 << 63:
        ignored -= 1 << 64
    if target.is_cuda:
        # To count them would wait for the device: they become the largest class.
        return target.where(target != ignored, target.max())
    return target[target != ignored]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
