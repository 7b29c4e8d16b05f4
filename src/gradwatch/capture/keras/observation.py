"""Watching one training step from the inside, while it is traced or run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import keras

from gradwatch.capture.keras.optimizers import Gradients, find_optimizers, tapped
from gradwatch.capture.keras.variables import model_variables
from gradwatch.capture.plan import Plan
from gradwatch.sites import Kind, Site


class Observation:
    """What happens to the watched tensors in a training step of a model.

    It runs inside the step: at tracing time where the step is compiled, at every
    measured step where it is not. Its own faults go to `fault` and never reach
    the step.

    Args:
        model: the Keras model.
        kinds: what is to be measured.
        make_plan: gives the plan; called once the model's variables exist.
        backend: the tensors' own framework, see `backends`.
        fault: told of an exception of ours.
        remark: told, in words, of what the user should know.
    """

    def __init__(
        self,
        model: Any,
        kinds: Collection[Kind],
        make_plan: Callable[[], Plan],
        backend: Any,
        fault: Callable[[Exception], None],
        remark: Callable[[str], None],
    ) -> None:
        self._model = model
        self._kinds = kinds
        self._make_plan = make_plan
        self._backend = backend
        self._fault = fault
        self._remark = remark
        self._gradients = Gradients()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around the model's own train step: notes what its optimizers are given."""
        with tapped(
            find_optimizers(self._model),
            self._fault,
            snapshot=self._backend.snapshot if Kind.UPDATE in self._kinds else None,
            with_applied=Kind.APPLIED_GRADIENT in self._kinds,
        ) as seen:
            self._gradients = seen
            yield

    def measure(self, histograms_due: Any, state: Any = None) -> dict[str, Any]:
        """After the train step: the summaries of the plan's sites, on the device.

        Args:
            histograms_due: a flag, of the framework or Python's own.
            state: on JAX, the training state after the step; elsewhere the
                variables themselves hold their values.

        Returns:
            `rows` and, where there are histograms, `cells`; with gradient
            accumulation also `updates`, which of the applied gradients exist.
            Empty if a fault of ours prevented it.
        """
        plan = self._make_plan()  # A selector that matches nothing is the user's to hear of.
        try:
            tensors = self._tensors(plan, state)
            try:
                return self._measured(plan, tensors, histograms_due)
            except Exception as error:
                # A gradient applied inside a loop or branch of the user's own
                # train step cannot leave it. The weights still can.
                self._fault(error)
                kept = [
                    x if site.kind is Kind.WEIGHT else None
                    for site, x in zip(plan.sites, tensors, strict=True)
                ]
                return self._measured(plan, kept, histograms_due, gradients_lost=True)
        except Exception as error:
            self._fault(error)
            return {}

    def _measured(
        self, plan: Plan, tensors: list[Any], histograms_due: Any, gradients_lost: bool = False
    ) -> dict[str, Any]:
        result = {"rows": self._backend.summarize(tensors)}
        if plan.with_histogram:
            chosen = [tensors[i] for i in plan.with_histogram]
            result["cells"] = self._backend.count_cells(chosen, histograms_due)
        if self._gradients.updates and not gradients_lost:
            updates = self._gradients.updates
            by_path = _by_path(self._model)
            flags = [updates.get(id(by_path[site.path][0]), True) for site in plan.sites]
            result["updates"] = keras.ops.stack(
                [keras.ops.convert_to_tensor(flag, "bool") for flag in flags]
            )
        return result

    def _tensors(self, plan: Plan, state: Any) -> list[Any]:
        variables = _by_path(self._model)
        seen = self._gradients
        values = None if state is None else self._values_in(state)
        self._remark_on_coverage(plan, variables)

        def value(variable: Any) -> Any:
            return variable.value if values is None else values[id(variable)]

        def sliced(site: Site) -> Any:
            variable, columns = variables[site.path]
            x = tensor(site.kind, variable)
            return x if x is None or columns is None else x[..., columns[0] : columns[1]]

        def tensor(kind: Kind, variable: Any) -> Any:
            if kind is Kind.WEIGHT:
                return value(variable)
            if kind is Kind.GRADIENT:
                return seen.computed.get(id(variable))
            if kind is Kind.APPLIED_GRADIENT:
                return seen.applied.get(id(variable))
            before = seen.before.get(id(variable))
            return None if before is None else self._backend.difference(value(variable), before)

        return [sliced(site) for site in plan.sites]

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
        applications = self._gradients.applications
        paths = dict.fromkeys(s.path for s in plan.sites if s.kind is not Kind.WEIGHT)
        never = [p for p in paths if id(variables[p][0]) not in applications]
        often = [p for p in paths if applications.get(id(variables[p][0]), 0) > 1]
        if never:
            self._remark(
                "No optimizer that the model holds was given a gradient of "
                f"{_listed(never)} in the training step, so none is recorded (count 0)."
            )
        if often:
            self._remark(
                f"Gradients of {_listed(often)} are applied more than once in a training step; "
                "the last one is recorded."
            )


def _by_path(model: Any) -> dict[str, tuple[Any, tuple[int, int] | None]]:
    """Each path's variable and, if the path is of a slice, its columns."""
    return {
        info.path: (each.variable, info.columns)
        for each in model_variables(model)
        for info in each.describe(Kind.WEIGHT)
    }


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
