"""Which variables' gradients a training step has shown, and notices about the others."""

from collections.abc import Callable
from typing import Any

from gradwatch.capture.keras.optimizers import Gradients
from gradwatch.capture.keras.variables import Variables
from gradwatch.core import Kind, Site
from gradwatch.util import Reporter, listed
from gradwatch.watches import Plan


class Coverage:
    """Looks which gradients were seen, again only where something has changed.

    Sites in `unseen` are recorded with count 0, as their tensors were not seen.
    """

    def __init__(self, reporter: Reporter) -> None:
        self.unseen: frozenset[Site] = frozenset()
        self._reporter = reporter
        self._known: tuple[Any, ...] | None = None

    def check(self, plan: Plan, variables: Variables, seen: Gradients) -> None:
        """Give notice of the gradients that cannot be recorded."""
        if seen.is_incomplete:
            self._lose(plan, lambda kind: kind.is_of_variable)
            return
        known = plan, seen.applications, seen.lost
        if known == self._known:
            return  # As at the step before; with hundreds of variables, looking takes long.
        self._known = known
        paths = dict.fromkeys(
            s.path for s in plan.sites if s.kind is not Kind.WEIGHT and s.kind.is_of_variable
        )
        times = {path: seen.applications.get(id(variables[path][0]), 0) for path in paths}
        never = [path for path, count in times.items() if count == 0]
        often = [path for path, count in times.items() if count > 1]
        inside = [path for path in paths if id(variables[path][0]) in seen.lost]
        gone = {*never, *inside}
        self.unseen = frozenset(
            s for s in plan.sites if s.path in gone and s.kind is not Kind.WEIGHT
        )
        if never:
            self._reporter.notice(
                "No optimizer that the model holds was given a gradient of "
                f"{listed(never)} in the training step, so none is recorded (count 0)."
            )
        if inside:
            self._reporter.notice(
                f"Gradients of {listed(inside)} are applied inside a loop or branch of the "
                "training step, out of which they cannot be carried. They are not recorded "
                "(count 0); the weights are."
            )
        elif often:
            self._reporter.notice(
                f"Gradients of {listed(often)} are applied more than once in a training step; "
                "the last one is recorded."
            )

    def lose_all(self, plan: Plan) -> None:
        """Nothing but the weights is measured at this step."""
        self._lose(plan, lambda kind: True)

    def _lose(self, plan: Plan, is_lost: Callable[[Kind], bool]) -> None:
        self._known = None
        self.unseen = frozenset(
            s for s in plan.sites if s.kind is not Kind.WEIGHT and is_lost(s.kind)
        )
