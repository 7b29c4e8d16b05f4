"""The facts about the models of a loop."""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any

from gradwatch.core import ModelFacts


class LoopFacts:
    """Collects the facts of each group of a loop; `tell` is called when they change."""

    def __init__(self, tell: Callable[[ModelFacts], None]) -> None:
        self._tell = tell
        self._describe: dict[str, Callable[[], ModelFacts]] = {}
        self._modules: dict[str, Any] = {}

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._describe)

    def add(self, group: str, describe: Callable[[], ModelFacts], module: Any = None) -> None:
        """Let a function describe what a group trains, a torch module for example."""
        self._describe[group] = describe
        self._modules[group] = module

    def groups_with(self, parameters: Container[int]) -> list[str]:
        """The groups whose modules have any of these parameters, given by their ids."""
        return [
            group
            for group, module in self._modules.items()
            if module is not None and any(id(p) in parameters for p in module.parameters())
        ]

    def all(self) -> ModelFacts:
        groups = {name: describe() for name, describe in self._describe.items()}
        groups = {name: _with_judged(name, groups) for name in groups}
        return replace(groups.pop("", ModelFacts()), groups=groups)

    def changed(self) -> None:
        """Something is known that was not known before."""
        self._tell(self.all())


def _with_judged(name: str, groups: Mapping[str, ModelFacts]) -> ModelFacts:
    """The facts of a group, and which others learn through it alone."""
    own = groups[name]
    judged = [
        other
        for other, facts in groups.items()
        if name in facts.loss.through and other not in own.loss.through
    ]
    return replace(own, loss=replace(own.loss, judges=judged)) if judged else own
