"""Sums that tell, at every step, whether what it computes is finite, and what was not first."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from gradwatch.capture.step_tensors import under
from gradwatch.capture.torch.module_calls import listen
from gradwatch.capture.torch.module_paths import compiled_paths, modules_of
from gradwatch.capture.variable_names import NamedVariable, unwrapped
from gradwatch.core import Kind, Site, Tensor
from gradwatch.util import Reporter

FREE_SECONDS = 1.0
"""What the sums may take in any case, so that short trainings are seen as a whole."""
SHARE = 0.005
"""What they may take beyond that, of the time of training."""
MOST_NOTES = 4096
"""Sums of one step, at most: an evaluation may run with gradients enabled."""
MOST_IN_A_ROW = 3
"""Steps in a row that are told not to be finite, since NaN stays."""
_LOOKED_AT = 6
"""Gradients, the smallest: enough to see whether they were zeroed."""
EVERYTHING, NO_GRADIENTS, BLOCKS, NOTHING = range(4)


class FiniteChecks:
    """Sums what layers return in a step, the gradients thereof, and the parameters.

    A sum is not finite if an element is not, and takes a few microseconds. The sums are looked at
    only if those of the parameters' gradients, of the parameters or the loss are not finite; none
    of the tensors is kept. If they take too long, gradients of outputs are left out, then all but
    the outermost layers, then everything. Only tensors on the CPU are looked at, where nothing has
    to be waited for.
    """

    def __init__(self, named: Sequence[NamedVariable], group: str, reporter: Reporter) -> None:
        self._reporter = reporter
        self._group = group
        self._named = named
        self._notes: list[tuple[Kind, str, Tensor]] = []
        self._last_notes: list[tuple[Kind, str, Tensor]] = []
        self._last_output: Tensor = None
        self.is_off = any(n.value.device.type != "cpu" for n in named)
        self._level = EVERYTHING
        self._spent = 0.0
        self._since: float | None = None
        self._bad_in_a_row = 0
        self._task: int | None = None
        self._were_zeroed = False
        self._grads_before: list[Tensor] = []
        """Those of the parameters below, as a backward pass found them."""
        self._reached_parameters: list[Any] = []
        """Some that have had a gradient."""

    def close(self) -> None:
        self._notes, self._last_notes, self._last_output = [], [], None

    def _level_changed(self) -> None:
        """Less is to be summed from now on."""

    def _is_input(self, path: str) -> bool:
        """Whether the arguments of this call are the batch."""
        return not self._notes

    # In the forward and the backward pass.

    def note(self, path: str, args: Any, outputs: Any) -> None:
        """A layer was called with these arguments, and returned these outputs."""
        if not torch.is_grad_enabled():
            return  # A pass for evaluation.
        if torch._C._current_graph_task_id() != -1:
            return  # Checkpointing computes it again.
        begin = time.perf_counter()
        if len(self._notes) > MOST_NOTES:
            self._notes = []
        is_input = self._is_input(path)
        is_one = type(outputs) is torch.Tensor
        for x in [outputs] if is_one else pytree.tree_leaves(outputs):
            # What a container returns is what its last module has returned.
            if x is self._last_output or not _is_summed(x):
                continue
            self._last_output = x
            self._notes.append((Kind.OUTPUT_SUM, path, _sum(x)))
            if self._level == EVERYTHING and x.grad_fn is not None:
                x.register_hook(partial(self._note_gradient, path))
        if is_input:
            inputs = [x for x in pytree.tree_leaves(args) if _is_summed(x)]
            self._notes += [(Kind.INPUT_SUM, "input", _sum(x)) for x in inputs]
        self._spent += time.perf_counter() - begin

    def _note_gradient(self, path: str, gradient: Tensor) -> None:
        try:
            begin = time.perf_counter()
            self._look_for_zeros()
            if _is_summed(gradient):
                self._notes.append((Kind.OUTPUT_GRADIENT_SUM, path, _sum(gradient)))
            self._spent += time.perf_counter() - begin
        except Exception as error:
            self._reporter.internal_error(error, "summing a gradient", "where NaN comes from")

    def _look_for_zeros(self) -> None:
        """See at the start of a backward pass whether gradients were zeroed since the last step."""
        task = torch._C._current_graph_task_id()
        if task == self._task or self._were_zeroed:
            return
        self._task = task
        # Those behind the last layer, such as a temperature, may have got theirs already.
        some = self._reached_parameters
        self._were_zeroed = not some or any(x.grad is None or not x.grad.any() for x in some)
        self._grads_before = [] if self._were_zeroed else [x.grad for x in some]

    # Around the step of the optimizer.

    def are_gradients_finite(self) -> bool:
        return self.is_off or self._are_finite([n.value.grad for n in self._named])

    def are_weights_finite(self) -> bool:
        return self.is_off or self._are_finite([n.value for n in self._named])

    def _are_finite(self, tensors: Sequence[Tensor | None]) -> bool:
        begin = time.perf_counter()
        total = sum([_sum(x).item() for x in tensors if x is not None and _is_summed(x)])
        self._spent += time.perf_counter() - begin
        return math.isfinite(total)

    @property
    def has_begun(self) -> bool:
        """Whether layers were called since the last step."""
        return bool(self._notes)

    @property
    def has_kept_gradients(self) -> bool | None:
        """Whether this step's gradients were added to those of the step before; None if unknown."""
        if self._task is None:
            return None
        # A backward pass adds in place. Another tensor was put there, as in first-order
        # meta-learning, or after zero_grad and a pass that no layer was seen in.
        pairs = zip(self._reached_parameters, self._grads_before, strict=False)
        return not self._were_zeroed and any(x.grad is before for x, before in pairs)

    def step_ended(self, was_finite: bool) -> None:
        """Forget the sums of a step, except for a loss that is told afterwards."""
        self._task, self._were_zeroed, self._grads_before = None, False, []
        if not self._reached_parameters:
            reached = [n.value for n in self._named if _is_summed(n.value.grad)]
            self._reached_parameters = sorted(reached, key=lambda x: x.numel())[:_LOOKED_AT]
        self._last_notes, self._notes, self._last_output = self._notes, [], None
        self._bad_in_a_row = 0 if was_finite else self._bad_in_a_row + 1
        now = time.perf_counter()
        self._since = self._since or now
        if not self.is_off and self._spent > FREE_SECONDS + SHARE * (now - self._since):
            self._level += 1
            self.is_off = self._level == NOTHING
            # What it has taken so far is past.
            self._spent, self._since = FREE_SECONDS, now
            self._level_changed()

    @property
    def is_told_already(self) -> bool:
        """Whether the last steps were told not to be finite, so that one more says nothing."""
        return self._bad_in_a_row >= MOST_IN_A_ROW

    def sums(self, of_last_step: bool = False) -> dict[Site, float]:
        """The sums by site, in the order in which they arose."""
        found: dict[Site, float] = {}
        calls: dict[tuple[Kind, str], int] = {}
        for kind, path, total in self._last_notes if of_last_step else self._notes:
            number = calls[kind, path] = calls.get((kind, path), 0) + 1
            own = path if number == 1 else f"{path}@{number}"
            found[Site(kind, under(self._group, own))] = float(total)
        return found


class ModuleChecks(FiniteChecks):
    """The same of a torch module, of whose calls it is told."""

    def __init__(
        self, module: Any, named: Sequence[NamedVariable], group: str, reporter: Reporter
    ) -> None:
        super().__init__(named, group, reporter)
        self._root = unwrapped(module)
        self._root_path = type(self._root).__name__.lower()
        self._compiled = compiled_paths(module)
        self._end: Callable[[], None] = lambda: None
        self._level_changed()

    def close(self) -> None:
        super().close()
        self._end()
        self._end = lambda: None

    def _is_input(self, path: str) -> bool:
        return path == self._root_path

    def _level_changed(self) -> None:
        self.close()
        if self.is_off:
            return
        modules = {p: m for p, m in modules_of(self._root).items() if p not in self._compiled}
        if self._level >= BLOCKS:
            top = {id(m) for m in self._root.children()}
            modules = {p: m for p, m in modules.items() if id(m) in top or next(m.children(), None)}
        if not self._compiled:
            modules.setdefault(self._root_path, self._root)
        self._end = listen(modules, self.note, self._reporter)


def _is_summed(x: Any) -> bool:
    return (
        isinstance(x, torch.Tensor)
        and x.is_floating_point()
        and x.layout is torch.strided
        and x.is_cpu
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    )


def _sum(x: Tensor) -> Tensor:
    x = x.detach()
    # The sum of numbers in half precision may be beyond its range.
    return x.sum() if x.dtype in (torch.float32, torch.float64) else x.sum(dtype=torch.float32)
