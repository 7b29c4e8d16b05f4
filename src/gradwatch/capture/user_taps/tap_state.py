"""Whether what passes taps is measured now, and who takes the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakMethod, ref

from gradwatch.capture.user_taps.tap_collector import Noted, TapCollector
from gradwatch.compat.torch_names import change_recompile_limit

_NESTED = (
    "What passes taps is recorded once: by the innermost with_taps, or by one of several monitors."
)


OWNED = "gradwatch#"
"""What keys of owners begin with."""

OWNER = "|"
"""Ends the key of the owner in the name of a tap that has one."""


class TapOwner(Protocol):
    """Takes what passes the taps whose names begin with its key and `OWNER`."""

    collector: TapCollector
    is_on: bool

    def is_due(self) -> bool:
        """Whether the next step is measured."""


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
        self.are_owners_on = False
        """Whether a tap that has an owner is measured: `is_on` of those."""
        # Weakly: whatever watches a model ends when nobody holds it.
        self._owners: dict[str, ref[TapOwner]] = {}
        self._askers: list[WeakMethod[Callable[[], bool]]] = []
        self._may_compile_twice = False
        self._pool = TapCollector()
        self._scopes: list[TapCollector] = []

    def ask(self, is_due: Callable[[], bool]) -> Callable[[], None]:
        """Measure at the steps of an optimizer for which a method says so; see `refresh`.

        It returns a function that ends this; it also ends with the object of the method.
        """
        asker = WeakMethod(is_due, self._end)
        self._askers.append(asker)
        self.refresh()

        def leave() -> None:
            self._end(asker)
            self.refresh()

        return leave

    def _end(self, asker: WeakMethod[Callable[[], bool]]) -> None:
        if asker in self._askers:
            self._askers.remove(asker)
        if not self._askers:
            self.take()
            self.is_on = bool(self._scopes)

    def own(self, key: str, owner: TapOwner) -> Callable[[], None] | None:
        """Let an owner take the taps with its key, until the function that it returns is called.

        None if they have an owner already. It also ends with the owner.
        """
        if self._owner(key) is not None:
            return None
        self._owners[key] = reference = ref(owner)
        self.is_used = True
        # The measured graph is compiled for one module only.
        change_recompile_limit(lambda limit: limit + 2)
        self.refresh()

        def leave() -> None:
            if self._owners.get(key) is reference:
                del self._owners[key]
            self.refresh()

        return leave

    def refresh(self) -> None:
        """Look whether the next step is due; to be called when one has ended."""
        askers = [asker() for asker in self._askers]
        self.is_on = bool(self._scopes) or any(_answer(x) for x in askers if x is not None)
        owners = self._living_owners()
        for owner in owners:
            owner.is_on = _answer(owner.is_due)
        self.are_owners_on = any(owner.is_on for owner in owners)
        if self.is_used and not self._may_compile_twice:
            self._allow_compiling_twice()

    def _allow_compiling_twice(self) -> None:
        # With fullgraph=True, torch raises an exception where it compiles a function too often.
        self._may_compile_twice = change_recompile_limit(lambda limit: 2 * limit)

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

    def collector_of(self, name: str) -> TapCollector | None:
        """Who takes what passes a tap; None if its owner does not measure this step."""
        key, mark, _ = name.partition(OWNER)
        if not (mark and key.startswith(OWNED)):
            return self.current
        owner = self._owner(key)
        return owner.collector if owner is not None and owner.is_on else None

    def noted(self, ticket: int) -> Noted | None:
        """What has this number, whoever took it."""
        collectors = [self.current, *(owner.collector for owner in self._living_owners())]
        return next((x for x in (c.noted(ticket) for c in collectors) if x is not None), None)

    def _owner(self, key: str) -> TapOwner | None:
        reference = self._owners.get(key)
        return None if reference is None else reference()

    def _living_owners(self) -> list[TapOwner]:
        owners = (self._owner(key) for key in list(self._owners))
        return [owner for owner in owners if owner is not None]

    @property
    def current(self) -> TapCollector:
        return self._scopes[-1] if self._scopes else self._pool


def _answer(is_due: Callable[[], bool]) -> bool:
    try:
        return is_due()
    except Exception:
        return False  # Whoever watches the optimizer will meet it again, and tell.


STATE = TapState()
