"""The losses of a loop that records none: those that it differentiates."""

from dataclasses import replace
from typing import Any

import torch

from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.torch import backward_tap
from gradwatch.capture.torch.backward_losses import BackwardLosses
from gradwatch.capture.torch.graph_nodes import nodes_of
from gradwatch.capture.torch.untrained import OwnLosses
from gradwatch.core import Moment, Tensor, TorchOptimizer

_FIRST_STEPS = 3
"""A loop that records losses has recorded one by then."""


class UnrecordedLosses:
    """Records what is differentiated as the loss of a step, in a loop that records no losses.

    Only where that is the loss without doubt: each of the first steps has one backward pass, from
    which the watched optimizer learns. Losses wait for the next step, since one that the loop
    records itself takes their place; those of the first steps wait until it is clear.
    """

    def __init__(self, optimizer: TorchOptimizer, loop: LoopCapture) -> None:
        self._loop, self._reporter = loop, loop.reporter
        self._progress = loop.progress("")
        self._own = OwnLosses(optimizer)
        self._waiting: list[tuple[Moment, Tensor]] = []
        self._passes = self._steps = 0
        self._is_certain, self._is_over = True, False
        self._losses = BackwardLosses()
        self._losses.follow(optimizer, self._step_ended)
        begins = optimizer.register_step_pre_hook(torch.compiler.disable(self._step_begins))
        self._ends = [backward_tap.listen(self._backward_begins), begins.remove]
        loop.at_end.append(self.close)

    def close(self) -> None:
        """Record the losses that wait, and listen no more."""
        self._send()
        self._end()

    def _end(self) -> None:
        self._waiting = []
        while self._ends:
            self._ends.pop()()
        self._losses.close()

    def _backward_begins(self, tensors: Any) -> None:
        if self._is_over:
            # Not earlier: torch does not allow hooks of an optimizer to remove hooks.
            self._end()
            return
        self._passes += 1
        if self._steps < _FIRST_STEPS:
            self._is_certain &= any(root in self._own for root in nodes_of(tensors))

    @guarded("recording the loss of a step", "that loss")
    def _step_begins(self, optimizer: TorchOptimizer, args: Any, kwargs: Any) -> None:
        self._send()

    @guarded("noting the loss of a step", "that loss")
    def _step_ended(self, loss: Tensor) -> None:
        passes, self._passes = self._passes, 0
        self._steps += 1
        is_certain = self._is_certain and passes == 1 and not self._progress.loss_step
        if len(self._loop.known) > 1 or (self._steps <= _FIRST_STEPS and not is_certain):
            self._is_over, self._waiting = True, []
        elif passes == 1 and not self._is_over:
            self._waiting.append((self._progress.past(None), loss))

    def _send(self) -> None:
        """Record the losses that wait, as soon as it is clear that the loop records none."""
        if self._steps < _FIRST_STEPS:
            return
        waiting, self._waiting = self._waiting, []
        if self._steps == _FIRST_STEPS and self._progress.loss_step:
            self._is_over = True
            return
        for i, (moment, loss) in enumerate(waiting, 1):
            if moment.step != self._progress.loss_step:
                # All else of the steps before the last is recorded: training has not gone back.
                is_again = i < len(waiting)
                self._loop.record_loss(replace(moment, is_again=is_again), "", loss)
