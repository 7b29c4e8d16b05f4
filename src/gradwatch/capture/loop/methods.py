"""What a monitor offers to hand-written loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.arguments import check_arguments, one_of
from gradwatch.capture.loop.autograph import as_it_is
from gradwatch.capture.loop.contexts import LoopContexts
from gradwatch.capture.loop.given import understand
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
from gradwatch.capture.loop.seen import require_own
from gradwatch.capture.loop.step_count import group_name, whole_number
from gradwatch.capture.loop.step_layout import check_loss


class LoopMethods(LoopContexts):
    """The part of `Monitor` that loops call."""

    @as_it_is
    def record(
        self,
        readings: Any = None,
        *,
        gradients: Any = None,
        variables: Any = None,
        parameters: Any = None,
        loss: Any = None,
        previous: Any = None,
        applied_gradients: Any = None,
        names: Any = None,
        outputs: Any = None,
        output_gradients: Any = None,
        inputs: Any = None,
        targets: Any = None,
        step: Any = None,
        epoch: Any = None,
        group: str | None = None,
        micro_batch: int | None = None,
        reduced: bool = False,
    ) -> None:
        """Record a step of a hand-written loop, if it is due; never waits for the device.

        Either what `measure` returned, or the tensors themselves. Only what the
        schedules ask for is kept; where nothing is due, next to nothing is done.

        Args:
            readings: what `measure` returned, from inside a compiled step.
            gradients: of the loss with respect to the variables, as a list in their
                order or as the same tree. A None in it is recorded with count 0.
                For torch parameters they are their `.grad` if not given.
            variables: a list, dict or tree of variables, or the model or module
                that holds them; names come from them. Their values are recorded as
                they are now: call this after the update for those after the step.
            parameters: another name for `variables`.
            loss: a scalar, recorded along with the rest.
            previous: the values of the variables before the step, from which
                `updates` are found.
            applied_gradients: the gradients that the update rule used, after your
                own clipping, say.
            names: names for variables that have none: strings, or named variables.
            outputs: what layers returned: tensors by name, or what `outputs_of` has
                seen, which holds the gradients with respect to them too.
            output_gradients: the gradients with respect to outputs, by name.
            inputs: what the step was given, and `targets` what it should answer: tensors,
                or dicts or lists of them. The diagnosis goes by them.
            targets: see `inputs`.
            step: its number; by default steps are counted from 1, for each group.
            epoch: its number; `"epoch"` schedules are due at the first record of
                each, and the console prints its table when it changes.
            group: in loops with several optimizers, which one: a name that the
                paths of all that is recorded here will begin with.
            micro_batch: the index of a part of the step's batch, if that is what the
                gradients are of: recorded under `micro_batch_0/...`. The step
                itself is the record without it, which comes last.
            reduced: inside of replicas of `tf.distribute`: whether the gradients are
                those of all replicas together, rather than the replica's own.

        Raises:
            TypeError, ValueError: the arguments do not fit together.
            RuntimeError: called inside a compiled function; see `measure`.

        Example:

        >>> import gradwatch, numpy as np, tempfile
        >>> monitor = gradwatch.Monitor(tempfile.mkdtemp(), every=1, sinks=[gradwatch.CSV()])
        >>> weights = {"layer": {"kernel": np.ones((2, 2))}}
        >>> slopes = {"layer": {"kernel": np.full((2, 2), 0.5)}}
        >>> monitor.record(gradients=slopes, variables=weights, loss=0.25)
        >>> monitor.close()
        >>> lines = (monitor.directory / "summaries.csv").read_text().splitlines()[1:]
        >>> [line.split(",")[3:5] for line in lines]
        [['weight', 'layer/kernel'], ['gradient', 'layer/kernel'], ['loss', 'loss']]
        """
        asked = {name: x for name, x in locals().items() if name != "self"}
        context = self._replica()
        if context is None:
            self._record(**asked)
        else:
            # Not through a door of ours: TensorFlow stops replicas by an exception.
            Together.on(self)(context, asked, self._record_together)

    @guarded()
    def _record_together(self, strategy: Any, every: Mapping[int, Asked]) -> None:
        record_step(self._loop(), strategy, every)

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
        """See `record`."""
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
        loop = self._loop()
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

    @as_it_is
    def measure(
        self,
        *,
        gradients: Any = None,
        parameters: Any = None,
        variables: Any = None,
        loss: Any = None,
        previous: Any = None,
        applied_gradients: Any = None,
        names: Any = None,
        outputs: Any = None,
        output_gradients: Any = None,
        group: str | None = None,
        micro_batch: int | None = None,
        histograms: Any = True,
        reduced: bool = False,
    ) -> dict[str, Any]:
        """Measure tensors, also inside `tf.function` and `jax.jit`; hand it to `record`.

        It is a pure function of the tensors, without a callback to the host: return
        what it gives from the compiled step, and call `record` with that outside.

        Args:
            gradients: as for `record`, and so the others that are not listed here.
            parameters: the variables, or the arrays of a pytree; their values are
                measured as they are at this point of the step.
            variables: another name for `parameters`.
            histograms: whether to count histograms, which cost more than summaries:
                a Python bool, or one that is computed in the step. `record` keeps
                them only where they are due.
            reduced: as for `record`.

        Returns:
            A dict of arrays; empty if a fault of ours prevented it.

        Raises:
            TypeError, ValueError: the arguments do not fit together.

        Example:

        >>> import gradwatch, jax, jax.numpy as jnp, tempfile
        >>> monitor = gradwatch.Monitor(tempfile.mkdtemp(), every=1, sinks=[gradwatch.CSV()])
        >>> @jax.jit
        ... def train_step(params, x):
        ...     loss, grads = jax.value_and_grad(lambda p: jnp.sum((x @ p["w"]) ** 2))(params)
        ...     params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        ...     return params, monitor.measure(gradients=grads, parameters=params, loss=loss)
        >>> params, readings = train_step({"w": jnp.ones(3)}, jnp.ones(3))
        >>> monitor.record(readings, step=1)
        >>> monitor.close()
        """
        asked = {name: x for name, x in locals().items() if name != "self"}
        context = self._replica()
        if context is None:
            return self._measure(**asked)
        result: dict[str, Any] = Together.on(self)(context, asked, self._measure_together)
        return result

    @guarded(dict)
    def _measure_together(self, strategy: Any, every: Mapping[int, Asked]) -> dict[str, Any]:
        histograms = next(iter(every.values()))["histograms"]
        return measured_together(self._loop(), strategy, every, histograms)

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
        """See `measure`."""
        variables = one_of(variables, parameters)
        if isinstance(gradients, Reduced):
            gradients = gradients.in_order_of(variables)
        name, part = group_name(group), whole_number("micro_batch", micro_batch)
        require_own(outputs, self._loop(), name)
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
        return self._loop().measure(given, name, part, loss, histograms)

    @guarded(bool)
    def due(
        self,
        step: Any = None,
        *,
        epoch: Any = None,
        group: str | None = None,
        histograms: bool = False,
    ) -> bool:
        """Whether a step will be recorded: to choose between two compiled steps.

        Args:
            step: its number; the next one if not given.
            epoch: its epoch, if the loop has any.
            group: the group, if the loop has any.
            histograms: ask for histograms only.

        Example:

        >>> import gradwatch, tempfile
        >>> monitor = gradwatch.Monitor(tempfile.mkdtemp(), watch=gradwatch.gradients(every=10))
        >>> [step for step in range(1, 31) if monitor.due(step)]
        [10, 20, 30]
        """
        progress = self._loop().progress(group_name(group))
        moment = progress.moment(whole_number("step", step), whole_number("epoch", epoch))
        return self._loop().is_due(moment, histograms=histograms)
