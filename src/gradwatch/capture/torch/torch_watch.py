"""Watching a plain torch module through its optimizer's own hooks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.layer_watch import LayerWatch
from gradwatch.capture.loop.loop_recorder import LoopRecorder
from gradwatch.capture.meaning import REPLICATED, SHARDED, WATCHED
from gradwatch.capture.site_table import SiteTable
from gradwatch.capture.step_tensors import ABSENT, StepTensors, variable_tensors
from gradwatch.capture.torch import torch_own_time
from gradwatch.capture.torch.torch_facts import facts_of
from gradwatch.capture.torch.torch_layers import TorchLayers
from gradwatch.capture.torch.torch_optimizer import owned, scale_of, type_of
from gradwatch.capture.torch.torch_parallel import (
    Spread,
    is_first_of,
    is_one_of_many,
    refusal,
    replicated_by,
    spread_of,
)
from gradwatch.capture.torch.torch_parts import Part, Subtables, together
from gradwatch.capture.torch.torch_replicas import Replica, is_check, with_exact_sums
from gradwatch.capture.torch.torch_sharded import Sharded
from gradwatch.capture.values import value_name
from gradwatch.core import Kind, Site
from gradwatch.core.schedule import Moment
from gradwatch.measure import Fetched, framework
from gradwatch.watches.budget import START


@dataclass
class _Step:
    """A step that is due and under way."""

    moment: Moment
    table: SiteTable
    before: dict[str, Any]
    """The values before the step of parameters whose update is watched, by path."""
    gradients: Part | None
    """Measured already; None with a closure, which computes them within the step."""


class TorchWatch:
    """Records each step of an optimizer that is due.

    Gradients are read when `optimizer.step()` begins, so they are what it will use:
    accumulated, unscaled and clipped as far as the loop has done that. Weights are
    read when it has ended. Of many processes that train together, the first records what
    all have in common, and each what is its own; see `Spread`.

    Args:
        module: the user's module, also if compiled or wrapped for data parallelism.
        optimizer: of its parameters.
        loop: the recorder.
        group: the name that paths begin with; may be empty.

    Raises:
        TypeError, ValueError: module and optimizer are not these, or do not belong
            together, or a selector matches nothing.
    """

    def __init__(
        self,
        module: Any,
        optimizer: Any,
        loop: LoopRecorder,
        group: str,
    ) -> None:
        if not isinstance(module, torch.nn.Module):
            raise WrongTypeError(f"watch() takes a torch.nn.Module. Received: {type_of(module)}")
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise WrongTypeError(f"watch() takes a torch optimizer. Received: {type_of(optimizer)}")
        if loop.progress(group).is_watched:
            raise WrongValueError(
                f"An optimizer is watched already under group={group!r}. Give this one a "
                "group= of its own, such as 'discriminator'."
            )
        why = refusal(module)
        if why is not None:
            loop.reporter.notice(why)
            return
        self._named = owned(module, optimizer, loop.reporter)
        self._by_path = {f"{group}/{n.path}" if group else n.path: n for n in self._named}
        self._loop = loop
        self._group = group
        self._reporter = loop.reporter
        self._step: _Step | None = None
        self._moment: Moment | None = None
        self._known_table: tuple[Any, SiteTable] | None = None
        self._outputs = self._watch_outputs(module)
        self._spread = spread_of(module, self._named)
        self._is_one_of_many = is_one_of_many()
        self._parallel = replicated_by(module) if self._spread is Spread.REPLICATED else None
        self._is_recorder = is_first_of(self._parallel)
        self._replica = None if self._parallel is None else Replica(self._parallel)
        self._own_time: torch_own_time.OwnTime | None = None
        self._subtables = Subtables()
        self._last: tuple[int, float] | None = None
        table = self._table()  # A selector that matches nothing is heard of now.
        if self._spread is Spread.SHARDED and loop.is_meeting:
            loop.reporter.notice(
                "A second sharded module in one monitor is not recorded. Give it a monitor of its "
                "own, with a directory of its own."
            )
            return
        self._sharded: Sharded | None = None
        if self._spread is Spread.SHARDED:
            self._sharded = Sharded(loop, group, table)
            loop.is_meeting = True
            loop.at_end.append(self._sharded.leave)
        elif self._is_one_of_many and not self._is_recorder:
            # What a budget would find here is not what it finds where it is recorded.
            loop.follow(_is_tenth)
        loop.means(_MEANINGS[self._spread])
        if not group:
            # Of several groups, each would need its own.
            loop.model_facts = facts_of(module, optimizer, group)
        loop.progress(group).is_watched = True
        # Not to be traced where the whole step is compiled: what is ours stays eager.
        before = torch.compiler.disable(self._before_step)
        after = torch.compiler.disable(self._after_step)
        handles = [
            optimizer.register_step_pre_hook(before),
            optimizer.register_step_post_hook(after),
        ]
        if self._spread is not Spread.OWN:
            own_time = self._own_time = torch_own_time.own_time_of(self._parallel)
            begins = own_time.forward_begins
            # In front of those by which a sharded module gathers its parameters, and waits.
            handles.append(module.register_forward_pre_hook(begins, prepend=True))
            handles.append(module.register_forward_hook(own_time.forward_ended))
        loop.at_end.extend(handle.remove for handle in handles)
        if self._outputs is not None:
            hooks = ExitStack()
            hooks.enter_context(self._outputs.watching())
            loop.at_end.append(hooks.close)
        loop.at_end.append(self._let_go)

    def _let_go(self) -> None:
        self._loop.progress(self._group).is_watched = False
        if self._sharded is not None:
            self._loop.is_meeting = False
        self._step = None

    @guarded()
    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._step = None
        if self._own_time is not None:
            self._own_time.step_begins()
        moment = self._next_moment()
        self._loop.enter_epoch(moment.epoch)
        is_due = self._is_due(moment)
        # Layer outputs are measured where they arise, in the forward pass before this.
        were_outputs = self._outputs is not None and self._outputs_due(moment)
        self._loop.advance(self._group, moment, was_measured=were_outputs, is_due=is_due)
        self._moment = moment
        if not is_due:
            return
        if self._parallel is not None and not self._parallel.require_backward_grad_sync:
            self._loop.reporter.notice(
                "optimizer.step() was called inside no_sync(): its gradients are not averaged over "
                "the ranks. Those of rank 0 are recorded."
            )
        table = self._table()
        updated = {s.path for s in table.plan.sites if s.kind is Kind.UPDATE}
        updated = updated if self._is_recorder else set()
        snapshot = framework("torch").snapshot
        before = {path: snapshot(self._local(self._by_path[path].value)) for path in updated}
        step = _Step(moment, table, before, None)
        has_closure = kwargs.get("closure") is not None or any(map(callable, args[1:]))
        if not has_closure and self._is_recorder:
            # Now: nothing forbids an optimizer to change them.
            step.gradients = self._part(step, scale_of(optimizer), _is_gradient)
        self._step = step

    @guarded()
    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        step, moment = self._step, self._moment
        self._step = self._moment = None
        try:
            # First: what the loop tells of the step, its loss, is to follow on the rest.
            if moment is not None and self._is_compared(moment):
                self._record_replica(moment, was_due=step is not None)
            if step is not None:
                self._record(step)
        finally:
            if self._own_time is not None:
                self._own_time.step_ended()
            if self._sharded is not None:
                progress = self._loop.progress(self._group)
                self._sharded.passed(progress.step, 1 if progress.epoch is None else progress.epoch)

    def _record(self, step: _Step) -> None:
        """Measure the rest of a step, and send it to where it belongs."""
        if self._is_one_of_many:
            self._send_time(step.moment)
        layers = None
        if self._outputs is not None and self._outputs_due(step.moment):
            layers = self._outputs.take(self._group)
            # They come last in a table: the gradients' places stay the same.
            step.table = self._table(layers)
        parts = []
        if self._is_recorder:
            parts = [step.gradients or self._part(step, None, _is_gradient)]
            parts.append(self._part(step, None, _is_rest_of_variable))
        if self._sharded is not None:
            self._sharded.send(step.moment, step.table, parts)
            parts = []
        if layers is not None:
            parts.append(self._part(step, None, _is_of_layer, layers))
        if parts:
            table = self._subtables.of(step.table, parts)
            self._loop.send(step.moment, table, framework("torch"), together(parts))

    def _send_time(self, moment: Moment) -> None:
        """Record how long steps take: a sign of life of each rank, and what to compare them by."""
        last, self._last = self._last, (moment.step, torch_own_time.clock())
        own = None if self._own_time is None else self._own_time.take()
        if last is not None and moment.step > last[0]:
            seconds = (self._last[1] - last[1]) / (moment.step - last[0])
            numbers = {"step_seconds": seconds} | ({} if own is None else {"own_seconds": own})
            self._loop.send_sites(moment, self._group, [], dict, numbers)

    def _is_compared(self, moment: Moment) -> bool:
        """Whether all ranks record the weights of which they have copies."""
        # Not where nothing is ever due.
        return self._replica is not None and self._last is not None and is_check(moment.step)

    def _record_replica(self, moment: Moment, was_due: bool) -> None:
        """Record this rank's copy of the weights, as far as that is not done already."""
        assert self._replica is not None
        table = self._table()
        due = table.plan.due(moment).summaries if was_due and self._is_recorder else ()
        done = {table.plan.sites[i] for i in due}
        weights = {s: self._by_path[s.path].value for _, s in table.rows if s.kind is Kind.WEIGHT}
        if not weights:
            return
        wanted = {s: x for s, x in weights.items() if id(x) not in self._replica.own}
        missing = {s: x for s, x in wanted.items() if s not in done}
        wait: Fetched = dict
        if missing:
            own, tensors = framework("torch"), list(missing.values())
            rows = with_exact_sums(own.measure(tensors)[0], tensors)
            wait = own.fetch({"rows": rows}, ["rows"])
        self._loop.send_sites(moment, self._group, list(missing), wait, self._replica.numbers())

    def _part(
        self,
        step: _Step,
        scale: Any,
        is_meant: Callable[[Kind], bool],
        layers: StepTensors | None = None,
    ) -> Part:
        """Measure what is of the kinds that are meant."""
        plan, rows = step.table.plan, step.table.rows
        outputs = {
            x.site: x for several in (layers or StepTensors()).tensors.values() for x in several
        }
        tensors = {
            place: outputs[site].tensor() if site in outputs else self._tensor(site, step, scale)
            for place, (_, site) in enumerate(rows)
            if is_meant(site.kind)
        }
        own = framework("torch")
        due = self._loop.is_due(step.moment, histograms=True)
        is_whole = self._sharded is None or is_meant is _is_of_layer
        counted = plan.with_histogram if due else frozenset()
        places = list(tensors)
        with_cells = [at for at, place in enumerate(places) if rows[place][0] in counted]
        probed = {i for _, i in plan.due(step.moment).probes}
        summaries, cells = own.measure(list(tensors.values()), with_cells)
        if self._is_compared(step.moment):
            is_weight = [rows[place][1].kind is Kind.WEIGHT for place in places]
            pairs = zip(tensors.values(), is_weight, strict=True)
            summaries = with_exact_sums(summaries, [x if yes else None for x, yes in pairs])
        return Part(
            places,
            summaries,
            [places[at] for at in with_cells],
            cells,
            {
                value_name(rows[place][0]): own.copy(x)
                for place, x in tensors.items()
                if is_whole and rows[place][0] in probed and x is not None
            },
        )

    def _tensor(self, site: Site, step: _Step, scale: Any) -> Any:
        parameter = self._by_path[site.path].value
        whole = parameter.grad if site.kind is Kind.GRADIENT else parameter
        if whole is None or (self._sharded is not None and not self._sharded.shards.is_ours(whole)):
            return None
        tensor = self._local(whole)
        if site.kind is Kind.GRADIENT:
            return tensor if scale is None else tensor / scale
        if site.kind is Kind.UPDATE:
            return framework("torch").difference(tensor, step.before[site.path])
        return tensor

    def _local(self, tensor: Any) -> Any:
        return tensor if self._sharded is None else self._sharded.shards.local(tensor)

    def _next_moment(self) -> Moment:
        """The next step as schedules see it."""
        moment = self._loop.progress(self._group).moment(None, None)
        if self._sharded is not None:
            return self._sharded.steps.moment(moment.step, moment.epoch)
        return moment

    def _is_due(self, moment: Moment) -> bool:
        if self._sharded is not None:
            return not self._sharded.is_over and self._sharded.steps.is_measured(moment.step)
        return self._loop.is_due(moment)

    def _table(self, layers: StepTensors | None = None) -> SiteTable:
        if self._outputs is not None:
            return self._new_table(layers)
        # Parameters seldom change but in their values, and working it out anew is slow.
        values = [n.value for n in self._named]
        form = tuple([(x.requires_grad, x.shape, x.dtype) for x in values])
        if self._known_table is None or self._known_table[0] != form:
            self._known_table = form, self._new_table(None)
        return self._known_table[1]

    def _new_table(self, layers: StepTensors | None) -> SiteTable:
        learned = [None if n.value.requires_grad else ABSENT for n in self._named]
        by_kind: dict[Kind, list[Any]] = {
            Kind.WEIGHT: [n.value for n in self._named],
            Kind.GRADIENT: learned,
        }
        parameters = sum(n.value.numel() for n in self._named)
        if Kind.UPDATE in self._loop.timetable.affordable(parameters).kinds:
            by_kind[Kind.UPDATE] = learned
        tensors = variable_tensors(self._named, by_kind, framework("torch").difference, self._group)
        if self._outputs is not None:
            tensors += layers or StepTensors(self._outputs.infos(self._group))
        return self._loop.table(tensors, self._group)

    def _watch_outputs(self, module: Any) -> LayerWatch | None:
        """What notes the outputs of submodules; None if they are not watched."""
        timetable = self._loop.timetable
        if not timetable.is_asked_for_outputs:
            return None  # Hooks in the module are the user's to ask for.
        if hasattr(module, "_flatten_layers"):
            self._reporter.notice(
                "watch() does not record the outputs of the layers of a Keras model. Do so with "
                "monitor.outputs_of(model) and record(outputs=...)."
            )
            return None
        layers = TorchLayers(module, self._reporter, self._is_noting)
        return LayerWatch(layers, timetable, self._group)

    def _is_noting(self) -> bool:
        """Whether outputs are recorded on the step under way or, between steps, the next."""
        if not torch.is_grad_enabled():
            return False  # A pass for evaluation.
        # Under way are the forward passes of a closure.
        return self._outputs_due(self._moment or self._next_moment())

    def _outputs_due(self, moment: Moment) -> bool:
        timetable = self._loop.timetable
        due = zip(timetable.watches, timetable.summaries_due(moment), strict=True)
        return any(is_due and watch.kind.is_of_layer for watch, is_due in due)


def _is_gradient(kind: Kind) -> bool:
    return kind is Kind.GRADIENT


def _is_rest_of_variable(kind: Kind) -> bool:
    return not (kind is Kind.GRADIENT or kind.is_of_layer)


def _is_of_layer(kind: Kind) -> bool:
    return kind.is_of_layer


def _is_tenth(step: int) -> bool:
    return step == 1 or step % START == 0


_MEANINGS = {
    Spread.OWN: WATCHED,
    Spread.REPLICATED: REPLICATED,
    Spread.SHARDED: SHARDED,
}
