"""Captures the steps of a hand-written loop, for the methods of `Monitor`."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gradwatch.capture.capture_session import CaptureSession
from gradwatch.capture.errors import WrongPlaceError, require_framework
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.layer_watch import layers_of
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.loop.loop_readings import check_loss, check_metrics
from gradwatch.capture.loop.optax_states import link_states
from gradwatch.capture.loop.outputs_context import NoOutputs, OutputsContext, require_own
from gradwatch.capture.loop.reduced_gradients import ReducedGradients
from gradwatch.capture.loop.replica_step import (
    OWN,
    Calls,
    ReplicaBarrier,
    measure_together,
    record_together,
    send_together,
    writes_common,
)
from gradwatch.capture.loop.step_arguments import StepArguments, detached
from gradwatch.capture.loop.step_count import Progress, group_name, whole_number
from gradwatch.capture.replicas import replica_context
from gradwatch.capture.sample_losses import fetched_samples
from gradwatch.capture.user_taps import STATE
from gradwatch.core import KerasOptimizer, Kind, Moment, SiteInfo, TorchModule, TorchOptimizer
from gradwatch.measure import import_before_tracing

if TYPE_CHECKING:
    from gradwatch.capture.loop.linked_steps import LinkedSteps
    from gradwatch.capture.torch.backward_losses import BackwardLosses


class LoopSource:
    """Captures the tensors of a loop's steps; see `Monitor` for the methods of the same names."""

    def __init__(self, session: CaptureSession) -> None:
        self._session = session
        self._reporter = session.reporter
        self._recorder: LoopCapture | None = None
        self._barrier = ReplicaBarrier()
        import_before_tracing()

    # For the session.

    @property
    def reopens(self) -> bool:
        return self._recorder is not None

    def stop(self) -> None:
        if self._recorder is not None:
            self._recorder.end()

    def infos(self) -> list[SiteInfo]:
        return [] if self._recorder is None else self._recorder.infos()

    @property
    def recorder(self) -> LoopCapture:
        """Follows the loop; made when a loop first asks for it."""
        if self._recorder is None:
            session = self._session
            # The inputs and targets that a loop gives are recorded, whatever is watched.
            timetable = session.timetable.along(Kind.INPUT, Kind.TARGET)
            if session.watches_by_default:
                timetable = timetable.along(Kind.APPLIED_GRADIENT)
            self._recorder = LoopCapture(
                timetable,
                session.pacer,
                session.submit,
                session.open,
                lambda epoch: session.end_epoch(epoch, {}),
                session.reporter,
                session.may_measure,
                session.tell_facts,
            )
            self._recorder.is_diagnosed = session.is_diagnosed
        return self._recorder

    # For the loop.

    def record(self, call: StepArguments) -> None:
        context = self._replica()
        if context is None:
            self._record(call)
        else:
            # Without a guard: TensorFlow stops replicas by an exception.
            self._barrier(context, call, self._record_together)

    @guarded("recording a step of several replicas", "that step")
    def _record_together(self, strategy: Any, calls: Calls) -> None:
        record_together(self.recorder, strategy, calls)

    @guarded("recording a step", "that step")
    def _record(self, call: StepArguments) -> None:
        """Record a step that one device runs."""
        call.check()
        if call.loss is not None:
            check_loss(call.loss)
        metrics = {} if call.metrics is None else check_metrics(call.metrics)
        links = link_states(call.readings)
        if links is not None:

            def record_rest(moment: Moment) -> None:
                self._record_samples(call, moment)
                self._record_metrics(self.recorder.progress(""), moment, "", metrics)

            self._linked.record(call, links, record_rest)
            return
        loop, group, (step, epoch) = self.recorder, call.group_name, call.where
        require_own(call.outputs, loop, group)
        progress = loop.progress(group)
        if progress.is_watched and not call.has_tensors and call.readings is None:
            # The steps are the optimizer's own, and this one is past.
            if epoch is not None:
                loop.enter_epoch(epoch)
                progress.next_epoch(epoch)
                STATE.refresh()
            self._record_watched(call, loop, progress, metrics)
            return
        last = progress.step if step is None else step
        comes_again = step is None and progress.metrics_at(last).intersection(metrics)
        if call.has_only_metrics and not comes_again:
            # They are of the step that was recorded before; and of the next if they come again.
            moment = Moment(last, epoch or progress.epoch or 1)
            self._record_metrics(progress, moment, group, metrics)
            return
        moment = progress.moment(step, epoch)
        is_first = progress.epoch is None
        loop.enter_epoch(moment.epoch)
        if call.part is None:
            loop.advance(group, moment, was_measured=call.readings is not None)
        is_due = loop.is_due(moment)
        if writes_common():
            self._record_samples(call, moment)
        if call.readings is not None:
            if isinstance(call.readings, Mapping) and OWN in call.readings:
                send_together(loop, call.readings, moment, call.loss, group)
            elif call.readings != {} and writes_common():
                # They are empty after an internal error in `measure`.
                loop.record_readings(call.readings, moment, call.loss)
            if call.has_batch and is_due and writes_common():
                loop.record_inputs(call.parse_inputs(), moment, group, None)
        elif not call.has_tensors:
            if is_due and writes_common():
                loop.record_inputs(call.parse_inputs(), moment, group, call.loss)
        elif (is_first or is_due) and writes_common():
            # The first time in any case, so that a mistake is raised at once.
            loop.record_tensors(call.parse(), moment, group, call.part, call.loss)
        if writes_common():
            if call.loss is not None and not is_due:
                loop.record_loss(moment, group, call.loss, call.part)
            self._record_metrics(progress, moment, group, metrics)

    @cached_property
    def _linked(self) -> "LinkedSteps":
        from gradwatch.capture.loop.linked_steps import LinkedSteps

        return LinkedSteps(self.recorder)

    def _record_watched(
        self, call: StepArguments, loop: LoopCapture, progress: Progress, metrics: Mapping[str, Any]
    ) -> None:
        """Record what a loop tells of a step, beside what the watch of its optimizer sees."""
        group, (step, _), loss = call.group_name, call.where, call.loss
        moment, is_next = progress.past(step), False
        if loss is not None and step is None:
            is_next = progress.is_loss_of_next
            if not is_next and moment.step == progress.loss_step > 0:
                # It is known: that of a part of the batch, or of an attempt that was skipped.
                known = progress.metrics_at(moment.step)
                loss, metrics = None, {n: x for n, x in metrics.items() if n not in known}
        sums = {} if loss is None else progress.sums_of_loss(loss, is_next)
        if is_next:
            if not sums:
                call, metrics = call.detached(), {n: detached(x) for n, x in metrics.items()}
                progress.waiting = lambda: self._record_watched(call, loop, progress, metrics)
                return
            # That step may never end, if the loop notices it, too.
            moment = progress.moment(None, None)
        if loss is not None:
            progress.loss_step = moment.step
        # Before the loss: whoever asks about that finds them.
        self._record_samples(call, moment)
        if sums or ((loss is not None or call.has_batch) and loop.is_due(moment)):
            batch = call.parse_inputs().without(progress.noted_batch)
            progress.gives_batch |= call.has_batch
            loop.record_inputs(batch, moment, group, loss, sums)
        elif loss is not None:
            loop.record_loss(moment, group, loss)
        self._record_metrics(progress, moment, group, metrics)

    def _record_samples(self, call: StepArguments, moment: Moment) -> None:
        if call.losses is not None and call.part is None:
            numbers = fetched_samples(call.losses, call.samples, call.group_name)
            self.recorder.record_samples(moment, call.group_name, numbers)

    def _record_metrics(
        self, progress: Progress, moment: Moment, group: str, metrics: Mapping[str, Any]
    ) -> None:
        known = progress.metrics_at(moment.step)
        if again := known.intersection(metrics):
            self._reporter.notice(
                f"The metric {sorted(again)[0]!r} is given more than once for a step, from step "
                f"{moment.step} on; the first number is kept. Give step= with each."
            )
        new = {name: number for name, number in metrics.items() if name not in known}
        known.update(new)
        self.recorder.record_metrics(moment, group, new)

    def measure(self, call: StepArguments) -> dict[str, Any]:
        context = self._replica()
        if context is None:
            return self._measure(call)
        result: dict[str, Any] = self._barrier(context, call, self._measure_together)
        return result

    @guarded("measuring a step of several replicas", "that step", dict)
    def _measure_together(self, strategy: Any, calls: Calls) -> dict[str, Any]:
        histograms = next(iter(calls.values())).histograms
        return measure_together(self.recorder, strategy, calls, histograms)

    @guarded("looking for replicas", "what replicas measure together")
    def _replica(self) -> Any:
        return replica_context()

    @guarded("measuring a step", "that step", dict)
    def _measure(self, call: StepArguments) -> dict[str, Any]:
        """Measure a step that one device runs."""
        loop, group = self.recorder, call.group_name
        require_own(call.outputs, loop, group)
        return loop.measure(call.parse(), group, call.part, call.loss, call.histograms)

    @guarded("looking whether a step is due", "that step", bool)
    def due(
        self,
        step: Any = None,
        *,
        epoch: Any = None,
        group: str | None = None,
        histograms: bool = False,
    ) -> bool:
        progress = self.recorder.progress(group_name(group))
        moment = progress.moment(whole_number("step", step), whole_number("epoch", epoch))
        return self.recorder.is_due(moment, histograms=histograms)

    @guarded("finding the layers of a model", "outputs of its layers", NoOutputs)
    def outputs_of(self, model: Any, group: str | None) -> OutputsContext | NoOutputs:
        if replica_context() is not None:
            raise WrongPlaceError(
                "monitor.outputs_of() does not see the replicas of tf.distribute. In fit, outputs "
                "of layers are recorded there."
            )
        name = group_name(group)
        return OutputsContext(layers_of(model, self._reporter), self.recorder, name)

    def optax(self, transformations: tuple[Any, ...], clipping: Any, group: str | None) -> Any:
        """After an internal error, this returns what does the same and measures nothing."""
        require_framework("optax", "optax", "monitor.optax()", "Other loops call monitor.record().")
        link = self._optax(transformations, clipping, group)
        if link is None:
            import optax  # type: ignore[import-untyped]

            link = optax.chain(clipping or optax.identity(), *transformations)
        return link

    @guarded("making a link of an optimizer", "what that does")
    def _optax(self, transformations: Any, clipping: Any, group: str | None) -> Any:
        from gradwatch.capture.loop.optax_link import OptaxLink

        link = OptaxLink(self.recorder, group_name(group), transformations, clipping)
        return link.transformation()

    @guarded("finding the reduction of an optimizer", "the gradients that it applies", NoOutputs)
    def reduced_by(self, optimizer: KerasOptimizer) -> ReducedGradients | NoOutputs:
        return ReducedGradients(optimizer, self._reporter)

    def tape(self, options: tuple[bool, bool], step: Any, epoch: Any, group: str | None) -> Any:
        """After an internal error, this returns the tape of TensorFlow."""
        tape = self._tape(options, step, epoch, group)
        if tape is None:
            import tensorflow as tf

            return tf.GradientTape(*options)
        return tape

    @guarded("making a tape", "the steps of that tape")
    def _tape(self, options: tuple[bool, bool], step: Any, epoch: Any, group: str | None) -> Any:
        require_framework(
            "tensorflow",
            "TensorFlow",
            "monitor.tape()",
            "Loops of other frameworks call monitor.record(gradients=..., variables=...).",
        )
        from gradwatch.capture.loop.tape import RecordingTape

        where = (whole_number("step", step), whole_number("epoch", epoch))
        return RecordingTape(self.recorder, self._barrier, options, where, group_name(group))

    @guarded("beginning to watch a module", "what its optimizer does")
    def watch_torch(
        self, module: TorchModule, optimizer: TorchOptimizer, group: str | None
    ) -> None:
        """See `gradwatch.watch`."""
        require_framework(
            "torch",
            "PyTorch",
            "gradwatch.watch()",
            "For Keras, give the monitor to fit(callbacks=[...]); in other loops, call "
            "monitor.record(gradients=..., variables=...).",
        )
        from gradwatch.capture.torch.torch_watch import TorchWatch

        TorchWatch(module, optimizer, self.recorder, group_name(group))

    def backward_losses(self) -> "BackwardLosses":
        """Adds up the losses that torch differentiates, for `record_losses`."""
        from gradwatch.capture.torch.backward_losses import BackwardLosses

        return BackwardLosses()

    def record_losses(
        self, losses: "BackwardLosses", optimizer: TorchOptimizer, group: str | None = None
    ) -> None:
        """Record the loss of each step of an optimizer that is watched."""
        losses.follow(optimizer, lambda loss: self.record(StepArguments(loss=loss, group=group)))

    def outermost(self, module: TorchModule) -> TorchModule:
        """What wraps the module in a training, or the module itself."""
        from gradwatch.capture.torch.torch_parallel import outermost

        return outermost(module)

    def continue_at(self, step: int, group: str | None = None) -> None:
        """Have the next step of an optimizer that is watched counted after this one."""
        progress = self.recorder.progress(group_name(group))
        progress.step = max(progress.step, step)

    def step_of(self, group: str | None = None) -> int:
        """The number of the last step."""
        return self.recorder.progress(group_name(group)).step

    def new_metrics(self, metrics: Mapping[str, float], step: int) -> dict[str, float]:
        """Those of these numbers that were not recorded at a step."""
        known = self.recorder.progress("").metrics_at(step)
        return {name: number for name, number in metrics.items() if name not in known}
