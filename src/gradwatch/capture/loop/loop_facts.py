"""The facts about the models of a loop."""

from collections.abc import Callable
from dataclasses import replace

from gradwatch.core import ModelFacts


class LoopFacts:
    """Collects the facts of each group of a loop; `tell` is called when they change."""

    def __init__(self, tell: Callable[[ModelFacts], None]) -> None:
        self._tell = tell
        self._describe: dict[str, Callable[[], ModelFacts]] = {}

    def add(self, group: str, describe: Callable[[], ModelFacts]) -> None:
        """Let a function describe what a group trains."""
        self._describe[group] = describe

    def all(self) -> ModelFacts:
        groups = {name: describe() for name, describe in self._describe.items()}
        return replace(groups.pop("", ModelFacts()), groups=groups)

    def changed(self) -> None:
        """Something is known that was not known before."""
        self._tell(self.all())
