"""Tells of the calls of all modules in a module, in the steps that are looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from gradwatch.capture.torch.replaced_functions import hook_calls

Begin = Callable[[str], None]
End = Callable[[str, Any], None]


class RunningModules:
    """Calls `begin` with the path of each module that begins, `end` also with what it returned.

    `modules` are all modules of `root` by their paths; it has the path "" itself, unless it is one
    of them. Only the outermost modules have hooks, until one of them is called in a step for which
    `is_on()` says so: then all have, until it returns. `guard()` goes around all that is done.
    `interrupted` is called once it is clear that a call was, and calls `abandon`.
    """

    def __init__(
        self,
        is_on: Callable[[], bool],
        begin: Begin,
        end: End,
        guard: Callable[[], Any],
        interrupted: Callable[[], None] | None = None,
    ) -> None:
        self._is_on, self._guard = is_on, guard
        self._interrupted = interrupted or self.abandon
        self._begin, self._end = begin, end
        self._modules: Mapping[str, Any] = {}
        self._inside: tuple[str, int] | None = None
        """The path of the outermost module that runs, and its thread."""
        self._hooks: list[Callable[[], None]] = []

    def listen(self, root: Any, modules: Mapping[str, Any]) -> list[Callable[[], None]]:
        """Begin; the functions that this returns end it."""
        is_own = any(module is root for module in modules.values())
        self._modules = modules if is_own else {"": root, **modules}
        outer = {
            path: module
            for path, module in self._modules.items()
            if not any(f"{path}/".startswith(f"{p}/") for p in modules if p != path)
        }
        return [*hook_calls(outer, self._enter, self._leave, self._guard), self.abandon]

    def abandon(self) -> None:
        """Forget a call that was interrupted by what no hook is told of."""
        while self._hooks:
            self._hooks.pop()()
        self._inside = None

    def _enter(self, path: str) -> None:
        here = path, threading.get_ident()
        if self._inside == here:
            self._interrupted()
        if self._inside is None and self._is_on():
            self._inside = here
            inner = {p: module for p, module in self._modules.items() if p != path}
            self._hooks = hook_calls(inner, self._begin_inside, self._end_inside, self._guard)
            self._begin(path)

    def _leave(self, path: str, outputs: Any) -> None:
        if self._inside == (path, threading.get_ident()):
            try:
                self._end(path, outputs)
            finally:
                self.abandon()

    def _begin_inside(self, path: str) -> None:
        # Replicas of torch.nn.DataParallel run in threads of their own.
        if self._inside is not None and self._inside[1] == threading.get_ident():
            self._begin(path)

    def _end_inside(self, path: str, outputs: Any) -> None:
        if self._inside is not None and self._inside[1] == threading.get_ident():
            self._end(path, outputs)
