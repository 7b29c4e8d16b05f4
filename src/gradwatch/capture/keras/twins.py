"""Keeps a measured twin with the train function that it is a twin of, for the next monitor.

It is an attribute of the function that Keras made: `compile()` makes Keras drop that function, and
the twin with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from gradwatch.capture.keras.backends import KerasBackend
from gradwatch.capture.keras.step_request import Observer
from gradwatch.capture.site_table import SiteTables
from gradwatch.core import Kind
from gradwatch.watches import Plan

_NAME = "_gradwatch_twin"


@dataclass
class Twin:
    """A measured train function, and what its measurements mean."""

    plan: Plan
    kinds: Collection[Kind]
    observation: Any
    """It was made from this, and is traced for other batches with this."""
    backend: KerasBackend
    """On TensorFlow it reads a variable of this."""
    compiled: Any
    tables: SiteTables
    owner: object
    """Whose it is: there is one at a time, because it notes the tensors of one step."""

    def is_for(self, plan: Plan, kinds: Collection[Kind]) -> bool:
        """Whether a step that is measured by this plan is the same."""
        return set(self.kinds) == set(kinds) and all(
            getattr(self.plan, name) == getattr(plan, name)
            for name in ("sites", "with_histogram", "with_values", "per_replica")
        )


class TwinPlace:
    """Where one monitor takes a twin of a train function from, by name, and leaves it."""

    def __init__(self, function: Any, name: str) -> None:
        self._function = function
        self._name = f"{_NAME}_{name}"
        self._twin: Twin | None = None

    def take(self, plan: Plan | None, kinds: Collection[Kind]) -> Twin | None:
        """The twin that was left, if it is the one that is needed."""
        twin: Twin | None = getattr(self._function, "__dict__", {}).get(self._name)
        if twin is not None and plan is not None and twin.is_for(plan, kinds):
            del vars(self._function)[self._name]
            twin.owner, self._twin = self, twin
        return self._twin

    def take_back(self) -> bool:
        """Whether the twin that was left here is still this monitor's; it is again."""
        if self._twin is None:
            return True
        if self._twin.owner is not self:
            return False
        if vars(self._function).get(self._name) is self._twin:
            del vars(self._function)[self._name]
        return True

    def leave(
        self,
        plan: Plan | None,
        kinds: Collection[Kind],
        observer: Observer,
        compiled: Any,
        tables: SiteTables,
    ) -> None:
        """Leave the twin, the same as was taken or one made of these, for whoever is next."""
        is_kept = not observer.backend.holds_random_state
        if self._twin is None and plan is not None and compiled is not None and is_kept:
            given = observer.observation, observer.backend, compiled
            self._twin = Twin(plan, kinds, *given, tables, self)
        if self._twin is not None and hasattr(self._function, "__dict__"):
            vars(self._function)[self._name] = self._twin

    def forget(self) -> None:
        """The twin is of no use any more."""
        self._twin = None
