"""A `tf.GradientTape` that records the gradients it computes."""

from typing import Any

import tensorflow as tf

from gradwatch.capture.errors import WrongPlaceError
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.loop.replica_step import Calls, ReplicaBarrier, record_together
from gradwatch.capture.loop.step_arguments import StepArguments
from gradwatch.capture.loop.step_count import group_name
from gradwatch.capture.meaning import TAPED
from gradwatch.capture.replicas import replica_context
from gradwatch.capture.trees import leaves
from gradwatch.capture.variable_names import own_name
from gradwatch.core import Moment, Tensor, Tree


class RecordingTape(tf.GradientTape):  # type: ignore[misc]
    """See `Monitor.tape`.

    `options` are `persistent` and `watch_accessed_variables` of `tf.GradientTape`; `where` is the
    step and the epoch, as far as they are given.
    """

    def __init__(
        self,
        loop: LoopCapture,
        barrier: ReplicaBarrier,
        options: tuple[bool, bool],
        where: tuple[int | None, int | None],
        group: str,
    ) -> None:
        if not tf.executing_eagerly():
            raise WrongPlaceError(
                "monitor.tape() was called inside tf.function, where there are no values to "
                "record. Use tf.GradientTape there, return readings = monitor.measure("
                "gradients=grads, parameters=variables) from the function, and call "
                "monitor.record(readings) outside."
            )
        super().__init__(*options)
        loop.means(TAPED)
        self._loop = loop
        self._barrier = barrier
        self._reporter = loop.reporter
        self._step, self._epoch = where
        self._group = group
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
        """As `tf.GradientTape.gradient`; what it returns for variables is recorded.

        `group` is the name under which this call is recorded, instead of the tape's.
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
            self._record(target, sources, result, output_gradients, group)
        else:
            call = self._arguments(target, sources, result, output_gradients, group)
            # Not in a guarded method: TensorFlow stops replicas by an exception.
            self._barrier(context, call or StepArguments(), self._record_together)
        return result

    @guarded("looking for replicas", "what replicas measure together")
    def _replica(self) -> Any:
        return replica_context() if tf.executing_eagerly() else None

    @guarded("reading what a tape was asked", "that step")
    def _arguments(
        self, target: Tree, sources: Tree, result: Tree, output_gradients: Tree, group: str | None
    ) -> StepArguments | None:
        """The arguments of a replica; None if there is nothing to record."""
        if self._calls:
            raise WrongPlaceError(
                "A tape that is asked twice is not recorded inside of replicas of tf.distribute. "
                "Use tf.GradientTape for the second gradient."
            )
        self._calls[""] = 1
        chosen = _of_variables(sources, result)
        if not chosen:
            return None
        variables, gradients = zip(*chosen, strict=True)
        return StepArguments(
            gradients=list(gradients),
            variables=list(variables),
            loss=None if output_gradients is not None else _loss(target),
            step=self._step,
            epoch=self._epoch,
            group=(self._group if group is None else group) or None,
        )

    @guarded("recording a step of several replicas", "that step")
    def _record_together(self, strategy: Any, calls: Calls) -> None:
        if all(call.variables is not None for call in calls.values()):
            record_together(self._loop, strategy, calls)

    @guarded("recording what a tape returned", "that step")
    def _record(
        self, target: Tree, sources: Tree, result: Tree, output_gradients: Tree, group: str | None
    ) -> None:
        name = self._group if group is None else group_name(group)
        # A tape that is still recording must not see these sums.
        if self._recording:
            with self.stop_recording():
                self._note(target, sources, result, output_gradients, name)
        else:
            self._note(target, sources, result, output_gradients, name)

    def _note(
        self, target: Tree, sources: Tree, result: Tree, output_gradients: Tree, group: str
    ) -> None:
        chosen = _of_variables(sources, result)
        # Gradients of inputs, for a gradient penalty for example, are no part of the model.
        if not chosen or not tf.executing_eagerly():
            return
        progress = self._loop.progress(group)
        is_first = progress.epoch is None
        if self._moment is None or not self._calls.get(group):
            self._moment = progress.moment(self._step, self._epoch)
            self._loop.enter_epoch(self._moment.epoch)
            self._loop.advance(group, self._moment)
        self._calls[group] = self._calls.get(group, 0) + 1
        is_due = self._loop.is_due(self._moment)
        if self._calls[group] > 1:
            group = f"{group}/call_{self._calls[group]}".strip("/")
        loss = None if output_gradients is not None else _loss(target)
        if is_first or is_due:
            variables, gradients = zip(*chosen, strict=True)
            call = StepArguments(gradients=gradients, variables=variables, group=group or None)
            self._loop.record_tensors(call.parse(), self._moment, group, None, loss)
        if loss is not None and not is_due:
            self._loop.record_loss(self._moment, group, loss)


def _of_variables(sources: Tree, result: Tree) -> list[tuple[Tensor, Tensor]]:
    """The sources that are variables, with their gradients."""
    return [
        (source.value, gradient.value)
        for source, gradient in zip(leaves(sources), leaves(result), strict=True)
        if own_name(source.value) is not None
    ]


def _loss(target: Tree) -> Tensor:
    """The number that is differentiated: TensorFlow adds up all elements of all targets."""
    targets = [tf.convert_to_tensor(x.value) for x in leaves(target) if x.value is not None]
    sums = [each if each.shape.rank == 0 else tf.reduce_sum(each) for each in targets]
    return None if not sums else sums[0] if len(sums) == 1 else tf.add_n(sums)
