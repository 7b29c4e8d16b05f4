"""The rows of a measured step that are of variables: weights and tensors of their shape."""

from collections.abc import Callable, Mapping
from typing import Any

from gradwatch.capture.keras.optimizers import Gradients, Keep
from gradwatch.capture.site_table import Row
from gradwatch.capture.state import EVERY_KIND
from gradwatch.core import Kind, Site, Tensor
from gradwatch.watches import DERIVED_KINDS, Plan

Columns = tuple[int, int] | None


class VariableRows:
    """Finds the tensors of a plan's variables in a step.

    All that is the same at every step is computed once: torch asks at each measured step.
    """

    def __init__(self, plan: Plan, variables: Mapping[str, tuple[Any, Columns]]) -> None:
        self.plan = plan
        self._entries: list[tuple[int, Site, Kind, int, Columns]] = []
        self._wanted: dict[tuple[Kind, int], list[tuple[int, Columns]]] = {}
        needed: dict[int, Any] = {}
        for position, site in enumerate(plan.sites):
            if site.kind.owner == "variable":
                variable, columns = variables[site.path]
                key = id(variable)
                self._entries.append((position, site, site.kind, key, columns))
                self._wanted.setdefault((site.kind, key), []).append((position, columns))
                if site.kind in (Kind.WEIGHT, Kind.UPDATE):
                    needed[key] = variable
        self.valued = list(needed.values())
        """The variables whose values are needed."""
        self.updated = frozenset(key for kind, key in self._wanted if kind is Kind.UPDATE)
        """Ids of those whose values before the step are needed, too."""
        self.changing = [variable for key, variable in needed.items() if key in self.updated]
        """The variables with these ids."""
        self._normalized = {key for kind, key in self._wanted if kind in DERIVED_KINDS}

    def rows(
        self,
        values: Mapping[int, Any],
        seen: Gradients,
        changes: Mapping[int, Any],
        reduced: Mapping[int, Any] | None,
        state: Callable[[Kind, int, Tensor], Any],
    ) -> list[Row]:
        """The rows, in the plan's order, from mappings by the variable's id.

        The values are those after the step. On several replicas, `reduced` has the gradients that
        were applied, which stand for all of theirs. `state` gives what is measured of an
        optimizer's state, from a kind, a variable's id and the gradient that was applied.
        """
        by_kind: dict[Kind, Mapping[int, Any]] = {
            Kind.UPDATE: changes,
            Kind.GRADIENT: seen.computed if reduced is None else reduced,
            Kind.APPLIED_GRADIENT: seen.applied if reduced is None else reduced,
        }
        rows = []
        for position, site, kind, key, columns in self._entries:
            if kind in EVERY_KIND:
                x = state(kind, key, by_kind[Kind.APPLIED_GRADIENT].get(key))
                rows.append(Row(position, site, x))
                continue
            x = values[key] if kind is Kind.WEIGHT else by_kind[kind].get(key)
            if type(x) is dict:  # Measured already, see `keeping`.
                x = x[columns]
            elif columns is not None and x is not None:
                x = x[..., columns[0] : columns[1]]
            rows.append(Row(position, site, x))
        return rows

    def keeping(self, add: Callable[[Any, bool], Any]) -> Keep:
        """A function that measures tensors at once by `add`, see `EagerMeasuring`, for `rows`."""
        plan = self.plan

        def keep(kind: Kind, key: int, tensor: Any) -> Any:
            wanted = self._wanted.get((kind, key), [])
            if tensor is None or any(position in plan.with_values for position, _ in wanted):
                return tensor
            if kind is Kind.APPLIED_GRADIENT and key in self._normalized:
                return tensor  # It is needed itself.
            return {
                columns: add(
                    tensor if columns is None else tensor[..., columns[0] : columns[1]],
                    position in plan.with_histogram,
                )
                for position, columns in wanted
            }

        return keep
