"""Records what the links of an `optax.chain` have measured, from the optimizer's state."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from gradwatch.capture.errors import WrongTypeError
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.loop.loop_readings import names_to_fetch
from gradwatch.capture.loop.optax_states import LinkState, LinkStates, raw, whole
from gradwatch.capture.loop.replica_step import writes_common
from gradwatch.capture.loop.step_arguments import StepArguments
from gradwatch.core import Kind, Moment, Site, Tensor
from gradwatch.measure import framework
from gradwatch.watches.budget import is_evenly_spread

_MISCOUNTED = (
    "monitor.record() was given the state of an optimizer more or less often than that was "
    "updated, so a step is not recorded. Call it once for each update; with optax.MultiSteps, "
    "after the last micro-batch."
)
_FOREIGN = (
    "The state of an optimizer that monitor.record() was given has no link of this monitor, so "
    "nothing of it is recorded. Make the optimizer with this monitor's optax()."
)
_ALIKE = (
    "Several links in the state of an optimizer have the same group, so none of them is recorded. "
    "Give each optax() of a monitor, and of several monitors, a group= of its own."
)


class LinkedSteps:
    """Counts the updates of links beside the device, so that nothing waits for it.

    The device is asked for its count at the first call, and after this one has been wrong.
    """

    def __init__(self, loop: LoopCapture) -> None:
        self._loop = loop
        self._miscounted: set[str] = set()
        self._asked: dict[str, int] = {}
        self._stood_for: dict[str, int] = {}

    def record(
        self, call: StepArguments, links: LinkStates, record_rest: Callable[[Moment], None]
    ) -> None:
        """Record a step; the rest is what belongs to no group."""
        if call.step is not None or call.group is not None:
            raise WrongTypeError(
                "record() of an optimizer's state takes no step= and no group=: the state has the "
                "number of the step, and monitor.optax(group=...) the group."
            )
        loop, is_first = self._loop, True
        for group, state in self._own(links).items():
            moment = self._moment(state, group, call.where[1])
            if moment is None:
                continue
            loop.enter_epoch(moment.epoch)
            is_due = self._is_measured(moment.step) and loop.is_due(moment)
            loop.advance(group, moment, was_measured=is_due, is_due=is_due)
            if writes_common():
                if is_due:
                    self._send(moment, state, group)
                if is_first:
                    self._send_numbers(moment, call, links.learning_rate, is_due)
                    record_rest(moment)
            is_first = False

    def _own(self, links: LinkStates) -> dict[str, LinkState]:
        """The links of this monitor by group; none of those that cannot be told apart."""
        found = [(name, link) for link in links.links for name in link.measured]
        own = {name: link for name, link in found if self._loop.progress(name).is_linked}
        if found and not own:
            self._loop.reporter.notice(_FOREIGN)
        times = Counter(name for name, _ in found)
        for name in [name for name in own if times[name] > 1]:
            del own[name]
            self._loop.reporter.notice(_ALIKE)
        return own

    def _moment(self, state: LinkState, group: str, epoch: int | None) -> Moment | None:
        """The moment of the last update; None if it is known already."""
        progress = self._loop.progress(group)
        if group not in self._asked or group in self._miscounted:
            self._miscounted.discard(group)
            count = int(np.asarray(raw(state.step)))
            if count in (0, self._asked.get(group)):
                return None
            self._asked[group], progress.step = count, count - 1
        moment = progress.moment(None, epoch)
        # What is due once an epoch is so at its first step that the device has measured.
        stands = self._is_measured(moment.step) and self._stood_for.get(group) != moment.epoch
        if stands:
            self._stood_for[group] = moment.epoch
        return replace(moment, stands_for_epoch=stands)

    def _is_measured(self, step: int) -> bool:
        """What the device decides, see `OptaxLink`."""
        if self._loop.pace is not None:
            return is_evenly_spread(step)
        periods = self._loop.timetable.periods
        return periods is None or any(step % period == 0 for period in periods)

    def _send(self, moment: Moment, state: LinkState, group: str) -> None:
        """Send the last measurement, if it is of this step."""
        own = framework("jax")
        measured = {name.partition(":")[0]: name for name in state.measured[group]}
        names = names_to_fetch(measured, self._loop.timetable, moment)
        # Copies: the state is perhaps donated to the next step.
        copies = {measured[n]: jnp.copy(raw(state.measured[group][measured[n]])) for n in names}
        copies["at"] = jnp.copy(raw(state.at))
        wait = own.fetch(copies, list(copies))

        def of_this_step() -> dict[str, Any]:
            arrays = whole(wait())
            if int(arrays.pop("at")) == moment.step:
                return arrays
            self._miscounted.add(group)
            self._loop.reporter.notice(_MISCOUNTED)
            return {}

        self._loop.send_later(moment, None, of_this_step)

    def _send_numbers(
        self, moment: Moment, call: StepArguments, rate: Tensor | None, is_due: bool
    ) -> None:
        loop, own = self._loop, framework("jax")
        if is_due and call.has_batch:
            loop.record_inputs(call.parse_inputs(), moment, "", None)
        if is_due and rate is not None:
            wait = own.fetch({"rows": own.measure([rate])[0]}, ["rows"])
            loop.send_sites(moment, "", [Site(Kind.SCALAR, "learning_rate")], wait)
        if call.loss is not None:
            loop.record_loss(moment, "", call.loss)
