"""The gradients of a step before they are clipped."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.amp.grad_scaler import OptState

from gradwatch.capture.torch import backward_tap, clip_tap
from gradwatch.capture.torch.module_tensors import ModuleTensors
from gradwatch.capture.torch.torch_optimizer import scale_of
from gradwatch.core import Site, Tensor, TorchOptimizer
from gradwatch.measure.torch_eager import MeasuredRow


class Clipping:
    """Notices that the gradients of an optimizer are about to be clipped, and keeps what they were.

    `note` is called before the first clipping since the last backward pass, to measure what is due.
    What it finds is here until the step has ended, or the gradients change by another backward
    pass.
    """

    def __init__(
        self, optimizer: TorchOptimizer, tensors: ModuleTensors, note: Callable[[], None]
    ) -> None:
        self.is_clipped = False
        """Whether gradients were clipped since the last backward pass."""
        self.is_due = True
        """Whether they were to be measured before that."""
        self.rows: Mapping[Site, MeasuredRow] = {}
        """The measurements of the gradients before that, if it is due."""
        self.values: Mapping[str, Tensor] = {}
        """Copies of them for probes, see `capture.values`."""
        self._scaled: dict[Site, Tensor | None] = {}
        self._scaler: Any = None
        self._optimizer = optimizer
        self._tensors = tensors
        self._note = note

    def listen(self) -> list[Callable[[], None]]:
        """Begin to notice; returns functions that end this."""
        return [clip_tap.listen(self._hear), backward_tap.listen(self._backward_begins)]

    def forget(self) -> None:
        """The step has ended, or its gradients change."""
        self.is_clipped, self.is_due = False, True
        self.rows, self.values, self._scaled = {}, {}, {}

    def step_ended(self) -> None:
        self.forget()
        self._scaler = None

    def gradients(self, sites: list[Site]) -> list[Tensor | None] | None:
        """The gradients as they are, before they are clipped; None if they are still scaled.

        Then they are kept until it is known whether their scale is ever divided out.
        """
        tensors = [self._tensors.tensor(site) for site in sites]
        if self._stage() is OptState.READY:
            copies = [None if x is None else x.detach().clone() for x in tensors]
            self._scaled = dict(zip(sites, copies, strict=True))
            return None
        return tensors

    def kept(self) -> Mapping[Site, Tensor | None]:
        """The gradients that were kept because they were scaled, without their scale."""
        scale = scale_of(self._optimizer)
        if scale is None and self._stage() is OptState.UNSCALED:
            scale = self._scaler._scale
        if scale is None:
            return self._scaled
        return {
            site: None if x is None else x / scale.to(x.device) for site, x in self._scaled.items()
        }

    def _stage(self) -> Any:
        """What the scaler of the loss has done to these gradients; None if there is no scaler."""
        scaler = self._scaler
        if scaler is None or not scaler.is_enabled():
            return None
        state = scaler._per_optimizer_states.get(id(self._optimizer))
        return OptState.READY if state is None else state["stage"]

    def _hear(self, gradients: Any, scaler: Any) -> None:
        if scaler is not None:
            self._scaler = scaler
        elif not self.is_clipped and self._are_own(gradients):
            self.is_clipped = self._tensors.is_clipped = True
            self._note()

    def _are_own(self, gradients: Any) -> bool:
        given = set(map(id, gradients))
        return any(id(x) in given for x in self._tensors.gradients())

    def _backward_begins(self, tensors: Any) -> None:
        # Not `torch.autograd.grad`: that leaves `.grad` as it is.
        if self.is_clipped and torch.is_grad_enabled():
            self.forget()
