"""Watches a torch module through the hooks of its optimizer."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from gradwatch.capture.errors import WrongValueError
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.meaning import REPLICATED, SHARDED, WATCHED
from gradwatch.capture.site_table import SiteTable
from gradwatch.capture.step_tensors import SiteTensor, under
from gradwatch.capture.torch import torch_own_time
from gradwatch.capture.torch.bad_steps import BadSteps
from gradwatch.capture.torch.begun_step import BegunStep, SkippedSteps
from gradwatch.capture.torch.clipping import Clipping
from gradwatch.capture.torch.loss_watch import LossWatch
from gradwatch.capture.torch.module_outputs import ModuleOutputs
from gradwatch.capture.torch.module_tensors import GRADIENTS, ModuleTensors
from gradwatch.capture.torch.torch_moments import state_of
from gradwatch.capture.torch.torch_optimizer import check, innermost, owned, scale_of
from gradwatch.capture.torch.torch_parallel import (
    SECOND_SHARDED,
    Refusal,
    Spread,
    is_first_of,
    is_one_of_many,
    replicated_by,
    spread_of,
)
from gradwatch.capture.torch.torch_replicas import Replica, is_check, with_exact_sums
from gradwatch.capture.torch.torch_sharded import ShardRecorder
from gradwatch.capture.torch.unrecorded_losses import UnrecordedLosses
from gradwatch.capture.values import value_name
from gradwatch.core import Kind, Moment, Site, Tensor, TorchModule, TorchOptimizer
from gradwatch.measure import Fetched, framework
from gradwatch.measure.torch_eager import MeasuredRow
from gradwatch.watches.budget import is_evenly_spread

_MEANINGS = {Spread.OWN: WATCHED, Spread.REPLICATED: REPLICATED, Spread.SHARDED: SHARDED}


class TorchWatch:
    """Records each step of an optimizer that is due.

    Gradients are read before they are clipped, those that are applied when `optimizer.step()`
    begins, weights when it has ended. Of many processes that train together, the first records what
    they share, each what differs: see `Spread`.
    """

    def __init__(
        self, module: TorchModule, optimizer: TorchOptimizer, loop: LoopCapture, group: str
    ) -> None:
        optimizer = innermost(optimizer)
        if (refusal := Refusal(module, optimizer, loop.reporter)).is_needed():
            return
        check(module, optimizer)
        if loop.progress(group).is_watched:
            raise WrongValueError(
                f"An optimizer is watched already under group={group!r}. Give this one a "
                "group= of its own, such as 'discriminator'."
            )
        named = owned(module, optimizer, loop.reporter)
        self._loop, self._reporter, self._group = loop, loop.reporter, group
        self._refusal, self._skipped = refusal, SkippedSteps()
        self._step: BegunStep | None = None
        self._moment: Moment | None = None
        self._last: tuple[int, float] | None = None
        # A closure runs forward passes within the step.
        self._seen = ModuleOutputs(module, loop, group, lambda: self._moment or self._next_moment())
        self._outputs = self._seen.layers
        spread = spread_of(module, named)
        state = state_of(optimizer, spread, loop)
        followed = (module, optimizer) if spread is Spread.OWN else None
        self._tensors = ModuleTensors(named, loop, group, self._outputs, state, followed)
        self._clipping = Clipping(optimizer, self._tensors, self._before_clipping)
        self._is_one_of_many = is_one_of_many()
        self._parallel = replicated_by(module) if spread is Spread.REPLICATED else None
        self._is_recorder = is_first_of(self._parallel)
        self._replica = None if self._parallel is None else Replica(self._parallel)
        self._sharded: ShardRecorder | None = None
        self._own_time: torch_own_time.OwnTime | None = None
        self._bad_steps: BadSteps | None = None
        table = self._tensors.table()  # Raises now if a selector matches nothing.
        if spread is Spread.SHARDED and loop.is_meeting:
            loop.reporter.notice(SECOND_SHARDED)
            return
        if spread is Spread.SHARDED:
            self._sharded = ShardRecorder(loop, group, self._tensors.subtable(table, False))
            self._tensors.shards = self._sharded.shards
            loop.is_meeting = True
            loop.at_end.append(self._sharded.leave)
        elif self._is_one_of_many and not self._is_recorder:
            # A budget would choose other steps here than where variables are recorded.
            loop.follow(is_evenly_spread)
        loop.means(_MEANINGS[spread])

        def is_due() -> bool:
            return self._seen.is_whole() and self._is_due(self._moment or self._next_moment())

        self._surroundings = LossWatch(module, optimizer, loop, group, is_due)
        self._seen.activation_of = self._surroundings.activation_of
        loop.known.add(group, self._surroundings.facts, module)
        loop.progress(group).is_watched = True
        if loop.is_diagnosed and spread is Spread.OWN and not self._is_one_of_many:
            self._bad_steps = BadSteps(module, named, loop, group, self._tensors)
        self._add_hooks(module, optimizer, is_spread=spread is not Spread.OWN)
        if self._bad_steps is not None and not group:
            UnrecordedLosses(optimizer, loop)

    def _add_hooks(self, module: TorchModule, optimizer: TorchOptimizer, is_spread: bool) -> None:
        # Not traced where the whole step is compiled: measurements stay eager.
        disable = torch.compiler.disable
        handles = [optimizer.register_step_pre_hook(disable(self._before_step))]
        handles.append(optimizer.register_step_post_hook(disable(self._after_step)))
        if is_spread:
            own_time = self._own_time = torch_own_time.own_time_of(self._parallel)
            begins = own_time.forward_begins
            # Before the hooks by which a sharded module gathers its parameters, and waits.
            handles.append(module.register_forward_pre_hook(begins, prepend=True))
            handles.append(module.register_forward_hook(own_time.forward_ended))
        at_end = self._loop.at_end
        at_end.extend(self._clipping.listen())
        at_end.extend(handle.remove for handle in handles)
        if self._outputs is not None:
            hooks = ExitStack()
            hooks.enter_context(self._outputs.watching())
            at_end.append(hooks.close)
        at_end.append(self._let_go)
        self._seen.tap(self._is_next_due)

    def _is_next_due(self) -> bool:
        return self._is_due(self._next_moment())

    def _let_go(self) -> None:
        self._loop.progress(self._group).is_watched = False
        if self._bad_steps is not None:
            self._bad_steps.close()
        if self._sharded is not None:
            self._loop.is_meeting = False
        self._step = None

    @guarded("reading gradients before they are clipped", "the gradients of that step")
    def _before_clipping(self) -> None:
        moment = self._moment or self._next_moment()
        is_due = self._clipping.is_due = self._is_due(moment)
        if self._bad_steps is not None:
            self._bad_steps.before_clipping(is_due)
        if not is_due or not self._is_recorder:
            return
        step = BegunStep(moment, self._tensors.table(), self._seen.eager_step(moment))
        rows = [row for row in step.table.rows if row[1].kind is Kind.GRADIENT]
        if (tensors := self._clipping.gradients([site for _, site in rows])) is not None:
            self._clipping.rows = self._measured(step, rows, tensors)
            self._clipping.values = step.values

    @guarded("reading gradients before optimizer.step()", "that step")
    def _before_step(self, optimizer: TorchOptimizer, args: Any, kwargs: Any) -> None:
        self._step = None
        if self._refusal.is_needed_now():
            return
        if self._own_time is not None:
            self._own_time.step_begins()
        moment = self._next_moment()
        self._loop.enter_epoch(moment.epoch)
        # What was not due before the gradients were clipped is not now.
        is_due = self._is_due(moment) and self._clipping.is_due
        # Layer outputs are measured where they arise, in the forward pass before this.
        were_outputs = self._seen.are_due(moment)
        self._loop.advance(self._group, moment, was_measured=were_outputs, is_due=is_due)
        self._moment = moment
        if self._bad_steps is not None:
            self._bad_steps.begin(is_due, scale_of(optimizer), self._clipping.is_clipped)
        if not is_due:
            return
        if self._parallel is not None and not self._parallel.require_backward_grad_sync:
            self._loop.reporter.notice(
                "optimizer.step() was called inside no_sync(): its gradients are not averaged over "
                "the ranks. Those of rank 0 are recorded."
            )
        step = BegunStep(moment, self._tensors.table(), self._seen.eager_step(moment))
        if self._is_recorder:
            step.before = self._tensors.values_before(step)
            has_closure = kwargs.get("closure") is not None or any(map(callable, args[1:]))
            if not has_closure:
                step.deferred = self._tensors.deferrable(step, optimizer)
                self._measure_gradients(step, scale_of(optimizer))
                step.applied = self._tensors.gradients_before(step, scale_of(optimizer))
        self._step = step

    @guarded("measuring a step after optimizer.step()", "that step")
    def _after_step(self, optimizer: TorchOptimizer, args: Any, kwargs: Any) -> None:
        step, moment = self._step, self._moment
        self._step = self._moment = None
        self._seen.step_ended()
        try:
            numbers: Mapping[Site, float] = {}
            if moment is not None and self._bad_steps is not None:
                numbers = self._bad_steps.end(moment, is_measured=step is not None)
            # First: the loss that the loop records of this step comes after everything else.
            if moment is not None and self._is_compared(moment):
                self._record_replica(moment, was_due=step is not None)
            is_made = not self._skipped.is_one(self._tensors.gradients(), step is not None)
            if step is not None and (is_made or self._sharded is not None):
                self._record(step, numbers)
            self._loop.progress(self._group).step_ended()
        finally:
            self._clipping.step_ended()
            self._surroundings.step_ended(moment)
            if self._own_time is not None:
                self._own_time.step_ended()
            if self._sharded is not None:
                progress = self._loop.progress(self._group)
                self._sharded.passed(progress.step, 1 if progress.epoch is None else progress.epoch)

    def _measure_gradients(self, step: BegunStep, scale: Tensor | None) -> None:
        """Measure the gradients before the step: an optimizer may change them."""
        clipping, kept = self._clipping, self._clipping.kept()
        known = clipping.rows.keys() | step.deferred.keys()
        rows = [r for r in step.table.rows if r[1].kind in GRADIENTS and r[1] not in known]
        tensors = {s: self._tensors.tensor(s, step) for _, s in rows if s not in kept}
        if scale is not None:
            tensors = {s: None if x is None else x / scale for s, x in tensors.items()}
        tensors |= kept
        step.gradients = self._measured(step, rows, [tensors[site] for _, site in rows])

    def _measured(
        self, step: BegunStep, rows: Sequence[tuple[int, Site]], tensors: Sequence[Tensor | None]
    ) -> dict[Site, MeasuredRow]:
        """Measure tensors now, and keep copies of those that probes need."""
        counted = step.table.plan.with_histogram
        measured = step.eager.add_now(tensors, [position in counted for position, _ in rows])
        step.values |= self._values(step, zip(rows, tensors, strict=True))
        return dict(zip((site for _, site in rows), measured, strict=True))

    def _record(self, step: BegunStep, numbers: Mapping[Site, float]) -> None:
        """Measure the rest of a step, and send it with further numbers."""
        if self._is_one_of_many:
            self._send_time(step.moment)
        outputs: dict[Site, SiteTensor] = {}
        if self._outputs is not None and self._seen.are_due(step.moment):
            layers = self._outputs.take(self._group)
            step.table = self._tensors.table(layers)
            outputs = {x.site: x for several in layers.tensors.values() for x in several}
        table = step.table
        if self._sharded is not None:
            variables = self._tensors.subtable(table, of_layers=False)
            self._sharded.send(step.moment, variables, self._measure(step, variables, {}))
        if self._sharded is not None or not self._is_recorder:
            table = self._tensors.subtable(table, of_layers=True)
        taps = self._seen.tap_arrays()
        if table.rows or taps:
            arrays, own = self._measure(step, table, outputs) | taps, framework("torch")
            batch = self._surroundings.measured(outputs) if self._is_recorder else dict
            self._loop.send(step.moment, table, own, arrays, numbers=numbers, beside=batch)

    def _measure(
        self, step: BegunStep, table: SiteTable, outputs: Mapping[Site, SiteTensor]
    ) -> dict[str, Tensor]:
        """The summaries, cells and values of a table, as arrays on the device."""
        is_compared = self._is_compared(step.moment)
        at_once = self._tensors.measured_at_once(step, table, not is_compared)
        measured = {**step.deferred, **at_once, **self._clipping.rows, **step.gradients}

        def tensor(site: Site) -> Tensor | MeasuredRow | None:
            if site in measured:
                return measured[site]
            return outputs[site].tensor() if site in outputs else self._tensors.tensor(site, step)

        tensors = [tensor(site) for _, site in table.rows]
        rows, cells = step.eager.measure(tensors, table.with_cells)
        if is_compared:
            pairs = zip(table.rows, tensors, strict=True)
            rows = with_exact_sums(
                rows, [x if site.kind is Kind.WEIGHT else None for (_, site), x in pairs]
            )
        values = self._values(step, zip(table.rows, tensors, strict=True))
        return {"rows": rows, "cells": cells, **self._clipping.values, **step.values, **values}

    def _values(
        self,
        step: BegunStep,
        tensors: Iterable[tuple[tuple[int, Site], Tensor | MeasuredRow | None]],
    ) -> dict[str, Tensor]:
        """Copies of the tensors that probes need."""
        probed = {position for _, position in step.table.plan.due(step.moment).probes}
        copy = framework("torch").copy
        return {
            value_name(position): copy(x)
            for (position, site), x in tensors
            if position in probed
            and x is not None
            and not isinstance(x, MeasuredRow)
            and (self._sharded is None or site.kind.is_of_layer)
        }

    def _send_time(self, moment: Moment) -> None:
        """Record how long steps take: a heartbeat of each rank, and a number to compare ranks."""
        last, self._last = self._last, (moment.step, torch_own_time.clock())
        own = None if self._own_time is None else self._own_time.take()
        if last is not None and moment.step > last[0]:
            seconds = (self._last[1] - last[1]) / (moment.step - last[0])
            numbers = {"step_seconds": seconds} | ({} if own is None else {"own_seconds": own})
            self._loop.send_sites(moment, self._group, [], dict, self._scalars(numbers))

    def _scalars(self, numbers: Mapping[str, float]) -> dict[Site, float]:
        return {Site(Kind.SCALAR, under(self._group, n)): x for n, x in numbers.items()}

    def _is_compared(self, moment: Moment) -> bool:
        """Whether all ranks record their copies of the weights."""
        # Not where nothing is ever due.
        return self._replica is not None and self._last is not None and is_check(moment.step)

    def _record_replica(self, moment: Moment, was_due: bool) -> None:
        """Record this rank's copy of the weights, except those that the step itself records."""
        assert self._replica is not None
        table = self._tensors.table()
        due = table.plan.due(moment).summaries if was_due and self._is_recorder else ()
        done = {table.plan.sites[i] for i in due}
        sites = [site for _, site in table.rows if site.kind is Kind.WEIGHT]
        if not sites:
            return
        weights = {site: self._tensors.parameter(site) for site in sites if site not in done}
        missing = {s: x for s, x in weights.items() if id(x) not in self._replica.own}
        wait: Fetched = dict
        if missing:
            own, tensors = framework("torch"), list(missing.values())
            rows = with_exact_sums(own.measure(tensors)[0], tensors)
            wait = own.fetch({"rows": rows}, ["rows"])
        numbers = self._scalars(self._replica.numbers())
        self._loop.send_sites(moment, self._group, list(missing), wait, numbers)

    def _next_moment(self) -> Moment:
        moment = self._loop.progress(self._group).moment(None, None)
        if self._sharded is not None:
            return self._sharded.steps.moment(moment.step, moment.epoch)
        return moment

    def _is_due(self, moment: Moment) -> bool:
        if self._sharded is not None:
            return not self._sharded.is_over and self._sharded.steps.is_measured(moment.step)
        return self._loop.is_due(moment)
