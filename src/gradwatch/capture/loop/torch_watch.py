"""Watching a plain torch module through its optimizer's own hooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from gradwatch.capture.frameworks import framework
from gradwatch.capture.harmless import harmless
from gradwatch.capture.loop.given import ABSENT, given_of
from gradwatch.capture.loop.layer_tensors import LayerTensors
from gradwatch.capture.loop.layer_watch import LayerWatch
from gradwatch.capture.loop.layout import Layout
from gradwatch.capture.loop.meaning import WATCHED
from gradwatch.capture.loop.misuse import WrongTypeError, WrongValueError
from gradwatch.capture.loop.names import Named, variables_of
from gradwatch.capture.loop.recorder import LoopRecorder
from gradwatch.capture.loop.torch_facts import facts_of
from gradwatch.capture.loop.torch_layers import TorchLayers
from gradwatch.capture.values import value_name
from gradwatch.schedule import Moment
from gradwatch.sites import Kind, Site


@dataclass
class _Step:
    """A step that is due and under way."""

    moment: Moment
    layout: Layout
    before: dict[str, Any]
    """The values before the step of parameters whose update is watched, by path."""
    gradients: _Part | None
    """Measured already; None with a closure, which computes them within the step."""


@dataclass
class _Part:
    """The measurements of some of a layout's rows, by their places among them."""

    places: list[int]
    rows: Any
    with_histogram: list[int]
    cells: Any
    values: dict[str, Any]
    """Of sites that a probe looks at, see `capture.values`."""


class TorchWatch:
    """Records each step of an optimizer that is due.

    Gradients are read when `optimizer.step()` begins, so they are what it will use:
    accumulated, unscaled and clipped as far as the loop has done that. Weights are
    read when it has ended.

    Args:
        module: the user's module, also if compiled or wrapped for data parallelism.
        optimizer: of its parameters.
        loop: the recorder.
        group: the name that paths begin with; may be empty.
        fault: told of an exception of ours.

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
        fault: Callable[[Exception], None],
    ) -> None:
        if not isinstance(module, torch.nn.Module):
            raise WrongTypeError(f"watch() takes a torch.nn.Module. Received: {_type_of(module)}")
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise WrongTypeError(
                f"watch() takes a torch optimizer. Received: {_type_of(optimizer)}"
            )
        if loop.progress(group).is_watched:
            raise WrongValueError(
                f"An optimizer is watched already under group={group!r}. Give this one a "
                "group= of its own, such as 'discriminator'."
            )
        self._named = _owned(module, optimizer, loop.remark)
        self._by_path = {f"{group}/{n.path}" if group else n.path: n for n in self._named}
        self._loop = loop
        self._group = group
        self._fault = fault
        self._step: _Step | None = None
        self._moment: Moment | None = None
        self._known_layout: tuple[Any, Layout] | None = None
        self._outputs = self._watch_outputs(module)
        self._layout()  # A selector that matches nothing is heard of now.
        loop.means(WATCHED)
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
        loop.at_end.extend(handle.remove for handle in handles)
        if self._outputs is not None:
            hooks = ExitStack()
            hooks.enter_context(self._outputs.watching())
            loop.at_end.append(hooks.close)
        loop.at_end.append(self._let_go)

    def _let_go(self) -> None:
        self._loop.progress(self._group).is_watched = False
        self._step = None

    @harmless()
    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._step = None
        progress = self._loop.progress(self._group)
        moment = progress.moment(None, None)
        self._loop.enter_epoch(moment.epoch)
        # Layer outputs are measured where they arise, in the forward pass before this.
        were_outputs = self._outputs is not None and self._outputs_due(moment)
        self._loop.advance(self._group, moment, was_measured=were_outputs)
        self._moment = moment
        if not self._loop.is_due(moment):
            return
        layout = self._layout()
        updated = {s.path for s in layout.plan.sites if s.kind is Kind.UPDATE}
        snapshot = framework("torch").snapshot
        before = {path: snapshot(self._by_path[path].value) for path in updated}
        step = _Step(moment, layout, before, None)
        has_closure = kwargs.get("closure") is not None or any(map(callable, args[1:]))
        if not has_closure:
            # Now: nothing forbids an optimizer to change them.
            step.gradients = self._part(step, _scale(optimizer), only_gradients=True)
        self._step = step

    @harmless()
    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        step, self._step, self._moment = self._step, None, None
        if step is None:
            return
        if step.gradients is None:
            parts = [self._part(step, None, only_gradients=True)]
        else:
            parts = [step.gradients]
        layers = None
        if self._outputs is not None and self._outputs_due(step.moment):
            layers = self._outputs.take(self._group)
            # They come last in a layout: the gradients' places stay the same.
            step.layout = self._layout(layers)
        parts.append(self._part(step, None, only_gradients=False, layers=layers))
        rows = _in_order([p.places for p in parts], [p.rows for p in parts])
        cells = _in_order([p.with_histogram for p in parts], [p.cells for p in parts])
        arrays = {"rows": rows, "cells": cells}
        arrays |= {name: x for part in parts for name, x in part.values.items()}
        self._loop.send(step.moment, step.layout, framework("torch"), arrays, None)

    def _part(
        self,
        step: _Step,
        scale: Any,
        *,
        only_gradients: bool,
        layers: LayerTensors | None = None,
    ) -> _Part:
        """Measure the gradients, or all but them."""
        plan, rows = step.layout.plan, step.layout.rows
        outputs = {
            f.site: f for several in (layers or LayerTensors()).found.values() for f in several
        }
        tensors = {
            place: outputs[site].tensor() if site in outputs else self._tensor(site, step, scale)
            for place, (_, site) in enumerate(rows)
            if (site.kind is Kind.GRADIENT) is only_gradients
        }
        own = framework("torch")
        due = self._loop.is_due(step.moment, histograms=True)
        counted = set(plan.with_histogram) if due else set()
        places = list(tensors)
        with_cells = [at for at, place in enumerate(places) if rows[place][0] in counted]
        probed = {i for _, i in plan.due(step.moment).probes}
        summaries, cells = own.summarize_and_count(list(tensors.values()), with_cells)
        return _Part(
            places,
            summaries,
            [places[at] for at in with_cells],
            cells,
            {
                value_name(rows[place][0]): own.copy(x)
                for place, x in tensors.items()
                if rows[place][0] in probed and x is not None
            },
        )

    def _tensor(self, site: Site, step: _Step, scale: Any) -> Any:
        parameter = self._by_path[site.path].value
        if site.kind is Kind.GRADIENT:
            gradient = parameter.grad
            return gradient if gradient is None or scale is None else gradient / scale
        if site.kind is Kind.UPDATE:
            return framework("torch").difference(parameter, step.before[site.path])
        return parameter

    def _layout(self, layers: LayerTensors | None = None) -> Layout:
        if self._outputs is not None:
            return self._new_layout(layers)
        # Parameters seldom change but in their values, and working it out anew is slow.
        values = [n.value for n in self._named]
        form = tuple([(x.requires_grad, x.shape, x.dtype) for x in values])
        if self._known_layout is None or self._known_layout[0] != form:
            self._known_layout = form, self._new_layout(None)
        return self._known_layout[1]

    def _new_layout(self, layers: LayerTensors | None) -> Layout:
        learned = [None if n.value.requires_grad else ABSENT for n in self._named]
        by_kind: dict[Kind, list[Any]] = {
            Kind.WEIGHT: [n.value for n in self._named],
            Kind.GRADIENT: learned,
        }
        parameters = sum(n.value.numel() for n in self._named)
        if Kind.UPDATE in self._loop.timetable.affordable(parameters).kinds:
            by_kind[Kind.UPDATE] = learned
        given = given_of(self._named, by_kind, framework("torch"), self._group)
        if self._outputs is not None:
            given = given.beside(layers or LayerTensors(self._outputs.infos(self._group)))
        return self._loop.layouts.layout_of(given, self._group, None)

    def _watch_outputs(self, module: Any) -> LayerWatch | None:
        """What notes the outputs of submodules; None if they are not watched."""
        timetable, remark = self._loop.timetable, self._loop.remark
        if not timetable.is_asked_for_outputs:
            return None  # Hooks in the module are the user's to ask for.
        if hasattr(module, "_flatten_layers"):
            remark(
                "watch() does not record the outputs of the layers of a Keras model. Do so with "
                "monitor.outputs_of(model) and record(outputs=...)."
            )
            return None
        layers = TorchLayers(module, self._fault, remark, self._is_noting)
        return LayerWatch(layers, timetable, self._group)

    def _is_noting(self) -> bool:
        """Whether outputs are recorded on the step under way or, between steps, the next."""
        if not torch.is_grad_enabled():
            return False  # A pass for evaluation.
        # Under way are the forward passes of a closure.
        moment = self._moment or self._loop.progress(self._group).moment(None, None)
        return self._outputs_due(moment)

    def _outputs_due(self, moment: Moment) -> bool:
        timetable = self._loop.timetable
        due = zip(timetable.watches, timetable.summaries_due(moment), strict=True)
        return any(is_due and watch.kind.is_of_layer for watch, is_due in due)


def _owned(module: Any, optimizer: Any, remark: Callable[[str], None]) -> list[Named]:
    """The module's parameters that the optimizer holds."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    everything = variables_of(module).named
    named = [n for n in everything if id(n.value) in held]
    if not named:
        raise WrongValueError(
            f"The optimizer ({_type_of(optimizer)}) holds none of the parameters of the module "
            f"({_type_of(module)}). Make it from module.parameters(), after moving the module "
            "to its device."
        )
    if len(named) < len(held):
        remark(
            f"The optimizer holds {len(held) - len(named)} parameters that the watched module does "
            "not: they are not recorded. Watch the module that holds all of them."
        )
    return named


def _scale(optimizer: Any) -> Any:
    """What the gradients are still multiplied by, or None.

    `GradScaler.step` unscales them before it calls the optimizer, except for fused
    optimizers: to those it gives the scale, to divide by themselves.
    """
    return getattr(optimizer, "grad_scale", None)


def _in_order(positions: Sequence[list[int]], parts: Sequence[Any]) -> Any:
    """The rows of the parts, put together in the order of their positions."""
    flat = [i for each in positions for i in each]
    kept = [part[: len(each)] for each, part in zip(positions, parts, strict=True) if each]
    if not kept:
        return parts[0][:0]
    device = kept[0].device
    order = tuple(sorted(range(len(flat)), key=flat.__getitem__))
    return torch.cat([part.to(device) for part in kept])[_numbers_on(device, order)]


@lru_cache(maxsize=16)
def _numbers_on(device: Any, numbers: tuple[int, ...]) -> Any:
    # Kept, since bringing them to a GPU makes the training thread wait for it.
    return torch.tensor(numbers, device=device)


def _type_of(given: Any) -> str:
    return type(given).__name__
