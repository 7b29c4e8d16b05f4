"""A loss that is recognized by the node of torch's autograd graph that computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gradwatch.capture.torch.graph_nodes import (
    ACTIVATIONS,
    arranged,
    operation,
    result_shape,
    sources,
    unexpanded,
)
from gradwatch.core import LossFacts, Tensor

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}
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
    weights: Callable[[Tensor], Tensor] | None = None
    """Those of the elements of given targets, if classes or elements have weights."""
    factor: float = 1.0
    """By what it is multiplied in the whole loss; NaN if that is not known."""
    is_over_weights: bool = False
    """Whether the mean is over what these add up to, rather than over all elements."""

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


def recognized(node: Any) -> LossTerm | None:
    """The loss that a node computes, if it is known."""
    term = _recognized(node)
    if term is None:
        return None
    is_nll = operation(node).startswith("NllLoss")
    return replace(term, chosen=node, weights=_weights(node, is_nll), is_over_weights=is_nll)


def _weights(node: Any, is_of_classes: bool) -> Callable[[Tensor], Tensor] | None:
    """How much each element of given targets counts; None if all count the same."""
    own, of_positive = (getattr(node, f"_saved_{name}", None) for name in ("weight", "pos_weight"))
    if own is None and of_positive is None:
        return None

    def weights(targets: Tensor) -> Tensor:
        if is_of_classes and own is not None:
            return own[targets.long()]
        found = targets * 0.0 + 1.0
        if of_positive is not None:
            found = found + (of_positive - 1.0) * targets
        return found if own is None else found * own

    return weights


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


def ignored_class(node: Any) -> int:
    """The class that the loss of a node leaves out."""
    ignored = int(node._saved_ignore_index)
    # Negative numbers are shown as unsigned ones.
    return ignored - (1 << 64) if ignored >= 1 << 63 else ignored


def _unignored(node: Any) -> Tensor:
    """The classes, without those that the loss ignores."""
    target, ignored = node._saved_target, ignored_class(node)
    if target.is_cuda:
        # To count them would wait for the device: they become the largest class.
        return target.where(target != ignored, target.max())
    return target[target != ignored]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
