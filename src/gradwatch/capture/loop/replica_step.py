"""Loops whose step is run by several replicas of `tf.distribute`.

Each replica calls `record` or `measure` with its own tensors. There they come together, in this
process and without any communication between processes: tensors that all of them have in common
are measured once; those of a single replica are recorded under its name, `replica_0/...`.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gradwatch.capture.autograph import do_not_convert
from gradwatch.capture.errors import WrongTypeError
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.loop.loop_readings import check_metrics
from gradwatch.capture.loop.step_arguments import StepArguments
from gradwatch.capture.replicas import replica_name
from gradwatch.capture.step_tensors import StepTensors, under
from gradwatch.core import Kind, Moment, Tensor
from gradwatch.parallel import ranks
from gradwatch.watches import Plan

OWN = "replicas"
"""In a measurement of several replicas, the measurements of each one's own tensors, by name."""

Calls = Mapping[int, StepArguments]
"""The arguments of each replica, by its number."""


def writes_common() -> bool:
    """Whether this process records the tensors that all replicas have in common."""
    rank = ranks.current()
    return rank.engine != "tensorflow" or rank.is_first


class ReplicaBarrier:
    """Does something once for the replicas of this process, when all of them have come to it."""

    def __init__(self) -> None:
        self._calls: dict[int, StepArguments] = {}

    def __call__(self, context: Any, call: StepArguments, work: Callable[[Any, Calls], Any]) -> Any:
        """Do it, and return its result on every replica.

        `work` takes the strategy and the arguments of all replicas.
        """
        # Not the public property, which adds a constant to the graph.
        self._calls[int(context._replica_id_in_sync_group)] = call

        # Not through `merge_call`'s arguments, which would have to be alike on all replicas.
        @do_not_convert
        def once(strategy: Any) -> Any:
            calls, self._calls = dict(sorted(self._calls.items())), {}
            return work(strategy, calls)

        return context.merge_call(once)


def measure_together(
    loop: LoopCapture, strategy: Any, calls: Calls, histograms: Any
) -> dict[str, Any]:
    """The measurement of a step from the arguments of each replica.

    It is that of `LoopCapture.measure` for the common tensors, if this process is to record them;
    and `replicas`, the measurements of each one's own tensors, by name.
    """
    tf = sys.modules["tensorflow"]
    devices = strategy.extended.worker_devices
    first = next(iter(calls.values()))
    _refuse(first)
    group = first.group_name
    losses = [call.loss for call in calls.values() if call.loss is not None]
    is_all = len(calls) == strategy.num_replicas_in_sync
    _check_selection(loop, first)
    result: dict[str, Any] = {}
    if writes_common():
        with tf.device(devices[0]):
            tensors = _parsed(first if first.is_reduced else replace(first, gradients=None))
            loss: Tensor = tf.add_n(losses) if losses and is_all else None
            if tensors.tensors or loss is not None:
                result |= loop.measure(tensors, group, None, loss, histograms)
    has_own = first.gradients is not None and not first.is_reduced
    if has_own and not any(watch.per_replica for watch in loop.timetable.watches):
        loop.reporter.notice(
            "Gradients given inside of a replica are that replica's own, and are recorded as "
            f"{under(group, replica_name(0))}/... For those that are applied, give what "
            "monitor.reduced_by(optimizer) has seen, or say reduced=True if your loop has summed "
            "them over the replicas."
        )
    own = {}
    for (replica, call), device in zip(calls.items(), devices, strict=True):
        name = under(group, replica_name(replica))
        loss = call.loss
        has_own = call.gradients is not None and not first.is_reduced
        if has_own or (loss is not None and not is_all):
            with tf.device(device):
                call = replace(call, group=name)
                tensors = _parsed(call).of_kind(Kind.GRADIENT) if has_own else StepTensors()
                own[name] = loop.measure(tensors, name, None, loss, histograms)
    return {**result, **({OWN: own} if own else {})}


def send_together(
    loop: LoopCapture, readings: Mapping[str, Any], moment: Moment, loss: Tensor, group: str
) -> None:
    """Send what is due of a measurement that replicas have made together."""
    common = {name: value for name, value in readings.items() if name != OWN}
    if common and writes_common():
        loop.record_readings(common, moment, loss)
    elif loss is not None and writes_common() and loop.is_due(moment):
        loop.record_inputs(StepTensors(), moment, group, loss)
    for own in readings.get(OWN, {}).values():
        if own:
            loop.record_readings(own, moment, None)


def record_together(loop: LoopCapture, strategy: Any, calls: Calls) -> None:
    """Record a step of an eager loop from the arguments of each replica."""
    first = next(iter(calls.values()))
    group, readings = first.group_name, first.readings
    progress = loop.progress(group)
    moment = progress.moment(*first.where)
    is_first = progress.epoch is None
    loop.enter_epoch(moment.epoch)
    loop.advance(group, moment, was_measured=readings is not None)
    if readings is None and (is_first or loop.is_due(moment)):
        # The first time in any case, so that a mistake is raised at once.
        histograms = loop.is_due(moment, histograms=True)
        readings = measure_together(loop, strategy, calls, histograms)
    if not loop.is_due(moment):
        _record_loss(loop, strategy, calls, moment, group)
    elif readings:
        send_together(loop, readings, moment, None, group)
    if writes_common():
        metrics = {} if first.metrics is None else check_metrics(first.metrics)
        loop.record_metrics(moment, group, metrics)


def _record_loss(
    loop: LoopCapture, strategy: Any, calls: Calls, moment: Moment, group: str
) -> None:
    """Record the loss of an unmeasured step, if this process has those of all replicas."""
    losses = [call.loss for call in calls.values() if call.loss is not None]
    if losses and len(losses) == strategy.num_replicas_in_sync and writes_common():
        with sys.modules["tensorflow"].device(strategy.extended.worker_devices[0]):
            loop.record_loss(moment, group, sys.modules["tensorflow"].add_n(losses))


def _parsed(call: StepArguments) -> StepTensors:
    """The tensors of a call; none if there is nothing but a loss."""
    if call.own_variables is None and call.gradients is None:
        return StepTensors()
    return call.parse()


def _check_selection(loop: LoopCapture, call: StepArguments) -> None:
    """Raise for a selector that matches nothing, before anything is measured in parts."""
    if not loop.infos() and not call.group_name:
        tensors = _parsed(call)
        if tensors.infos:
            Plan(loop.timetable, tensors.infos)


def _refuse(call: StepArguments) -> None:
    for name in ("outputs", "output_gradients", "inputs", "targets", "micro_batch"):
        if getattr(call, name) is not None:
            raise WrongTypeError(
                f"{name}= is not recorded from inside of replicas of tf.distribute. Leave it out; "
                "in fit, outputs of layers and the data are recorded."
            )
