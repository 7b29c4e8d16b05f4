"""Loops whose step is run by several replicas of `tf.distribute`.

Each replica calls `record` or `measure` with what it has. There they come together, in this
process and without any communication between processes: what all of them have in common is
measured once, and what is a replica's own is recorded under its name, `replica_0/...`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gradwatch.capture.errors import WrongTypeError
from gradwatch.capture.loop.arguments import one_of
from gradwatch.capture.loop.autograph import as_it_is
from gradwatch.capture.loop.given import Given, understand
from gradwatch.capture.loop.recorder import LoopRecorder
from gradwatch.capture.loop.reduced import Reduced
from gradwatch.capture.loop.step_count import group_name, whole_number
from gradwatch.core import Kind
from gradwatch.core.schedule import Moment
from gradwatch.parallel import ranks
from gradwatch.watches import Plan

OWN = "replicas"
"""In what `measure` returns inside of replicas, the measurements of each one's own, by name."""

Asked = Mapping[str, Any]


def replica_context() -> Any:
    """TensorFlow's replica context, if this is run by one of several replicas; else None."""
    tf = sys.modules.get("tensorflow")
    if tf is None or not hasattr(tf, "distribute"):
        return None
    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None


def writes_common() -> bool:
    """Whether this process is the one that records what all replicas have in common."""
    rank = ranks.current()
    return rank.engine != "tensorflow" or rank.is_first


class Together:
    """Has something done once for the replicas of this process, when all of them have asked."""

    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}

    @classmethod
    def on(cls, holder: Any) -> Together:
        """The one that an object has."""
        held: Together = vars(holder).setdefault("_together", cls())
        return held

    def __call__(
        self, context: Any, asked: Asked, work: Callable[[Any, Mapping[int, Asked]], Any]
    ) -> Any:
        """Have it done, and return on every replica what it returns.

        Args:
            context: of the replica.
            asked: what the replica asks.
            work: is given the strategy, and what each replica has asked, by its number.
        """
        # Not the public property, which adds a constant to the graph.
        self._asked[int(context._replica_id_in_sync_group)] = asked

        # Not through `merge_call`'s arguments, which would have to be alike on all replicas.
        @as_it_is
        def once(strategy: Any) -> Any:
            every, self._asked = dict(sorted(self._asked.items())), {}
            return work(strategy, every)

        return context.merge_call(once)


def measured_together(
    loop: LoopRecorder, strategy: Any, every: Mapping[int, Asked], histograms: Any
) -> dict[str, Any]:
    """The measurement of a step from what each replica gave to `measure` or `record`.

    Returns:
        As `LoopRecorder.measure`, of what they have in common, if this process is to record
        it; and `replicas`, the measurements of what is each one's own, by name.
    """
    tf = sys.modules["tensorflow"]
    devices = strategy.extended.worker_devices
    asked = next(iter(every.values()))
    _refuse(asked)
    group = group_name(asked.get("group"))
    gradients = asked.get("gradients")
    is_reduced = bool(asked.get("reduced")) or isinstance(gradients, Reduced)
    losses = [each["loss"] for each in every.values() if each.get("loss") is not None]
    is_all = len(every) == strategy.num_replicas_in_sync
    _check_selection(loop, asked, group)
    result: dict[str, Any] = {}
    if writes_common():
        with tf.device(devices[0]):
            common = {**asked, "gradients": gradients if is_reduced else None}
            given = _given(common, group)
            loss = tf.add_n(losses) if losses and is_all else None
            if given is not None or loss is not None:
                result |= loop.measure(given or _nothing(loss), group, None, loss, histograms)
    is_wished = any(watch.per_replica for watch in loop.timetable.watches)
    if gradients is not None and not is_reduced and not is_wished:
        loop.remark(
            "Gradients given inside of a replica are that replica's own, and are recorded as "
            f"{_under(group, 'replica_0')}/... For those that are applied, give what "
            "monitor.reduced_by(optimizer) has seen, or say reduced=True if your loop has summed "
            "them over the replicas."
        )
    own = {}
    for (replica, each), device in zip(every.items(), devices, strict=True):
        name = _under(group, f"replica_{replica}")
        loss = each.get("loss")
        has_own = each.get("gradients") is not None and not is_reduced
        if has_own or (loss is not None and not is_all):
            with tf.device(device):
                given = _given(each, name) if has_own else None
                only = _nothing(loss) if given is None else _of_kind(given, Kind.GRADIENT)
                own[name] = loop.measure(only, name, None, loss, histograms)
    return {**result, **({OWN: own} if own else {})}


def record_together(
    loop: LoopRecorder, readings: Mapping[str, Any], moment: Moment, loss: Any, group: str
) -> None:
    """Send what is due of a measurement that replicas have made together."""
    common = {name: value for name, value in readings.items() if name != OWN}
    if common and writes_common():
        loop.record_readings(common, moment, loss)
    elif loss is not None and writes_common():
        loop.record_beside(moment, group, loss)
    for own in readings.get(OWN, {}).values():
        if own:
            loop.record_readings(own, moment, None)


def record_step(loop: LoopRecorder, strategy: Any, every: Mapping[int, Asked]) -> None:
    """Record a step of an eager loop from what each replica gave to `record` or to its tape."""
    asked = next(iter(every.values()))
    group = group_name(asked.get("group"))
    step, epoch = whole_number("step", asked.get("step")), whole_number("epoch", asked.get("epoch"))
    progress = loop.progress(group)
    moment = progress.moment(step, epoch)
    is_first = progress.epoch is None
    readings = asked.get("readings")
    loop.enter_epoch(moment.epoch)
    loop.advance(group, moment, was_measured=readings is not None)
    if readings is None and (is_first or loop.is_due(moment)):
        # The first time in any case, so that a mistake is heard of at once.
        histograms = loop.is_due(moment, histograms=True)
        readings = measured_together(loop, strategy, every, histograms)
    if readings and loop.is_due(moment):
        record_together(loop, readings, moment, None, group)


def _given(asked: Asked, group: str) -> Given | None:
    """What was given, as `understand` sees it; None if it is nothing but a loss."""
    variables = one_of(asked.get("variables"), asked.get("parameters"))
    gradients = asked.get("gradients")
    applied = asked.get("applied_gradients")
    if variables is None and gradients is None:
        return None
    if isinstance(gradients, Reduced):
        gradients = gradients.in_order_of(variables)
    return understand(
        gradients=gradients,
        variables=variables,
        previous=asked.get("previous"),
        applied_gradients=applied,
        names=asked.get("names"),
        group=group,
    )


def _check_selection(loop: LoopRecorder, asked: Asked, group: str) -> None:
    """Have a selector that matches nothing heard of, before anything is measured in parts."""
    given = None if loop.infos() or group else _given(asked, group)
    if given is not None:
        Plan(loop.timetable, given.infos)


def _of_kind(given: Given, kind: Kind) -> Given:
    return replace(
        given,
        tensors={site: x for site, x in given.tensors.items() if site.kind is kind},
        infos=[info for info in given.infos if info.kind is kind],
    )


def _nothing(loss: Any) -> Given:
    """No tensors at all, beside a loss."""
    return replace(understand(gradients=[loss]), tensors={}, infos=[])


def _under(group: str, name: str) -> str:
    return f"{group}/{name}" if group else name


def _refuse(asked: Asked) -> None:
    for name in ("outputs", "output_gradients", "inputs", "targets", "micro_batch"):
        if asked.get(name) is not None:
            raise WrongTypeError(
                f"{name}= is not recorded from inside of replicas of tf.distribute. Leave it out; "
                "in fit, outputs of layers and the data are recorded."
            )
