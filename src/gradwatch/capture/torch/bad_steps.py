"""Records steps in which something is not finite, due or not."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.step_tensors import under
from gradwatch.capture.torch.finite_checks import ModuleChecks
from gradwatch.capture.torch.module_tensors import ModuleTensors
from gradwatch.capture.variable_names import NamedVariable
from gradwatch.core import Kind, Moment, Site, Tensor
from gradwatch.measure import framework

KEPT_GRADIENTS = "kept_gradients"
"""The name of a number: 1 if the gradients were added to those of the step before."""


class BadSteps:
    """Looks at each step of an optimizer, and records it whatever is due if it is not finite.

    Of a step that is not due, the gradients, the weights, and the sums of `FiniteChecks` are
    recorded; of one that is measured, the sums go with it, and whether gradients were zeroed.
    """

    def __init__(
        self,
        module: Any,
        named: Sequence[NamedVariable],
        loop: LoopCapture,
        group: str,
        tensors: ModuleTensors,
    ) -> None:
        self._checks = ModuleChecks(module, named, group, loop.reporter)
        self._loop = loop
        self._group = group
        self._tensors = tensors
        self._is_bad = self._is_told = False
        self._is_looked_at = False
        self._gradients: tuple[list[Site], Tensor] | None = None
        progress = loop.progress(group)
        progress.sums_of_loss = self._sums_of_loss
        progress.is_under_way = lambda: self._checks.has_begun

    def close(self) -> None:
        progress = self._loop.progress(self._group)
        progress.sums_of_loss = lambda loss, is_under_way: {}
        progress.is_under_way = lambda: False
        self._checks.close()

    def before_clipping(self, is_due: bool) -> None:
        """The gradients are about to be clipped: one NaN makes all of them NaN."""
        self._look(is_due)
        self._is_looked_at = True

    def begin(self, is_due: bool, scale: Tensor | None, is_clipped: bool) -> None:
        """The step of the optimizer begins; with a `scale`, it may skip what is not finite."""
        if not (is_clipped and self._is_looked_at):
            self._look(is_due)
        self._is_bad = self._is_bad and scale is None

    def _look(self, is_due: bool) -> None:
        self._gradients = None
        self._is_bad = not self._checks.are_gradients_finite()
        if self._is_bad and not is_due and not self._checks.is_told_already:
            # Now: they are about to be changed.
            self._gradients = self._measured(Kind.GRADIENT)

    def end(self, moment: Moment, is_measured: bool) -> dict[Site, float]:
        """The step has ended; returns numbers to record with it if it is measured."""
        self._is_bad = self._is_bad or not self._checks.are_weights_finite()
        numbers: dict[Site, float] = {}
        if self._is_bad and not self._checks.is_told_already:
            numbers = {} if self._is_told else self._checks.sums()
            if not is_measured:
                self._send(moment, numbers)
        has_kept = self._checks.has_kept_gradients
        if has_kept is not None:
            numbers[Site(Kind.SCALAR, under(self._group, KEPT_GRADIENTS))] = float(has_kept)
        self._checks.step_ended(not self._is_bad)
        self._is_told = self._is_looked_at = False
        return numbers

    def _send(self, moment: Moment, sums: Mapping[Site, float]) -> None:
        gradients = self._gradients or self._measured(Kind.GRADIENT)
        weights = self._measured(Kind.WEIGHT)
        self._gradients = None
        rows = {str(i): rows for i, (_, rows) in enumerate((gradients, weights))}
        wait = framework("torch").fetch(rows, list(rows))
        sites = [*gradients[0], *weights[0]]
        self._loop.send_sites(
            moment, self._group, sites, lambda: {"rows": [*wait()["0"], *wait()["1"]]}, sums
        )

    def _measured(self, kind: Kind) -> tuple[list[Site], Tensor]:
        """The summaries of all tensors of a kind, as they are now."""
        sites = [site for _, site in self._tensors.table().rows if site.kind is kind]
        tensors = [self._tensors.tensor(site) for site in sites]
        return sites, framework("torch").measure(tensors)[0]

    def _sums_of_loss(self, loss: Any, is_of_next: bool) -> dict[Site, float]:
        """The sums of the last step, or the next, if its loss is not finite; once."""
        is_told = self._is_told if is_of_next else self._is_bad
        # Where it has to be waited for, it is not a number yet.
        if is_told or getattr(getattr(loss, "device", None), "type", "cpu") != "cpu":
            return {}
        value = framework("torch").fetch_number(loss)
        if not isinstance(value, float) or math.isfinite(value):
            return {}
        self._is_told = is_of_next
        return self._checks.sums(of_last_step=not is_of_next)
