"""Replaces attributes of Keras objects for a while."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any


@contextmanager
def replaced(replacements: Iterable[tuple[Any, Mapping[str, Any]]]) -> Iterator[None]:
    """Replace attributes of several objects while the context lasts.

    They are set in the object's `__dict__`, past the attribute tracking of Keras and torch: the
    state before is restored exactly, and nothing becomes part of the object's own state.
    """
    done: list[tuple[dict[str, Any], Mapping[str, Any], dict[str, Any]]] = []
    try:
        for owner, values in replacements:
            own = vars(owner)
            done.append((own, values, {name: own[name] for name in values if name in own}))
            own.update(values)
        yield
    finally:
        for own, values, before in reversed(done):
            for name in values:
                own.pop(name, None)
            own.update(before)


def attributes(owner: Any, **values: Any) -> AbstractContextManager[None]:
    """Replace attributes of one object while the context lasts, see `replaced`."""
    return replaced([(owner, values)])
