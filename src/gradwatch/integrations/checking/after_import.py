"""Doing something as soon as a module has been imported, whoever imports it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[Any], None]


@contextmanager
def after_import(actions: Mapping[str, Action]) -> Iterator[None]:
    """While the context lasts, call an action with each of these modules once it is there.

    A script may choose its framework's settings before it imports it, so it must not be
    imported for it.

    Args:
        actions: by the module's name; at once for those that are imported already.

    Example:

    >>> import sys
    >>> from gradwatch.integrations.checking.after_import import after_import
    >>> _ = sys.modules.pop("this", None); _ = sys.modules.pop("colorsys", None)
    >>> with after_import({"colorsys": lambda module: print(module.__name__)}):
    ...     import colorsys
    colorsys
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
        action = self.actions.pop(name, None)
        if action is None:
            return None
        # Not asked again: it is not among the actions any more.
        spec = importlib.util.find_spec(name)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action(module)

        loader.exec_module = exec_module
        return spec
