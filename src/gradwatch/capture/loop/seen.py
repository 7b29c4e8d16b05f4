"""What `Monitor.outputs_of` gives: a context that sees what layers return."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.layer_tensors import LayerTensors
from gradwatch.capture.loop.layer_watch import Layers, LayerWatch
from gradwatch.capture.loop.recorder import LoopRecorder


class Seen:
    """See `Monitor.outputs_of`.

    Args:
        layers: those of the model; None if a fault of ours prevents it.
        loop: the recorder.
        group: as for `record`.
        fault: told of an exception of ours.
    """

    def __init__(
        self,
        layers: Layers | None,
        loop: LoopRecorder,
        group: str,
        fault: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._group = group
        self._fault = fault
        self._watch = None if layers is None else LayerWatch(layers, loop.timetable, group)
        self._stack = ExitStack()
        self._was_entered = False
        self._taken: dict[str, LayerTensors] = {}

    def __enter__(self) -> Seen:
        self._was_entered = True
        self._taken = {}
        self._begin()
        return self

    @guarded()
    def _begin(self) -> None:
        if not any(kind.is_of_layer for kind in self._loop.timetable.kinds):
            self._loop.remark(
                "outputs_of() was called, but the monitor watches no outputs. Make it with "
                "watch=[gradwatch.outputs(...), gradwatch.output_gradients(...)]."
            )
        elif self._watch is not None:
            self._stack.enter_context(self._watch.watching())

    @guarded()
    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def require(self, loop: LoopRecorder, group: str) -> None:
        """Refuse to be handed to another monitor or group, or without having seen anything.

        Raises:
            ValueError: it is.
        """
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

    def layer_tensors(self, prefix: str) -> LayerTensors:
        """What was seen. The same, if asked again."""
        self._take(prefix)
        return self._taken.get(prefix, LayerTensors())

    @guarded()
    def _take(self, prefix: str) -> None:
        if self._watch is not None and prefix not in self._taken:
            self._taken[prefix] = self._watch.take(prefix)


class Unseen(dict[str, Any]):
    """What `Monitor.outputs_of` gives where a fault of ours keeps it from seeing: no outputs."""

    def __enter__(self) -> Unseen:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def require_own(outputs: Any, loop: LoopRecorder, group: str) -> None:
    """Refuse what cannot be meant as `outputs=`.

    Raises:
        TypeError, ValueError: it is not for this monitor and group, or no outputs at all.
    """
    if isinstance(outputs, Seen):
        outputs.require(loop, group)
    elif hasattr(outputs, "layers") and callable(outputs):
        raise WrongTypeError(
            "outputs= takes what a model returned, not the model. Run it in "
            "`with monitor.outputs_of(model) as seen:` and give outputs=seen."
        )
