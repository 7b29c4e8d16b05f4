"""Calls a function as soon as a module has been imported."""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[Any], object]


@contextmanager
def after_import(actions: Mapping[str, Action]) -> Iterator[None]:
    """While the context lasts, call an action with each of these modules once it is imported.

    If a module is already imported, its action is called at once. Others are not imported here: a
    script may configure its framework before importing it.
    """
    finder = _Finder(dict(actions))
    for name in [name for name in actions if name in sys.modules]:
        finder.actions.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    def __init__(self, actions: dict[str, Action]) -> None:
        self.actions = actions

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Popped, so that the search below does not come back here.
        action = self.actions.pop(name, None)
        spec = None if action is None else importlib.util.find_spec(name)
        if action is None or spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action(module)

        loader.exec_module = exec_module
        return spec
