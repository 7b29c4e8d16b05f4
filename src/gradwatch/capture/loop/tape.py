"""A `tf.GradientTape` that records the gradients it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from gradwatch.capture.errors import WrongPlaceError
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.given import understand
from gradwatch.capture.loop.loop_meaning import TAPED
from gradwatch.capture.loop.recorder import LoopRecorder
from gradwatch.capture.loop.replica_step import Asked, Together, record_step, replica_context
from gradwatch.capture.loop.step_count import group_name
from gradwatch.capture.loop.trees import leaves
from gradwatch.capture.loop.variable_names import own_name
from gradwatch.core.schedule import Moment

Where = tuple[int | None, int | None, str]


def make_tape(
    loop: LoopRecorder,
    fault: Callable[[Exception], None],
    options: tuple[bool, bool],
    where: Where,
) -> RecordingTape:
    """A tape that tells the recorder of what it computes.

    Args:
        loop: the recorder.
        fault: told of an exception of ours.
        options: of `tf.GradientTape`: persistent, watch_accessed_variables.
        where: step, epoch and group, as far as they are given.

    Raises:
        RuntimeError: called inside `tf.function`.
    """
    if not tf.executing_eagerly():
        raise WrongPlaceError(
            "monitor.tape() was called inside tf.function, where there are no values to record. "
            "Use tf.GradientTape there, return readings = monitor.measure(gradients=grads, "
            "parameters=variables) from the function, and call monitor.record(readings) outside."
        )
    loop.means(TAPED)
    return RecordingTape(loop, fault, options, where)


class RecordingTape(tf.GradientTape):  # type: ignore[misc]
    """See `Monitor.tape`."""

    def __init__(
        self,
        loop: LoopRecorder,
        fault: Callable[[Exception], None],
        options: tuple[bool, bool],
        where: Where,
    ) -> None:
        super().__init__(*options)
        self._loop = loop
        self._fault = fault
        self._step, self._epoch, self._group = where
        self._moment: Moment | None = None
        self._calls: dict[str, int] = {}

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        *,
        group: str | None = None,
    ) -> Any:
        """As `tf.GradientTape.gradient`; what it returns is recorded.

        Args:
            target: see `tf.GradientTape`.
            sources: see `tf.GradientTape`; those that are variables are recorded.
            output_gradients: see `tf.GradientTape`.
            unconnected_gradients: see `tf.GradientTape`.
            group: the name under which this call is recorded, instead of the tape's.

        Raises:
            RuntimeError: the tape is not persistent and was asked before.
        """
        try:
            result = super().gradient(target, sources, output_gradients, unconnected_gradients)
        except RuntimeError as error:
            if "non-persistent" in str(error):
                raise RuntimeError(
                    f"{error} Make it with monitor.tape(persistent=True)."
                ) from error
            raise
        context = self._replica()
        if context is None:
            self._tell(target, sources, result, output_gradients, group)
        else:
            asked = self._asked(target, sources, result, output_gradients, group)
            # Not through a door of ours: TensorFlow stops replicas by an exception.
            Together.on(self._loop)(context, asked, self._record_together)
        return result

    @guarded()
    def _replica(self) -> Any:
        return replica_context() if tf.executing_eagerly() else None

    @guarded(dict)
    def _asked(
        self, target: Any, sources: Any, result: Any, output_gradients: Any, group: str | None
    ) -> dict[str, Any]:
        """What a replica has to record."""
        if self._calls:
            raise WrongPlaceError(
                "A tape that is asked twice is not recorded inside of replicas of tf.distribute. "
                "Use tf.GradientTape for the second gradient."
            )
        self._calls[""] = 1
        chosen = _of_variables(sources, result)
        if not chosen:
            return {}
        variables, gradients = zip(*chosen, strict=True)
        return {
            "gradients": list(gradients),
            "variables": list(variables),
            "loss": None if output_gradients is not None else _loss(target),
            "step": self._step,
            "epoch": self._epoch,
            "group": (self._group if group is None else group) or None,
        }

    @guarded()
    def _record_together(self, strategy: Any, every: Mapping[int, Asked]) -> None:
        if all(every.values()):
            record_step(self._loop, strategy, every)

    @guarded()
    def _tell(
        self, target: Any, sources: Any, result: Any, output_gradients: Any, group: str | None
    ) -> None:
        name = self._group if group is None else group_name(group)
        # Our own sums are no business of a tape that is still recording.
        if self._recording:
            with self.stop_recording():
                self._note(target, sources, result, output_gradients, name)
        else:
            self._note(target, sources, result, output_gradients, name)

    def _note(
        self, target: Any, sources: Any, result: Any, output_gradients: Any, group: str
    ) -> None:
        chosen = _of_variables(sources, result)
        # Of inputs, for a gradient penalty, say: no part of the model.
        if not chosen or not tf.executing_eagerly():
            return
        progress = self._loop.progress(group)
        is_first = progress.epoch is None
        if self._moment is None or not self._calls.get(group):
            self._moment = progress.moment(self._step, self._epoch)
            self._loop.enter_epoch(self._moment.epoch)
            self._loop.advance(group, self._moment)
        self._calls[group] = self._calls.get(group, 0) + 1
        if not (is_first or self._loop.is_due(self._moment)):
            return
        if self._calls[group] > 1:
            group = f"{group}/call_{self._calls[group]}".strip("/")
        variables, gradients = zip(*chosen, strict=True)
        given = understand(gradients=gradients, variables=variables, group=group)
        loss = None if output_gradients is not None else _loss(target)
        self._loop.record_tensors(given, self._moment, group, None, loss)


def _of_variables(sources: Any, result: Any) -> list[tuple[Any, Any]]:
    """The sources that are variables, with their gradients."""
    return [
        (source.value, gradient.value)
        for source, gradient in zip(leaves(sources), leaves(result), strict=True)
        if own_name(source.value) is not None
    ]


def _loss(target: Any) -> Any:
    """What is differentiated: TensorFlow adds up all elements of all targets."""
    sums = [
        tf.reduce_sum(tf.convert_to_tensor(leaf.value))
        for leaf in leaves(target)
        if leaf.value is not None
    ]
    return None if not sums else sums[0] if len(sums) == 1 else tf.add_n(sums)
