"""Tapping torch's tensors."""

from __future__ import annotations

from typing import Any

import torch

from gradwatch.capture.keras.taps import Passage


class TorchTap:
    """A view of the tensor, with a hook for its gradient.

    Args:
        compiled: whether the step is compiled by `torch.compile`.
    """

    def __init__(self, compiled: bool) -> None:
        self._compiled = compiled

    def aside(self, function: Any) -> Any:
        # The compiler would follow our bookkeeping, and fail at it.
        return torch.compiler.disable(function) if self._compiled else function

    def begin(self) -> None:
        """Nothing is traced, so everything can leave."""

    def through(self, tensor: Any, passage: Passage) -> Any:
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            raise TypeError(f"a {type(tensor).__name__}")
        if tensor.is_complex():
            raise TypeError(f"a tensor of dtype {tensor.dtype}")
        passage.output = tensor.detach()
        if not (passage.wants_gradient and tensor.requires_grad):
            return tensor
        # A tensor of its own: a layer may return its input as it is, and would
        # then be taken to receive the gradients of all who use that.
        view = tensor.view_as(tensor)
        view.register_hook(passage.note_gradient)
        return view

    def can_leave(self, tensor: Any) -> bool:
        # Those of torch.func's transformations live inside them.
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
