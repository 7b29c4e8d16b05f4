"""Watching one training step from the inside, while it is traced or run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import keras

from gradwatch.capture.keras.backends import Eager
from gradwatch.capture.keras.optimizers import Gradients, find_optimizers, loss_scale, tapped
from gradwatch.capture.keras.output_watch import Measuring, OutputWatch, Row
from gradwatch.capture.keras.step_inputs import AroundStep
from gradwatch.capture.keras.taps.calls import listed
from gradwatch.capture.keras.variable_rows import VariableRows
from gradwatch.capture.keras.variables import current_values, fit_of, model_variables
from gradwatch.capture.readings import Layout
from gradwatch.capture.values import values_of
from gradwatch.core import Kind, Site
from gradwatch.measure import Framework
from gradwatch.watches import Plan


class Observation:
    """What happens to the watched tensors in a training step of a model.

    It runs inside the step: at tracing time where the step is compiled, at every
    measured step where it is not. Its own faults go to `fault` and never reach
    the step.

    Args:
        model: the Keras model.
        kinds: what is to be measured.
        plan_so_far: gives the plan if there is one already.
        make_plan: gives the plan; called once the model's variables exist.
        backend: the tensors' own framework, see `backends`.
        fault: told of an exception of ours.
        remark: told, in words, of what the user should know.
        remark_on_outputs: the same, of outputs of layers that cannot be recorded.
        mine: where several replicas run the step, tells whether the one that is running is
            the one to be watched, see `backends.replicas`.
    """

    def __init__(
        self,
        model: Any,
        kinds: Collection[Kind],
        plan_so_far: Callable[[], Plan | None],
        make_plan: Callable[[], Plan],
        backend: Any,
        fault: Callable[[Exception], None],
        remark: Callable[[str], None],
        remark_on_outputs: Callable[[str], None],
        mine: Callable[[], bool] | None = None,
    ) -> None:
        self._model = model
        self._mine = mine
        self._kinds = kinds
        self._plan_so_far = plan_so_far
        self._make_plan = make_plan
        self._backend = backend
        self._framework: Framework = backend.framework
        self.fault = fault
        self._remark = remark
        self._gradients = Gradients()
        self._reduced: Mapping[int, Any] | None = None
        self._known_optimizers: tuple[Any, list[Any]] | None = None
        self._known_coverage: tuple[Any, ...] | None = None
        self._known_rows: VariableRows | None = None
        self._can_be_eager = isinstance(backend, Eager)
        self._eager: Any = None
        self._outputs: OutputWatch | None = None
        if any(kind.is_of_layer for kind in kinds):
            self._outputs = OutputWatch(model, fault, remark_on_outputs, mine)
        self._around = AroundStep.of(model, kinds, backend, fault, mine)
        self._measure_rows = self._outputs.aside(self._measure) if self._outputs else self._measure
        self.unseen: frozenset[Site] = frozenset()
        """Sites that are recorded with count 0 since nobody saw their tensors, for which they
        may be anything."""
        self.layouts: list[Layout] = []
        """What the rows of a measurement are; `layout` in it says which of these holds."""

    @contextmanager
    def watching(self, data: Any = None) -> Iterator[None]:
        """Around the model's own train step on some data: notes what its optimizers are given."""
        plan = self._plan_so_far()
        self._begin(plan)
        with ExitStack() as stack:
            if self._around is not None:
                stack.enter_context(self._around.watching(data))
            if self._outputs is not None:
                measuring = None
                if plan is not None and self._eager is not None:
                    measuring = Measuring(
                        self._eager.add, plan.with_histogram, plan.with_values, self._is_scaled()
                    )
                sites = None if plan is None else plan.sites
                with_gradients = Kind.OUTPUT_GRADIENT in self._kinds
                stack.enter_context(self._outputs.watching(sites, with_gradients, measuring))
            rows = self._known_rows
            self._gradients = stack.enter_context(
                tapped(
                    self._optimizers(),
                    self.fault,
                    self._backend.scope,
                    self._backend.aside,
                    snapshots=self._snapshots if Kind.UPDATE in self._kinds else None,
                    # Replicas clip before they reduce: what is applied is what was reduced.
                    with_applied=Kind.APPLIED_GRADIENT in self._kinds and self._mine is None,
                    mine=self._mine,
                    updated=None if rows is None else rows.updated,
                    keep=rows.keeping(self._eager.add) if rows and self._eager else None,
                )
            )
            yield

    def _begin(self, plan: Plan | None) -> None:
        """Be ready for a step, and to measure its tensors as they arise if it runs eagerly."""
        self._eager = None
        if plan is None:
            self._known_rows = None
        elif self._known_rows is None or self._known_rows.plan is not plan:
            self._known_rows = VariableRows(plan, self._variables)
        if plan is not None and self._can_be_eager:
            self._eager = self._backend.eager_step(self._model, self._bytes)

    def _snapshots(self, values: Sequence[Any]) -> Sequence[Any]:
        if self._eager is not None:
            copies: Sequence[Any] = self._eager.snapshots(values)
            return copies
        return [self._framework.snapshot(value) for value in values]

    def give(self, data: Any) -> None:
        """The data of the step, where it is known only after `watching` has begun."""
        if self._around is not None:
            self._around.give(data)

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers that the model holds."""
        return self._optimizers()

    def rows_of_variables(self, plan: Plan, reduced: Mapping[int, Any]) -> list[Row]:
        """After the train step on several replicas: weights and all that is of their shape.

        Args:
            plan: what is measured.
            reduced: the gradients that the optimizers applied, by the variable's id.
        """
        self._reduced = reduced
        try:
            return self._rows_of_variables(plan, None)
        finally:
            self._reduced = None

    def own_gradients(self, sites: Sequence[Site]) -> list[Any]:
        """After the train step: the gradients at the sites as the step computed them."""
        found = []
        for site in sites:
            variable, columns = self._variables[site.path]
            x = self._gradients.computed.get(id(variable))
            found.append(x if x is None or columns is None else x[..., columns[0] : columns[1]])
        return found

    @property
    def variables(self) -> dict[str, tuple[Any, tuple[int, int] | None]]:
        """Each path's variable and, if the path is of a slice, its columns."""
        return self._variables

    def measure(self, histograms_due: Any, state: Any = None) -> dict[str, Any]:
        """After the train step: the summaries of the plan's sites, on the device.

        Args:
            histograms_due: a flag, of the framework or Python's own.
            state: on JAX, the training state after the step; elsewhere the
                variables themselves hold their values.

        Returns:
            `rows` and, where there are histograms, `cells`; with gradient
            accumulation also `updates`, which of the applied gradients exist; where it
            depends on the step what there is, `layout`: which of `layouts` the rows are.
            Empty if a fault of ours prevented it.
        """
        try:
            measured: dict[str, Any] = self._measure_rows(histograms_due, state)
            return measured
        finally:
            # Until the next step that is measured, they would be memory that training lacks.
            self._gradients, self._eager = Gradients(), None

    def _measure(self, histograms_due: Any, state: Any) -> dict[str, Any]:
        plan = self._make_plan()  # A selector that matches nothing is the user's to hear of.
        try:
            rows = self._rows(plan, state)
            try:
                return self._measured(plan, rows, histograms_due)
            except Exception as error:
                # Whatever is wrong with the others, the weights are there.
                self.unseen = frozenset(s for s in plan.sites if s.kind is not Kind.WEIGHT)
                self.fault(error)
                kept = [
                    row if row.site.kind is Kind.WEIGHT else row._replace(tensor=None)
                    for row in rows
                ]
                return self._measured(plan, kept, histograms_due, gradients_lost=True)
        except Exception as error:
            self.fault(error)
            return {}

    def _measured(
        self, plan: Plan, rows: list[Row], histograms_due: Any, gradients_lost: bool = False
    ) -> dict[str, Any]:
        with_cells = [at for at, row in enumerate(rows) if row.position in plan.with_histogram]
        every = [row.tensor for row in rows]
        own = self._framework
        result = {}
        if self._eager is not None:
            result["rows"], result["cells"] = self._eager.measure(every, with_cells)
        elif plan.with_histogram:
            result["rows"], result["cells"] = own.measure(every, with_cells, histograms_due)
        else:
            result["rows"] = own.measure(every)[0]
        if plan.with_values:
            tensors = {row.position: row.tensor for row in rows}
            result |= values_of(plan, tensors.__getitem__, self._framework.copy)
        layout = tuple((row.position, row.site) for row in rows)
        if layout not in self.layouts:
            self.layouts.append(layout)
        if self._outputs is not None or self._around is not None:
            result["layout"] = keras.ops.convert_to_tensor(self.layouts.index(layout), "int32")
        if self._gradients.updates and not gradients_lost:
            updates = self._gradients.updates
            by_path = self._variables
            flags = [
                site.kind is not Kind.APPLIED_GRADIENT
                or updates.get(id(by_path[site.path][0]), True)
                for site in plan.sites
            ]
            result["updates"] = keras.ops.stack(
                [keras.ops.convert_to_tensor(flag, "bool") for flag in flags]
            )
        return result

    def _rows(self, plan: Plan, state: Any) -> list[Row]:
        rows = [*self._rows_of_variables(plan, state), *self.rows_beside(plan, state)]
        return sorted(rows, key=lambda row: row.position)

    def rows_beside(self, plan: Plan, state: Any = None) -> list[Row]:
        """After the train step: what layers returned, and what surrounds the network."""
        rows: list[Row] = []
        if self._outputs is not None:
            rows += self._outputs.rows(plan.sites, self._unscaled)
        if self._around is not None:
            rows += self._around.rows(plan.sites, state)
        return rows

    def _rows_of_variables(self, plan: Plan, state: Any) -> list[Row]:
        self._remark_on_coverage(plan, self._variables)
        found = self._known_rows
        if found is None or found.plan is not plan:
            found = self._known_rows = VariableRows(plan, self._variables)
        if state is None:
            keys = map(id, found.valued)
            values = dict(zip(keys, current_values(found.valued), strict=True))
        else:
            values = self._values_in(state)
        changes = self._changes(found, values)
        return found.rows(values, self._gradients, changes, self._reduced)

    def _changes(self, found: VariableRows, values: Mapping[int, Any]) -> dict[int, Any]:
        """By how much the variables have changed whose updates are watched, by their ids."""
        before = {k: x for k, x in self._gradients.before.items() if k in found.updated}
        if self._eager is None:
            return {k: self._framework.difference(values[k], x) for k, x in before.items()}
        keys, keep = list(before), found.keeping(self._eager.add)
        changes: list[Any] = self._eager.changes(
            [values[key] for key in keys],
            list(before.values()),
            lambda i, change: keep(Kind.UPDATE, keys[i], change),
        )
        return dict(zip(keys, changes, strict=True))

    @cached_property
    def _bytes(self) -> int:
        """Of all variables of the model, which is on torch."""
        every = {id(variable): variable for variable, _ in self._variables.values()}
        return sum(x.numel() * x.element_size() for x in current_values(list(every.values())))

    def _is_scaled(self) -> bool:
        """Whether the gradients with respect to outputs are of a scaled loss."""
        return any(loss_scale(optimizer) is not None for optimizer in self._optimizers())

    def _unscaled(self, gradient: Any) -> Any:
        """A gradient of the loss itself, from one of the loss that the optimizer scaled."""
        optimizers = self._optimizers()
        if not self._is_scaled():
            return gradient
        if len(optimizers) > 1 or not self._gradients.scales:
            self._remark(
                "Gradients with respect to the outputs of layers are not recorded: it cannot be "
                "seen which loss scale they carry."
            )
            return None
        scale = self._gradients.scales[id(optimizers[0])]
        if type(gradient).__name__ == "IndexedSlices":
            gradient = keras.ops.convert_to_tensor(gradient)
        # Widened first: half a float's range is what the scaling was for.
        return keras.ops.divide(keras.ops.cast(gradient, "float32"), scale)

    def _optimizers(self) -> list[Any]:
        """Those that the model holds; looked for once a fit, as torch asks at every step."""
        fit = fit_of(self._model)
        if self._known_optimizers is None or self._known_optimizers[0] is not fit:
            self._known_optimizers = fit, find_optimizers(self._model)
        return self._known_optimizers[1]

    @cached_property
    def _variables(self) -> dict[str, tuple[Any, tuple[int, int] | None]]:
        """Each path's variable and, if the path is of a slice, its columns."""
        # Kept: torch asks at every measured step. A model that outgrows its plan gets
        # another observation.
        return {
            info.path: (each.variable, info.columns)
            for each in model_variables(self._model)
            for info in each.describe(Kind.WEIGHT)
        }

    def _values_in(self, state: Any) -> dict[int, Any]:
        """The variables' values in a JAX training state, by the variable's id."""
        trainable, non_trainable = state[0], state[1]
        return {
            id(variable): value
            for variables, tensors in (
                (self._model.trainable_variables, trainable),
                (self._model.non_trainable_variables, non_trainable),
            )
            for variable, value in zip(variables, tensors, strict=True)
        }

    def _remark_on_coverage(self, plan: Plan, variables: dict[str, tuple[Any, Any]]) -> None:
        applications, lost = self._gradients.applications, self._gradients.lost
        coverage = plan, applications, lost
        if coverage == self._known_coverage:
            return  # As at the step before; with hundreds of variables, looking takes long.
        self._known_coverage = coverage
        paths = dict.fromkeys(
            s.path for s in plan.sites if s.kind is not Kind.WEIGHT and s.kind.is_of_variable
        )
        never = [p for p in paths if id(variables[p][0]) not in applications]
        inside = [p for p in paths if id(variables[p][0]) in lost]
        often = [p for p in paths if applications.get(id(variables[p][0]), 0) > 1]
        gone = {*never, *inside}
        self.unseen = frozenset(
            s for s in plan.sites if s.path in gone and s.kind is not Kind.WEIGHT
        )
        if never:
            self._remark(
                "No optimizer that the model holds was given a gradient of "
                f"{listed(never)} in the training step, so none is recorded (count 0)."
            )
        if inside:
            self._remark(
                f"Gradients of {listed(inside)} are applied inside a loop or branch of the "
                "training step, out of which they cannot be carried. They are not recorded "
                "(count 0); the weights are."
            )
        elif often:
            self._remark(
                f"Gradients of {listed(often)} are applied more than once in a training step; "
                "the last one is recorded."
            )
