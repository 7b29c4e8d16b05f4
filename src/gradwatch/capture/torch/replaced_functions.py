"""Functions of torch that are replaced while some modules run, to see what they are given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from typing import Any, Protocol

import torch


class Onlooker(Protocol):
    """Looks at the calls of replaced functions in modules."""

    def guard(self) -> AbstractContextManager[None]:
        """Goes around all that might fail."""

    def look(self, path: str, name: str, args: Any, kwargs: Any) -> None:
        """A function was called in the module of this path, the innermost one."""


class ReplacedFunctions:
    """Replaces functions by others that call them once, with the same arguments.

    They are looked at after the call, or before it if that may change the arguments.
    """

    def __init__(self, functions: Sequence[tuple[Any, str]], is_before: bool = False) -> None:
        self._functions = functions
        self._is_before = is_before
        self._originals: list[tuple[Any, str, Any]] = []
        self._depth = 0
        self._lock = threading.Lock()
        self._of_thread = threading.local()

    def running(self) -> list[tuple[Onlooker, str]]:
        """The modules that this thread is in, each with who looks; the last one computes."""
        if not hasattr(self._of_thread, "running"):
            self._of_thread.running = []
        found: list[tuple[Onlooker, str]] = self._of_thread.running
        return found

    def begin(self, onlooker: Onlooker, path: str) -> None:
        """A module begins."""
        self.running().append((onlooker, path))
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                for owner, name in self._functions:
                    # What torch.Tensor inherits is deleted at the end.
                    self._originals.append((owner, name, vars(owner).get(name)))
                    setattr(owner, name, self._looking(getattr(owner, name), name))

    def end(self, onlooker: Onlooker, path: str) -> bool:
        """A module ends; whether it was the last that had begun."""
        running = self.running()
        if not running or running[-1] != (onlooker, path):
            return False
        running.pop()
        self._restore()
        return True

    def abandon(self, onlooker: Onlooker) -> None:
        """All modules have ended: a call may be interrupted by what no hook is told of."""
        running = self.running()
        for entry in [each for each in running if each[0] is onlooker]:
            running.remove(entry)
            self._restore()

    def _restore(self) -> None:
        with self._lock:
            self._depth -= 1
            while self._depth == 0 and self._originals:
                owner, name, original = self._originals.pop()
                if original is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)

    def _looking(self, function: Any, name: str) -> Any:
        @wraps(function)
        def looking(*args: Any, **kwargs: Any) -> Any:
            # First: compiled code has nothing of the rest.
            if torch.compiler.is_compiling():
                return function(*args, **kwargs)
            running, of_thread = self.running(), self._of_thread
            if not running or getattr(of_thread, "is_inside", False):
                return function(*args, **kwargs)
            of_thread.is_inside = True
            try:
                onlooker, path = running[-1]
                if self._is_before:
                    with onlooker.guard():
                        onlooker.look(path, name, args, kwargs)
                result = function(*args, **kwargs)
                if not self._is_before:
                    with onlooker.guard():
                        onlooker.look(path, name, args, kwargs)
                return result
            finally:
                of_thread.is_inside = False

        return looking


class RunningHook:
    """A hook of a module, which copies of the module and modules loaded from a file do not have."""

    def __init__(self, act: Callable[..., None], guard: Callable[[], Any]) -> None:
        self._act, self._guard = act, guard

    def __call__(self, *given: Any) -> None:
        if not torch.compiler.is_compiling():
            with self._guard():
                self._act(*given)

    def __reduce__(self) -> Any:
        # A builtin that does nothing: the file can be read without gradwatch.
        return getattr, (nullcontext(), "__exit__")


def hook_calls(
    modules: Mapping[str, Any],
    begin: Callable[[str], None],
    end: Callable[..., None],
    guard: Callable[[], Any],
) -> list[Callable[[], None]]:
    """Call functions with the path as modules begin, and with their outputs, too, as they end.

    The functions that this returns end it. `end` is called also if the module raises.
    """
    ends: list[Callable[[], None]] = []
    for path, module in modules.items():
        began = RunningHook(partial(_without_arguments, begin, path), guard)
        ended = RunningHook(partial(_with_outputs, end, path), guard)
        ends.append(module.register_forward_pre_hook(began).remove)
        ends.append(module.register_forward_hook(ended, always_call=True).remove)
    return ends


def _without_arguments(begin: Callable[[str], None], path: str, *_: Any) -> None:
    begin(path)


def _with_outputs(end: Callable[..., None], path: str, _: Any, args: Any, outputs: Any) -> None:
    end(path, outputs)
