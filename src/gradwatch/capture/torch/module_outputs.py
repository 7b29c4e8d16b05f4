"""The outputs of a watched torch module's submodules, and when they are noted."""

from collections.abc import Callable

import torch

from gradwatch.capture.loop.layer_watch import LayerWatch
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.step_tensors import under
from gradwatch.capture.torch.module_paths import is_compiled, modules_of
from gradwatch.capture.torch.module_vitals import ModuleVitals
from gradwatch.capture.torch.torch_layers import TorchLayers
from gradwatch.capture.torch.torch_parallel import is_one_of_many
from gradwatch.capture.user_taps import STATE, TapCollector
from gradwatch.capture.variable_names import unwrapped
from gradwatch.core import Kind, Moment, Tensor, TorchModule
from gradwatch.measure import framework
from gradwatch.measure.torch_eager import EagerStep, MeasuredRow


class ModuleOutputs:
    """Notes what submodules return in the steps that are due.

    `layers` is None if no outputs are watched. `current` returns the moment of the step that is
    under way or, between steps, of the next. `activation_of` is set from outside, when it can tell;
    see `TorchLayers`.
    """

    def __init__(
        self, module: TorchModule, loop: LoopCapture, group: str, current: Callable[[], Moment]
    ) -> None:
        self._loop = loop
        self.activation_of: Callable[[str], str | None] = lambda path: None
        self._current = current
        self._group = group
        self._eager: EagerStep | None = None
        self._taps = TapCollector()
        self._known: tuple[Moment, bool] | None = None
        self.layers = self._watch(module, group)
        self._paths = {under(group, path) for path in modules_of(unwrapped(module))}

    def _watch(self, module: TorchModule, group: str) -> LayerWatch | None:
        timetable, reporter = self._loop.timetable, self._loop.reporter
        is_asked = timetable.is_asked_for_outputs
        if not any(kind.is_of_layer for kind in timetable.kinds):
            return None
        if hasattr(module, "_flatten_layers"):
            if is_asked:
                reporter.notice(
                    "watch() does not record the outputs of the layers of a Keras model. Do so "
                    "with monitor.outputs_of(model) and record(outputs=...)."
                )
            return None
        measured = None if is_asked else self._measure
        in_graph = None
        if is_asked and is_compiled(module) and not is_one_of_many():
            # It imports the compiler, which is there already.
            from gradwatch.capture.torch.graph_taps import GraphTaps

            in_graph = GraphTaps(module, lambda: self.are_due(self._current()))
        vitals = None
        if is_asked:
            self._counts_logits = any(
                watch.kind is Kind.LOGIT and watch.histogram for watch in timetable.watches
            )
            vitals = ModuleVitals(
                module, timetable.kinds, reporter, self._is_noting, self._measure_logits
            )
        layers = TorchLayers(
            module,
            reporter,
            self._is_noting,
            measured,
            lambda path: self.activation_of(path),
            in_graph,
            vitals,
        )
        return LayerWatch(layers, timetable, group)

    def eager_step(self, moment: Moment) -> EagerStep:
        """The measurements of this step, which may have begun in its forward pass."""
        if self._eager is None:
            self._eager = EagerStep(0, self._loop.is_due(moment, histograms=True))
        return self._eager

    def tap(self, is_due: Callable[[], bool]) -> None:
        """Measure what passes `gradwatch.tap` in the steps for which a method says so."""
        self._loop.at_end.append(STATE.ask(is_due))

    def step_ended(self) -> None:
        self._eager, self._taps, self._known = None, STATE.take(), None
        STATE.refresh()

    def tap_arrays(self) -> dict[str, Tensor]:
        """What has passed taps in the last step, as further arrays of its measurement."""
        arrays: dict[str, Tensor] = {}
        with self._loop.reporter.guard("measuring what has passed taps", "taps of that step"):
            taps, self._taps = self._taps.take(), TapCollector()
            arrays |= self._loop.tap_arrays(framework("torch"), taps, self._group, self._paths)
        return arrays

    def is_whole(self) -> bool:
        """Whether what only the diagnosis wants is measured in the current step, if it is due."""
        return self._loop.timetable.is_whole(self._current())

    def are_due(self, moment: Moment) -> bool:
        if self.layers is None:
            return False
        # Kept: every call of a submodule asks.
        if self._known is None or self._known[0] != moment:
            timetable = self._loop.timetable
            due = zip(timetable.watches, timetable.summaries_due(moment), strict=True)
            self._known = moment, any(now and watch.kind.is_of_layer for watch, now in due)
        return self._known[1]

    def _measure(self, tensor: Tensor) -> MeasuredRow | None:
        """Measure a tensor of the step before it is gone."""
        return self.eager_step(self._current()).add(tensor, False)

    def _measure_logits(self, tensor: Tensor) -> MeasuredRow | None:
        return self.eager_step(self._current()).add(tensor, self._counts_logits)

    def _is_noting(self) -> bool:
        # Without gradients, it is a pass for evaluation.
        return torch.is_grad_enabled() and self.are_due(self._current())
