"""The residual branches of a torch module: where a tensor is added to what was computed from it.

While the module runs, torch's addition is replaced by functions that first look at the two tensors.
One of them is the stream, and the other the branch, if the autograd graph leads from the branch to
the stream, on a way on which there are weights. Nothing else is taken for a residual branch: not
the sum of two embeddings, not a shortcut that is itself a projection, not a gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from gradwatch.capture.torch.graph_nodes import arranged, operation, uses_parameters
from gradwatch.capture.torch.replaced_functions import ReplacedFunctions
from gradwatch.capture.torch.running_modules import RunningModules
from gradwatch.measure import framework
from gradwatch.util import Reporter

_FUNCTIONS = ReplacedFunctions(
    (
        (torch.Tensor, "__add__"),
        (torch.Tensor, "__iadd__"),
        (torch.Tensor, "add"),
        (torch.Tensor, "add_"),
        (torch, "add"),
    ),
    is_before=True,
)
_MOST_NODES = 2_000
"""Of a branch."""
_SAME_VALUES = frozenset({
    "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Transpose", "Permute", "T",
    "Alias", "Clone", "ToCopy", "Contiguous", "Mul", "Div",
})  # fmt: skip
"""Operations whose result has all elements of what they are given, once, perhaps scaled."""

Edge = tuple[Any, int]
"""A node of the graph, and which of its results."""


class ResidualSums:
    """Measures the sums in calls of a module, in the steps for which `is_on()` says so."""

    def __init__(self, reporter: Reporter, is_on: Callable[[], bool]) -> None:
        self._is_on = is_on
        self.guard = partial(reporter.guard, "measuring a residual branch", "that branch")
        self._calls = RunningModules(
            self._is_looked_at, self._begin, self._end, self.guard, self._abandon
        )
        self._found: dict[str, list[Any]] = {}
        self._pending: list[tuple[str, Any]] = []
        """Those of the call that is under way, and may yet fail."""
        self._made: dict[Edge, str] = {}
        """The modules that have returned something in the call that is under way."""
        self._weighted: frozenset[str] = frozenset()

    def listen(self, root: Any, modules: Mapping[str, Any]) -> list[Callable[[], None]]:
        """Begin, with all modules by their paths; the functions that this returns end it."""
        self._weighted = frozenset(
            p for p, m in modules.items() if any(True for _ in m.parameters())
        )
        return [*self._calls.listen(root, modules), self._abandon]

    def take(self) -> dict[str, list[Any]]:
        """By the path of the branch, the ratios that were found since the last time."""
        found, self._found = self._found, {}
        self._abandon()
        return found

    def look(self, path: str, name: str, args: Any, kwargs: Any) -> None:
        if len(args) != 2 or kwargs or not (_is_plain(args[0]) and _is_plain(args[1])):
            return
        first, second = args
        if first.shape != second.shape or first.ndim < 2:
            return
        nodes = first.grad_fn, second.grad_fn
        if None in nodes or torch._C._current_graph_task_id() != -1:
            return
        for stream, branch in ((first, second), (second, first)):
            edges = _equal_edges(stream)
            if _leads_to(branch.grad_fn, edges):
                path = self._origin(branch, edges) or path
                if path:
                    ratio = framework("torch").residual_ratio(branch, stream)
                    self._pending.append((path, ratio))
                return

    def _origin(self, branch: Any, stream: set[Edge]) -> str | None:
        """The module with weights that has returned the branch, or what it was made of directly."""
        node, number = branch.grad_fn, branch.output_nr
        while node is not None and (node, number) not in stream:
            path = self._made.get((node, number))
            if path is not None:
                return path
            several = [(child, nr) for child, nr in node.next_functions if child is not None]
            several = [each for each in several if operation(arranged(each[0])) != "AccumulateGrad"]
            node, number = several[0] if len(several) == 1 else (None, 0)
        return None

    def _is_looked_at(self) -> bool:
        # Computed again for the backward pass (checkpointing), it would count twice.
        return torch._C._current_graph_task_id() == -1 and self._is_on()

    def _abandon(self) -> None:
        self._made, self._pending = {}, []
        self._calls.abandon()
        _FUNCTIONS.abandon(self)

    def _begin(self, path: str) -> None:
        if torch._C._current_graph_task_id() == -1:
            _FUNCTIONS.begin(self, path)

    def _end(self, path: str, outputs: Any) -> None:
        if not _FUNCTIONS.end(self, path):
            return
        if all(onlooker is not self for onlooker, _ in _FUNCTIONS.running()):
            pending, self._made, self._pending = self._pending, {}, []
            for branch, ratio in pending if outputs is not None else ():
                self._found.setdefault(branch, []).append(ratio)
        elif path in self._weighted:
            for x in pytree.tree_leaves(outputs):
                if isinstance(x, torch.Tensor) and x.grad_fn is not None:
                    self._made[x.grad_fn, x.output_nr] = path


def _is_plain(x: Any) -> bool:
    return (
        type(x) in (torch.Tensor, torch.nn.Parameter)
        and x.is_floating_point()
        and x.layout is torch.strided
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    )


def _equal_edges(stream: Any) -> set[Edge]:
    """Where the stream was computed, and where tensors with the same elements were."""
    node, number = stream.grad_fn, stream.output_nr
    found = {(node, number)}
    while operation(node) in _SAME_VALUES:
        several = [each for each in node.next_functions if each[0] is not None]
        if len(several) != 1 or operation(several[0][0]) == "AccumulateGrad":
            break
        node, number = several[0]
        found.add((node, number))
    return found


def _leads_to(branch: Any, stream: set[Edge]) -> bool:
    """Whether a node computes something from the stream with weights."""
    oldest = min(node._sequence_nr() for node, _ in stream)
    seen, waiting = {branch}, [branch]
    while waiting:
        for child, _ in waiting.pop().next_functions:
            is_known = child is None or child in seen or operation(child) == "AccumulateGrad"
            if not is_known and child._sequence_nr() > oldest:
                seen.add(child)
                waiting.append(child)
        if len(seen) > _MOST_NODES:
            return False
    # Nodes come after those that they need: of what leads to the stream, whether weights are used.
    weighted: dict[Any, bool] = {}
    for node in sorted(seen, key=lambda each: int(each._sequence_nr())):
        before = [
            weighted.get(child, False)
            for child, number in node.next_functions
            if (child, number) in stream or child in weighted
        ]
        if before:
            weighted[node] = any(before) or _uses_weights(node)
    return weighted.get(branch, False)


def _uses_weights(node: Any) -> bool:
    # Of a function of the user's, or a checkpoint, it is not known.
    is_function = isinstance(node, torch.autograd.function.BackwardCFunction)
    return is_function or uses_parameters(node)
