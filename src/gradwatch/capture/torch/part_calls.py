"""The batch and the outputs of a module that is not called itself: its parts are."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from gradwatch.capture.torch.graph_nodes import arranged
from gradwatch.capture.torch.loss_terms import LossTerm
from gradwatch.capture.torch.module_paths import has_forward
from gradwatch.capture.variable_names import unwrapped

_MOST = 32
"""Calls of a step that are kept; the first ones."""


class PartCalls:
    """Notes the calls of a module's outermost parts, such as an encoder and a decoder.

    Many programs call these one after another, and never the module that holds them.
    """

    def __init__(self, module: Any) -> None:
        self.modules = dict(_outermost(unwrapped(module)))
        self._calls: list[tuple[list[Any], list[Any]]] = []
        self._counts: Counter[str] = Counter()

    def add(self, path: str, args: Any, outputs: Any) -> None:
        """A part was called."""
        self._counts[path] += 1
        if len(self._calls) < _MOST:
            self._calls.append((tensors_in(args), tensors_in(outputs)))

    def forget(self) -> None:
        """Another step begins."""
        self._calls, self._counts = [], Counter()

    @property
    def most(self) -> int:
        """How often the part was called that was called most often."""
        return max(self._counts.values(), default=0)

    def given(self) -> list[Any]:
        """What the first part was given."""
        return self._calls[0][0] if self._calls else []

    def inputs(self) -> list[Any]:
        """What any part was given."""
        return [x for given, _ in self._calls for x in given if x.is_floating_point()]

    def last_ids(self) -> list[Any]:
        """The whole numbers that the last part to be given any was given.

        Of an encoder and a decoder, it is the decoder that predicts what it is told next.
        """
        for given, _ in reversed(self._calls):
            ids = [x for x in given if not x.is_floating_point() and x.dtype != torch.bool]
            if ids:
                return ids
        return []

    def outputs(self) -> list[Any]:
        """What any part has returned."""
        return [x for _, results in self._calls for x in results]

    def output_of(self, term: LossTerm) -> Any | None:
        """What a part has returned that the loss's term compares with its targets."""
        node = arranged(term.output)
        found = (x for x in self.outputs() if x.grad_fn is not None)
        return next((x for x in found if arranged(x.grad_fn) is node), None)


def tensors_in(values: Any) -> list[Any]:
    """The tensors among arguments or results, however nested."""
    return [x for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]


def one_tensor(outputs: Any) -> Any:
    """The output, if there is one only; of a mapping, its logits."""
    if hasattr(outputs, "keys") and "logits" in outputs:
        outputs = outputs["logits"]
    return outputs if isinstance(outputs, torch.Tensor) and outputs.is_floating_point() else None


def _outermost(module: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The parts that can be called; of mere containers, their own."""
    for name, part in module.named_children():
        own = f"{path}/{name}".removeprefix("/")
        if has_forward(part):
            yield own, part
        else:
            yield from _outermost(part, own)
