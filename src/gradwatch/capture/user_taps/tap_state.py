"""Whether what passes taps is measured now, and who takes the measurements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradwatch.capture.user_taps.tap_collector import TapCollector

_NESTED = (
    "What passes taps is recorded once: by the innermost with_taps, or by one of several monitors."
)


class TapState:
    """The taps of this process.

    `is_on` is a plain attribute, since torch.compile reads it: a function that has taps is compiled
    twice, with and without measurements, and chosen by this attribute.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.has_arrays = False
        """Whether arrays of JAX have passed taps."""
        self.is_used = False
        """Whether anything has passed a tap."""
        self._may_compile_twice = False
        self._pool = TapCollector()
        self._scopes: list[TapCollector] = []
        self._askers: dict[int, Callable[[], bool]] = {}

    def ask(self, is_due: Callable[[], bool]) -> Callable[[], None]:
        """Measure at the steps of an optimizer for which `is_due()` says so; see `refresh`.

        It returns a function that ends this.
        """
        key = id(is_due)
        self._askers[key] = is_due
        self.refresh()

        def leave() -> None:
            self._askers.pop(key, None)
            if not self._askers:
                self.take()
            self.refresh()

        return leave

    def refresh(self) -> None:
        """Look whether the next step is due; to be called when one has ended."""
        self.is_on = bool(self._scopes) or any(map(_answer, self._askers.values()))
        if self.is_used and not self._may_compile_twice:
            self._allow_compiling_twice()

    def _allow_compiling_twice(self) -> None:
        # With fullgraph=True, torch raises an exception where it compiles a function too often.
        config: Any = sys.modules.get("torch._dynamo.config")
        if config is not None:
            self._may_compile_twice = True
            # Before torch 2.6 it has another name.
            old, new = "cache_size_limit", "recompile_limit"
            name = new if hasattr(config, new) else old
            setattr(config, name, 2 * getattr(config, name))

    def take(self) -> TapCollector:
        """What was noted since the last step, of whichever optimizer."""
        taken, self._pool = self._pool, TapCollector()
        return taken

    @contextmanager
    def collecting(self, collector: TapCollector) -> Iterator[None]:
        """While the context lasts, this one takes everything."""
        self._scopes.append(collector)
        self.refresh()
        try:
            with collector.watching():
                yield
        finally:
            self._scopes.remove(collector)
            self.refresh()
            if self._scopes and not collector.is_empty:
                self._scopes[-1].reporter.notice(_NESTED)

    @property
    def current(self) -> TapCollector:
        return self._scopes[-1] if self._scopes else self._pool


def _answer(is_due: Callable[[], bool]) -> bool:
    try:
        return is_due()
    except Exception:
        return False  # Whoever watches the optimizer will meet it again, and tell.


STATE = TapState()
