"""Capturing the steps of a hand-written loop, as `Monitor`'s methods for loops ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradwatch.capture.capture_session import CaptureSession
from gradwatch.capture.errors import WrongPlaceError
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.arguments import check_arguments, one_of
from gradwatch.capture.loop.given import understand
from gradwatch.capture.loop.layer_watch import layers_of
from gradwatch.capture.loop.recorder import LoopRecorder
from gradwatch.capture.loop.reduced import Reduced
from gradwatch.capture.loop.replica_step import (
    OWN,
    Asked,
    Together,
    measured_together,
    record_step,
    record_together,
    replica_context,
    writes_common,
)
from gradwatch.capture.loop.seen import Seen, Unseen, require_own
from gradwatch.capture.loop.step_count import group_name, whole_number
from gradwatch.capture.loop.step_layout import check_loss
from gradwatch.core import Kind, SiteInfo, TorchModule, TorchOptimizer


class LoopCapture:
    """Captures the tensors of a loop's steps; see `Monitor` for the methods of the same names.

    Args:
        session: records them.
    """

    def __init__(self, session: CaptureSession) -> None:
        self._session = session
        self._fault = session.reporter.internal_error
        self._recorder: LoopRecorder | None = None

    # The session's questions.

    @property
    def reopens(self) -> bool:
        """Whether a run that was closed is opened again by the next step."""
        return self._recorder is not None

    def stop(self) -> None:
        """The run is closed."""
        if self._recorder is not None:
            self._recorder.end()

    def infos(self) -> list[SiteInfo]:
        """The facts known about the measured sites."""
        return [] if self._recorder is None else self._recorder.infos()

    @property
    def recorder(self) -> LoopRecorder:
        """Follows the loop; made when a loop first asks for it."""
        if self._recorder is None:
            session = self._session
            self._recorder = LoopRecorder(
                # The inputs and targets that a loop gives are recorded, whatever is watched.
                session.timetable.along(Kind.INPUT, Kind.TARGET),
                session.pacer,
                session.submit,
                session.open,
                lambda epoch: session.end_epoch(epoch, {}, 0),
                session.reporter.notice,
                session.may_measure,
            )
        return self._recorder

    # The calls of the loop.

    def record(self, **asked: Any) -> None:
        """See `Monitor.record`."""
        context = self._replica()
        if context is None:
            self._record(**asked)
        else:
            # Without a guard: TensorFlow stops replicas by an exception.
            Together.on(self)(context, asked, self._record_together)

    @guarded()
    def _record_together(self, strategy: Any, every: Mapping[int, Asked]) -> None:
        record_step(self.recorder, strategy, every)

    @guarded()
    def _record(
        self,
        *,
        readings: Any,
        gradients: Any,
        variables: Any,
        parameters: Any,
        loss: Any,
        previous: Any,
        applied_gradients: Any,
        names: Any,
        outputs: Any,
        output_gradients: Any,
        inputs: Any,
        targets: Any,
        step: Any,
        epoch: Any,
        group: str | None,
        micro_batch: int | None,
        reduced: bool,
    ) -> None:
        """Record a step that one device runs."""
        variables = one_of(variables, parameters)
        if isinstance(gradients, Reduced):
            gradients = gradients.in_order_of(variables)
        tensors = {
            "gradients": gradients,
            "variables": variables,
            "previous": previous,
            "applied_gradients": applied_gradients,
            "names": names,
            "outputs": outputs,
            "output_gradients": output_gradients,
        }
        batch = {"inputs": inputs, "targets": targets}
        has_batch = inputs is not None or targets is not None
        has_tensors = any(x is not None for x in tensors.values())
        check_arguments(readings, has_tensors, loss, epoch, micro_batch, has_batch)
        if loss is not None:
            check_loss(loss)
        name, part = group_name(group), whole_number("micro_batch", micro_batch)
        step, epoch = whole_number("step", step), whole_number("epoch", epoch)
        loop = self.recorder
        require_own(outputs, loop, name)
        progress = loop.progress(name)
        if not has_tensors and readings is None and progress.is_watched:
            # The steps are the optimizer's own, and this one is past.
            if epoch is not None:
                loop.enter_epoch(epoch)
                progress.next_epoch(epoch)
            if loss is not None or has_batch:
                loop.record_beside(progress.past(step), name, loss, **batch)
            return
        moment = progress.moment(step, epoch)
        is_first = progress.epoch is None
        loop.enter_epoch(moment.epoch)
        if part is None:
            loop.advance(name, moment, was_measured=readings is not None)
        if readings is not None:
            if isinstance(readings, Mapping) and OWN in readings:
                record_together(loop, readings, moment, loss, name)
            elif readings != {} and writes_common():
                # It is, where a fault of ours kept us from measuring.
                loop.record_readings(readings, moment, loss)
            if has_batch and writes_common():
                loop.record_beside(moment, name, None, **batch)
        elif not has_tensors:
            if writes_common():
                loop.record_beside(moment, name, loss, **batch)
        elif (is_first or loop.is_due(moment)) and writes_common():
            # The first time in any case, so that a mistake is heard of at once.
            given = understand(**tensors, **batch, group=name, micro_batch=part)
            loop.record_tensors(given, moment, name, part, loss)

    def measure(self, **asked: Any) -> dict[str, Any]:
        """See `Monitor.measure`."""
        context = self._replica()
        if context is None:
            return self._measure(**asked)
        result: dict[str, Any] = Together.on(self)(context, asked, self._measure_together)
        return result

    @guarded(dict)
    def _measure_together(self, strategy: Any, every: Mapping[int, Asked]) -> dict[str, Any]:
        histograms = next(iter(every.values()))["histograms"]
        return measured_together(self.recorder, strategy, every, histograms)

    @guarded()
    def _replica(self) -> Any:
        return replica_context()

    @guarded(dict)
    def _measure(
        self,
        *,
        gradients: Any,
        parameters: Any,
        variables: Any,
        loss: Any,
        previous: Any,
        applied_gradients: Any,
        names: Any,
        outputs: Any,
        output_gradients: Any,
        group: str | None,
        micro_batch: int | None,
        histograms: Any,
        reduced: bool,
    ) -> dict[str, Any]:
        """Measure a step that one device runs."""
        variables = one_of(variables, parameters)
        if isinstance(gradients, Reduced):
            gradients = gradients.in_order_of(variables)
        name, part = group_name(group), whole_number("micro_batch", micro_batch)
        require_own(outputs, self.recorder, name)
        given = understand(
            gradients=gradients,
            variables=variables,
            previous=previous,
            applied_gradients=applied_gradients,
            names=names,
            outputs=outputs,
            output_gradients=output_gradients,
            group=name,
            micro_batch=part,
        )
        return self.recorder.measure(given, name, part, loss, histograms)

    @guarded(bool)
    def due(
        self,
        step: Any = None,
        *,
        epoch: Any = None,
        group: str | None = None,
        histograms: bool = False,
    ) -> bool:
        """See `Monitor.due`."""
        progress = self.recorder.progress(group_name(group))
        moment = progress.moment(whole_number("step", step), whole_number("epoch", epoch))
        return self.recorder.is_due(moment, histograms=histograms)

    @guarded(Unseen)
    def outputs_of(self, model: Any, group: str | None) -> Seen | Unseen:
        """See `Monitor.outputs_of`."""
        if replica_context() is not None:
            raise WrongPlaceError(
                "monitor.outputs_of() does not see the replicas of tf.distribute. In fit, outputs "
                "of layers are recorded there."
            )
        name = group_name(group)
        layers = layers_of(model, self._fault, self.recorder.remark)
        return Seen(layers, self.recorder, name, self._fault)

    @guarded(Unseen)
    def reduced_by(self, optimizer: Any) -> Reduced | Unseen:
        """See `Monitor.reduced_by`."""
        return Reduced(optimizer, self._fault)

    def tape(self, options: tuple[bool, bool], step: Any, epoch: Any, group: str | None) -> Any:
        """See `Monitor.tape`; TensorFlow's own tape after an internal error."""
        tape = self._tape(options, step, epoch, group)
        if tape is None:
            import tensorflow as tf

            return tf.GradientTape(*options)
        return tape

    @guarded()
    def _tape(self, options: tuple[bool, bool], step: Any, epoch: Any, group: str | None) -> Any:
        from gradwatch.capture.loop.tape import make_tape

        where = (whole_number("step", step), whole_number("epoch", epoch), group_name(group))
        return make_tape(self.recorder, self._fault, options, where)

    @guarded()
    def watch_torch(
        self, module: TorchModule, optimizer: TorchOptimizer, group: str | None
    ) -> None:
        """See `gradwatch.watch`."""
        from gradwatch.capture.torch.torch_watch import TorchWatch

        TorchWatch(module, optimizer, self.recorder, group_name(group), self._fault)
