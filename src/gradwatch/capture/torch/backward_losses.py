"""The loss of each step, from what is differentiated."""

from collections.abc import Callable
from typing import Any

import torch

from gradwatch.capture.torch import backward_tap, clip_tap
from gradwatch.capture.torch.torch_optimizer import innermost
from gradwatch.core import Tensor, TorchOptimizer


class BackwardLosses:
    """Adds up the losses of the backward passes of a step, without the scale of a `GradScaler`."""

    def __init__(self) -> None:
        self._total: Tensor = None
        self._is_taken = False
        self._passes = 0
        self._scaler: Any = None
        self._ends = [clip_tap.listen(self._hear), backward_tap.listen(self._backward_begins)]

    def follow(self, optimizer: TorchOptimizer, record: Callable[[Tensor], None]) -> None:
        """Call a function with the loss after each step of an optimizer.

        If the optimizer is watched before, the step is counted by then.
        """

        passes = 0

        def ended(optimizer: Any, args: Any, kwargs: Any) -> None:
            nonlocal passes
            # Several optimizers may step after one backward pass, and one after none.
            is_new, passes = self._passes > passes, self._passes
            self._is_taken = True
            if self._total is not None and is_new:
                record(self._total)

        handle = innermost(optimizer).register_step_post_hook(torch.compiler.disable(ended))
        self._ends.append(handle.remove)

    def close(self) -> None:
        while self._ends:
            self._ends.pop()()
        self._total = self._scaler = None

    def take_skipped(self) -> Tensor | None:
        """The loss of a step that was not made after all, if there is one."""
        total, self._total = self._total, None
        return None if self._is_taken else total

    def _hear(self, gradients: Any, scaler: Any) -> None:
        if scaler is not None:
            self._scaler = scaler

    def _backward_begins(self, tensors: Any) -> None:
        loss = tensors[0] if isinstance(tensors, list | tuple) and len(tensors) == 1 else tensors
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            return
        loss = loss.detach().reshape(()).float()
        self._passes += 1
        scaler, self._scaler = self._scaler, None
        if scaler is not None and scaler.is_enabled():
            loss = loss / scaler._scale.to(loss.device)
        is_new = self._total is None or self._is_taken
        self._total = loss if is_new else self._total + loss
        self._is_taken = False
