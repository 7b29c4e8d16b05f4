"""Reads torch tensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradwatch.capture.taps.passage import Passage


class TorchTap:
    """Notes tensors as they are; a hook of the tensor itself notes its gradient."""

    def __init__(self, compiled: bool) -> None:
        self._compiled = compiled
        self._hooks: list[Any] = []

    def aside(self, function: Any) -> Any:
        # The compiler would follow the bookkeeping, and fail at it.
        return torch.compiler.disable(function) if self._compiled else function

    @contextmanager
    def watching(self) -> Iterator[None]:
        try:
            yield  # Nothing is traced, so everything can leave.
        finally:
            # What a layer returned may outlive the step: a parameter, say.
            for hook in self._hooks:
                hook.remove()
            self._hooks = []

    def through(self, tensor: Any, passage: Passage) -> Any:
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            raise TypeError(f"a {type(tensor).__name__}")
        if tensor.is_complex():
            raise TypeError(f"a tensor of dtype {tensor.dtype}")
        # A copy: what follows may overwrite it before it is measured, as `x += 1` in a layer does.
        passage.output = tensor.detach().clone()
        if passage.wants_gradient and tensor.requires_grad:
            self._hooks.append(tensor.register_hook(passage.note_gradient))
        return tensor

    def can_leave(self, tensor: Any) -> bool:
        # Those of torch.func's transformations live inside them.
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
