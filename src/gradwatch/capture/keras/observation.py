"""Watches one training step from the inside, while it is traced or run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from typing import Any

import keras

from gradwatch.capture.keras.assignments import assignment_taps
from gradwatch.capture.keras.attributes import replaced
from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.coverage import Coverage
from gradwatch.capture.keras.fit_plan import FitPlan
from gradwatch.capture.keras.keras_moments import KerasState
from gradwatch.capture.keras.optimizers import Gradients, find_optimizers, loss_scale, tapped
from gradwatch.capture.keras.output_watch import EagerMeasuring, OutputWatch
from gradwatch.capture.keras.step_inputs import StepInputs, are_step_inputs_seen
from gradwatch.capture.keras.variable_rows import VariableRows
from gradwatch.capture.keras.variables import Variables, current_values, fit_of, variables_by_path
from gradwatch.capture.recorder import Recorder
from gradwatch.capture.site_table import Row, SiteTable
from gradwatch.capture.user_taps import REPLICATED, SCALED, STATE, TapCollector, TapRows
from gradwatch.core import KerasModel, KerasOptimizer, Kind, Site, Tensor
from gradwatch.watches import DERIVED_KINDS, Plan


class Observation:
    """Finds and measures the watched tensors in a training step of a model.

    It runs inside the step, or one replica's: at tracing time where the step is compiled, at every
    measured step where it is not. Internal errors never reach the step.
    """

    def __init__(
        self, model: KerasModel, plan: FitPlan, backend: KerasBackend, recorder: Recorder
    ) -> None:
        self.reporter = recorder.reporter
        self.coverage = Coverage(self.reporter)
        self._model = model
        self.plan = plan
        self._backend = backend
        self._recorder = recorder
        self.framework = backend.framework
        self._kinds = kinds = plan.timetable.kinds
        self._gradients = Gradients()
        self._known_optimizers: tuple[Any, list[KerasOptimizer]] | None = None
        self._known_rows: VariableRows | None = None
        self._eager: Any = None
        self._outputs: OutputWatch | None = None
        if any(kind.is_of_layer for kind in kinds):
            is_quiet = not plan.timetable.is_asked_for_outputs
            replica = backend.is_watched_replica
            self._outputs = OutputWatch(model, self.reporter, replica, is_quiet)
        self._inputs: StepInputs | None = None
        if are_step_inputs_seen(model, kinds):
            self._inputs = StepInputs(model, kinds, backend, self.reporter)
        self._taps = TapCollector()
        self._measure_rows = self._outputs.aside(self._measure) if self._outputs else self._measure

    @contextmanager
    def watching(self, data: Any = None, state: Any = None) -> Iterator[None]:
        """Goes around the model's own train step on some data; on JAX, from a training state."""
        plan = self.plan.current
        self._begin(plan)
        with ExitStack() as stack:
            # Each by itself: an object of the user that raises when it is read costs no more
            # than what it is read for.
            with self._guard_beginning("the data and the loss", "inputs, targets and numbers"):
                if self._inputs is not None:
                    stack.enter_context(self._inputs.watching(data))
            with self._guard_beginning("taps", "taps"):
                why = REPLICATED if self._backend.is_replicated else None
                self._taps = TapCollector(why)
                stack.enter_context(STATE.collecting(self._taps))
            with self._guard_beginning("outputs of layers", "outputs"):
                if self._outputs is not None:
                    stack.enter_context(self._watching_outputs(self._outputs, plan))
            with self._guard_beginning("optimizers", "gradients and updates"):
                self._gradients = stack.enter_context(self._tapped_optimizers(state))
                if self._known_rows is not None and self._eager is not None:
                    changing = self._known_rows.changing
                    taps = assignment_taps(changing, self._copy_before, self.reporter)
                    stack.enter_context(replaced(taps))
            yield

    def _guard_beginning(self, what: str, lost: str) -> AbstractContextManager[None]:
        return self.reporter.guard(f"beginning to watch {what} in a step", f"{lost} of that step")

    def _watching_outputs(
        self, outputs: OutputWatch, plan: Plan | None
    ) -> AbstractContextManager[None]:
        measuring = None
        if plan is not None and self._eager is not None:
            measuring = EagerMeasuring(
                self._eager.add, plan.with_histogram, plan.with_values, self._is_scaled()
            )
        sites = None if plan is None else plan.sites
        return outputs.watching(sites, Kind.OUTPUT_GRADIENT in self._kinds, measuring)

    def _tapped_optimizers(self, state: Any) -> AbstractContextManager[Gradients]:
        rows, with_updates = self._known_rows, Kind.UPDATE in self._kinds
        before: dict[int, Tensor] = {}
        with self._guard_beginning("variables", "perhaps updates"):
            if with_updates:
                before = self._values_before(state)
        return tapped(
            self.optimizers,
            self._backend,
            self.reporter,
            snapshots=self._snapshots if with_updates else None,
            # Replicas clip before they reduce: the reduced gradient is the applied one.
            with_applied=bool(self._kinds & {Kind.APPLIED_GRADIENT, Kind.FIRST_MOMENT})
            and not self._backend.is_replicated,
            updated=None if rows is None else rows.updated,
            keep=rows.keeping(self._eager.add) if rows and self._eager else None,
            before=before,
        )

    def _begin(self, plan: Plan | None) -> None:
        """Be ready for a step, and to measure its tensors as they arise if it runs eagerly."""
        self._eager = None
        if plan is None:
            self._known_rows = None
        else:
            self._rows_in(plan)
            self._eager = self._backend.eager_step(self._model, lambda: self._bytes)

    def _values_before(self, state: Any) -> dict[int, Tensor]:
        """The values of the variables whose updates are watched, as the step begins.

        Not where it runs eagerly: copies would take memory throughout the step. There, a value is
        copied right before it changes.
        """
        if self._eager is not None or not self._backend.is_watched_replica():
            return {}
        rows = self._known_rows
        variables = [
            variable
            for variable in self._model.trainable_variables
            if rows is None or id(variable) in rows.updated
        ]
        if state is not None:
            values = self._values_in(state)
            return {id(variable): values[id(variable)] for variable in variables}
        with self._backend.aside():
            copies = self._snapshots(current_values(variables))
        return dict(zip(map(id, variables), copies, strict=True))

    def _copy_before(self, variable: Any) -> None:
        """Note the value of a variable that is about to be assigned for the first time."""
        before = self._gradients.before
        if id(variable) not in before:
            (before[id(variable)],) = self._snapshots(current_values([variable]))

    def _snapshots(self, values: Sequence[Tensor]) -> Sequence[Tensor]:
        if self._eager is not None:
            copies: Sequence[Tensor] = self._eager.snapshots(values)
            return copies
        return [self.framework.snapshot(value) for value in values]

    def give(self, data: Any) -> None:
        """Take the data of the step, where it is known only after `watching` has begun."""
        if self._inputs is not None:
            self._inputs.give(data)

    def own_gradients(self, sites: Sequence[Site]) -> list[Tensor]:
        """After the train step: the gradients at the sites as the step computed them."""
        found = []
        for site in sites:
            variable, columns = self.variables[site.path]
            x = self._gradients.computed.get(id(variable))
            found.append(x if x is None or columns is None else x[..., columns[0] : columns[1]])
        return found

    def note_logs(self, logs: Any) -> None:
        """After the train step, before `measure`: what it returns."""
        if self._inputs is not None:
            with self.reporter.guard("reading the logs of a step", "its loss"):
                self._inputs.give_logs(logs)

    def measure(self, histograms_due: Any, state: Any = None) -> dict[str, Any]:
        """After the train step: the summaries of the plan's sites, on the device.

        The result is that of `Recorder.measure`; with gradient accumulation also `updates`, which
        of the applied gradients exist. It is empty after an internal error. On JAX, `state` is the
        training state after the step; elsewhere the variables themselves hold their values.
        """
        try:
            measured: dict[str, Any] = self._measure_rows(histograms_due, state)
            return measured
        finally:
            # Until the next measured step, they would be memory that training lacks.
            self._gradients, self._eager = Gradients(), None

    def _measure(self, histograms_due: Any, state: Any) -> dict[str, Any]:
        plan = self.plan.require()  # A selector that matches nothing is raised to the user.
        try:
            rows = [*self.rows_of_variables(plan, state=state), *self.other_rows(plan, state)]
            rows.sort(key=lambda row: row.position)
            try:
                return self._measured(plan, rows, histograms_due) | self._updates(plan)
            except Exception as error:
                # Whatever is wrong with the others, the weights are there.
                self.coverage.lose_all(plan)
                self.reporter.internal_error(
                    error, "measuring a step", "all of that step but its weights"
                )
                kept = [
                    row if row.site.kind is Kind.WEIGHT else row._replace(tensor=None)
                    for row in rows
                ]
                return self._measured(plan, kept, histograms_due)
        except Exception as error:
            self.reporter.internal_error(error, "measuring a step", "that step")
            return {}

    def _measured(self, plan: Plan, rows: list[Row], histograms_due: Any) -> dict[str, Any]:
        table, own = self.table(plan, rows), self.framework
        measured = self._recorder.measure(own, table, rows, histograms_due, self._eager)
        return measured | self.tap_arrays(self._taps.take)

    def tap_arrays(self, take: Callable[[], TapRows]) -> dict[str, Any]:
        """What has passed taps in the step, as further arrays of its measurement."""
        arrays: dict[str, Any] = {}
        with self.reporter.guard("measuring what has passed taps", "taps of that step"):
            taps = take()
            if taps.parts and self._is_scaled():
                self.reporter.notice(SCALED)
            layers = self.plan.require().layer_paths
            arrays |= self._recorder.tap_arrays(self._backend.framework, taps, layers=layers)
        return arrays

    def table(self, plan: Plan, rows: Sequence[Row]) -> SiteTable:
        return self._recorder.tables.table(plan, [(row.position, row.site) for row in rows])

    def _updates(self, plan: Plan) -> dict[str, Any]:
        """Which sites exist in the step, if some may not."""
        updates = self._gradients.updates
        if not updates:
            return {}
        flags = [
            site.kind not in (Kind.APPLIED_GRADIENT, *DERIVED_KINDS)
            or updates.get(id(self.variables[site.path][0]), True)
            for site in plan.sites
        ]
        tensors = [keras.ops.convert_to_tensor(flag, "bool") for flag in flags]
        return {"updates": keras.ops.stack(tensors)}

    def other_rows(self, plan: Plan, state: Any = None) -> list[Row]:
        """After the train step: outputs of layers, and what surrounds the network."""
        rows: list[Row] = []
        if self._outputs is not None:
            rows += self._outputs.rows(self.framework, plan.sites, self._unscaled)
        if self._inputs is not None:
            rows += self._inputs.rows(plan.sites, state)
        return rows

    def rows_of_variables(
        self, plan: Plan, reduced: Mapping[int, Tensor] | None = None, state: Any = None
    ) -> list[Row]:
        """After the train step: weights and all tensors of their shape.

        On several replicas, `reduced` has the gradients that were applied, by the variable's id.
        """
        self.coverage.check(plan, self.variables, self._gradients)
        found = self._rows_in(plan)
        if state is None:
            keys = map(id, found.valued)
            values = dict(zip(keys, current_values(found.valued), strict=True))
        else:
            values = self._values_in(state)
        tensor = self._state.reader(self.framework, self._eager, state)
        return found.rows(values, self._gradients, self._changes(found, values), reduced, tensor)

    def _rows_in(self, plan: Plan) -> VariableRows:
        if self._known_rows is None or self._known_rows.plan is not plan:
            self._known_rows = VariableRows(plan, self.variables)
        return self._known_rows

    def _changes(self, found: VariableRows, values: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """The changes of the variables whose updates are watched, by their ids."""
        # Of a variable that no optimizer was given a gradient of, there is no update.
        seen = self._gradients
        wanted = (found.updated & seen.applications.keys()) - seen.lost
        before = {k: x for k, x in seen.before.items() if k in wanted}
        if self._eager is None:
            return {k: self.framework.difference(values[k], x) for k, x in before.items()}
        keys, keep = list(before), found.keeping(self._eager.add)
        changes: list[Tensor] = self._eager.changes(
            [values[key] for key in keys],
            list(before.values()),
            lambda i, change: keep(Kind.UPDATE, keys[i], change),
        )
        return dict(zip(keys, changes, strict=True))

    @cached_property
    def _bytes(self) -> int:
        """Of all variables of the model, which is on torch."""
        every = {id(variable): variable for variable, _ in self.variables.values()}
        return sum(x.numel() * x.element_size() for x in current_values(list(every.values())))

    def _is_scaled(self) -> bool:
        """Whether the gradients with respect to outputs are of a scaled loss."""
        return any(loss_scale(optimizer) is not None for optimizer in self.optimizers)

    def _unscaled(self, gradient: Tensor) -> Tensor:
        """A gradient of the loss itself, from one of the loss that the optimizer scaled."""
        if not self._is_scaled():
            return gradient
        if len(self.optimizers) > 1 or not self._gradients.scales:
            self.reporter.notice(
                "Gradients with respect to the outputs of layers are not recorded: it cannot be "
                "seen which loss scale they carry."
            )
            return None
        scale = self._gradients.scales[id(self.optimizers[0])]
        if type(gradient).__name__ == "IndexedSlices":
            gradient = keras.ops.convert_to_tensor(gradient)
        # Widened first: half a float's range is what the scaling was for.
        return keras.ops.divide(keras.ops.cast(gradient, "float32"), scale)

    @property
    def optimizers(self) -> list[KerasOptimizer]:
        """Those that the model holds; looked for once a fit, as torch asks at every step."""
        fit = fit_of(self._model)
        if self._known_optimizers is None or self._known_optimizers[0] is not fit:
            self._known_optimizers = fit, find_optimizers(self._model)
        return self._known_optimizers[1]

    @cached_property
    def _state(self) -> KerasState:
        return KerasState.of_model(self._model)

    @cached_property
    def variables(self) -> Variables:
        # Kept: torch asks at every measured step. A model that outgrows its plan gets
        # another observation.
        return variables_by_path(self._model)

    def _values_in(self, state: Any) -> dict[int, Tensor]:
        """The variables' values in a JAX training state, by the variable's id."""
        variables = [*self._model.trainable_variables, *self._model.non_trainable_variables]
        return dict(zip(map(id, variables), [*state[0], *state[1]], strict=True))
