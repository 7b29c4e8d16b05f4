"""The logits of a torch module: what it has returned and the loss takes the softmax of.

The autograd graph of the loss, read before it is differentiated, leads from the softmax to what
computed its argument; the module that returned just that has the logits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from gradwatch.capture.torch import backward_tap
from gradwatch.capture.torch.graph_nodes import (
    ARRANGING,
    nodes_of,
    operation,
    result_shape,
    sources,
    uses_parameters,
)
from gradwatch.capture.torch.running_modules import RunningModules
from gradwatch.util import Reporter

ROOT = "logits"
"""The path of logits that only the module itself returns."""
_DECIDING = ("LogSoftmax", "BinaryCrossEntropyWithLogits", "LogSigmoid")
_KEPT = 16
"""Results of modules that are remembered: the logits are among the last."""
_MOST_NODES = 10_000

Measure = Callable[[Any], Any]


class OutputLogits:
    """Finds and measures the logits of the steps for which `is_on()` says so.

    `measure` is given the logits at the beginning of the backward pass, and measures them at once.
    """

    def __init__(self, reporter: Reporter, is_on: Callable[[], bool], measure: Measure) -> None:
        self._is_on, self._measure = is_on, measure
        self._guard = partial(reporter.guard, "measuring logits", "the logits of that step")
        self._calls = RunningModules(self._is_looked_at, lambda path: None, self._end, self._guard)
        self._last: deque[tuple[str, Any, int]] = deque(maxlen=_KEPT)
        """Paths and results, with the versions that they had."""
        self._found: dict[str, list[Any]] = {}

    def listen(self, root: Any, modules: Mapping[str, Any]) -> list[Callable[[], None]]:
        """Begin, with all modules by their paths; the functions that this returns end it."""
        ends = self._calls.listen(root, modules)
        return [*ends, backward_tap.listen(self._backward_begins)]

    def take(self) -> dict[str, list[Any]]:
        """By path, what was measured since the last time."""
        found, self._found = self._found, {}
        self._last.clear()
        return found

    def _is_looked_at(self) -> bool:
        return torch._C._current_graph_task_id() == -1 and self._is_on()

    def _end(self, path: str, outputs: Any) -> None:
        known = {(x.grad_fn, x.output_nr) for _, x, _ in self._last}
        for x in pytree.tree_leaves(outputs):
            # Of several modules that return the same tensor, the innermost.
            is_result = isinstance(x, torch.Tensor) and x.grad_fn is not None
            if is_result and (x.grad_fn, x.output_nr) not in known:
                self._last.append((path or ROOT, x, x._version))

    def _backward_begins(self, tensors: Any) -> None:
        with self._guard():
            if self._last and self._is_on():
                self._read(tensors)

    def _read(self, tensors: Any) -> None:
        known = {(x.grad_fn, x.output_nr): (path, x, version) for path, x, version in self._last}
        seen = {id(node): node for node in nodes_of(tensors)}
        waiting = list(seen.values())
        while waiting and len(seen) < _MOST_NODES:
            node = waiting.pop()
            if operation(node) in _DECIDING:
                self._note(node, known)
                continue
            # What is computed with weights is behind the loss, unless they are weights of losses.
            if uses_parameters(node) and result_shape(node) != ():
                continue
            for child in sources(node):
                if id(child) not in seen:
                    seen[id(child)] = child
                    waiting.append(child)
        self._last.clear()

    def _note(self, deciding: Any, known: Mapping[Any, tuple[str, Any, int]]) -> None:
        node, number = deciding.next_functions[0]
        while node is not None:
            if (node, number) in known:
                path, x, version = known[node, number]
                if x._version == version:
                    self._found.setdefault(path, []).append(self._measure(x.detach()))
                return
            several = [each for each in node.next_functions if each[0] is not None]
            if operation(node) not in ARRANGING or len(several) != 1:
                return
            node, number = several[0]
