"""The context of `Monitor.outputs_of`, which notes what layers return."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.layer_watch import Layers, LayerWatch
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.step_tensors import StepTensors


class OutputsContext:
    """See `Monitor.outputs_of`."""

    def __init__(self, layers: Layers, loop: LoopCapture, group: str) -> None:
        self._loop = loop
        self._group = group
        self._reporter = loop.reporter
        self._watch = LayerWatch(layers, loop.timetable, group)
        self._stack = ExitStack()
        self._was_entered = False
        self._taken: dict[str, StepTensors] = {}

    def __enter__(self) -> OutputsContext:
        self._was_entered = True
        self._taken = {}
        self._begin()
        return self

    @guarded("beginning to note outputs of layers", "outputs of that step")
    def _begin(self) -> None:
        if not any(kind.is_of_layer for kind in self._loop.timetable.kinds):
            self._reporter.notice(
                "outputs_of() was called, but the monitor watches no outputs. Make it with "
                "watch=[gradwatch.outputs(...), gradwatch.output_gradients(...)]."
            )
        else:
            self._stack.enter_context(self._watch.watching())

    @guarded("restoring the layers after a step", "nothing")
    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def require(self, loop: LoopCapture, group: str) -> None:
        """Refuse to be given to another monitor or group, or before any output was noted."""
        if loop is not self._loop:
            raise WrongValueError("These outputs were seen by another monitor.")
        if group != self._group:
            raise WrongValueError(
                f"outputs_of() and record() or measure() need the same group=. "
                f"Received: {self._group!r} and {group!r}"
            )
        if not self._was_entered:
            raise WrongValueError(
                "outputs_of() has seen nothing. Run the model in its context: "
                "`with monitor.outputs_of(model) as seen:`."
            )

    def layer_tensors(self, prefix: str) -> StepTensors:
        """The noted tensors; the same, if asked again."""
        self._take(prefix)
        return self._taken.get(prefix, StepTensors())

    @guarded("reading outputs of layers", "outputs of that step")
    def _take(self, prefix: str) -> None:
        if prefix not in self._taken:
            self._taken[prefix] = self._watch.take(prefix)


class NoOutputs(dict[str, Any]):
    """The context of `Monitor.outputs_of` after an internal error: it notes no outputs."""

    def __enter__(self) -> NoOutputs:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def require_own(outputs: Any, loop: LoopCapture, group: str) -> None:
    """Refuse values that cannot be meant as `outputs=` of this monitor and group."""
    if isinstance(outputs, OutputsContext):
        outputs.require(loop, group)
    elif hasattr(outputs, "layers") and callable(outputs):
        raise WrongTypeError(
            "outputs= takes what a model returned, not the model. Run it in "
            "`with monitor.outputs_of(model) as seen:` and give outputs=seen."
        )
