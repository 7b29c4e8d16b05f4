"""A link of an `optax.chain` that measures what passes through it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.loop.optax_states import LinkState, halved
from gradwatch.capture.loop.step_arguments import StepArguments
from gradwatch.capture.meaning import LINKED
from gradwatch.capture.step_tensors import StepTensors
from gradwatch.core import Kind, Site, Tensor, Tree
from gradwatch.watches.budget import START, floor_steps, is_evenly_spread


class OptaxLink:
    """Measures gradients before transformations, updates after them, and weights before the step.

    The summaries of the last measured step are part of the optimizer's state, so that a compiled
    step returns them without a callback. They are computed in a branch that only the steps take
    that are due: multiples of the intervals that are asked for, or under a budget the same steps
    everywhere. With any other schedule, all steps are measured, and `record` keeps those due.
    """

    def __init__(
        self,
        loop: LoopCapture,
        group: str,
        transformations: Sequence[optax.GradientTransformation],
        clipping: optax.GradientTransformation | None,
    ) -> None:
        self._loop, self._reporter, self._group = loop, loop.reporter, group
        self._clipping = optax.with_extra_args_support(clipping or optax.identity())
        self._is_clipped = clipping is not None
        self._changes = bool(transformations)
        self._inner = optax.with_extra_args_support(optax.chain(optax.identity(), *transformations))
        loop.means(LINKED)
        loop.progress(group).is_linked = True
        if loop.pace is not None:
            # A compiled step cannot follow the clock.
            loop.follow(is_evenly_spread)

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        return optax.GradientTransformationExtraArgs(self._init, self._update)

    def _init(self, params: Tree) -> LinkState:
        inner = (self._clipping.init(params), self._inner.init(params))
        measured = self._empty(params)
        return LinkState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), measured, inner)

    def _update(
        self, updates: Tree, state: LinkState, params: Tree = None, **extra: Any
    ) -> tuple[Tree, LinkState]:
        of_clipping, of_inner = state.inner
        clipped, of_clipping = self._clipping.update(updates, of_clipping, params, **extra)
        after, of_inner = self._inner.update(clipped, of_inner, params, **extra)
        step = state.step + 1
        known = self._measured(updates, clipped, after, params, step, state)
        at, measured = (state.at, state.measured) if known is None else known
        return after, LinkState(step, at, measured, (of_clipping, of_inner))

    @guarded("preparing to measure what an optimizer does", "its steps", dict)
    def _empty(self, params: Tree) -> dict[str, dict[str, Tensor]]:
        def measured(tree: Tree) -> dict[str, Tensor]:
            # An optimizer may know the parameters only when it is called.
            return self._measure(self._tensors(tree, tree, tree, tree))

        shapes = jax.eval_shape(measured, params)
        return {self._group: {n: jnp.zeros(x.shape, x.dtype) for n, x in shapes.items()}}

    @guarded("measuring what an optimizer does", "that step")
    def _measured(
        self, before: Tree, clipped: Tree, after: Tree, params: Tree, step: Tensor, state: LinkState
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]]] | None:
        """The step of the last measurement, and that measurement."""
        tensors = self._tensors(before, clipped, after, params)
        last = state.measured[self._group]
        is_due = self._is_due(step)

        def now() -> dict[str, Tensor]:
            return self._measure(tensors)

        # A branch that differs would be refused when the step is compiled, as an error of training.
        shapes = jax.eval_shape(now)
        if {n: (x.shape, x.dtype) for n, x in shapes.items()} != {
            n: (x.shape, x.dtype) for n, x in last.items()
        }:
            self._reporter.notice(
                "The parameters that an optimizer updates are not those that its state was made "
                "for, so its steps are not recorded. Give optimizer.update() the parameters too: "
                "update(gradients, state, params)."
            )
            return None
        measured = jax.lax.cond(is_due, now, lambda: dict(last))
        return jnp.where(is_due, step, state.at), {self._group: measured}

    def _measure(self, tensors: StepTensors) -> dict[str, Tensor]:
        return halved(self._loop.measure(tensors, self._group, None, None, True))

    def _tensors(self, before: Tree, clipped: Tree, after: Tree, params: Tree) -> StepTensors:
        group = self._group or None
        applied = clipped if self._is_clipped else None
        call = StepArguments(
            gradients=before, variables=params, applied_gradients=applied, group=group
        )
        tensors = call.parse()
        if not self._changes:
            return tensors
        updates = StepArguments(gradients=after, variables=params, group=group).parse()
        return tensors + _as_updates(updates.of_kind(Kind.GRADIENT))

    def _is_due(self, step: Tensor) -> Tensor:
        """Whether a step is measured, as the compiled step decides it."""
        if self._loop.pace is not None:
            bounds, intervals = (
                jnp.asarray(x, jnp.int32) for x in zip(*floor_steps(), strict=True)
            )
            interval = intervals[jnp.searchsorted(bounds, step)]
            return (step % START == 0) | (step % interval == 0)
        periods = self._loop.timetable.periods
        if periods is None:
            return jnp.asarray(True)
        return jnp.any(step % np.array(sorted(periods), np.int32) == 0)


def _as_updates(gradients: StepTensors) -> StepTensors:
    def renamed(site: Site) -> Site:
        return Site(Kind.UPDATE, site.path)

    infos = [replace(info, site=renamed(info.site)) for info in gradients.infos]
    tensors = {
        renamed(site): [each._replace(site=renamed(each.site)) for each in several]
        for site, several in gradients.tensors.items()
    }
    return StepTensors(infos, tensors)
