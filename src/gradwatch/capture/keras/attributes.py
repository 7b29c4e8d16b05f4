"""Giving an object of Keras other attributes for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def attributes(owner: Any, **values: Any) -> Iterator[None]:
    """Give an object other attributes while the context lasts.

    Through its `__dict__`, past the tracking of Keras and torch, so that what it had before, or
    had not, is restored exactly, and nothing becomes part of its state.

    Args:
        owner: a model, optimizer or metric.
        values: the attributes by name.
    """
    own = vars(owner)
    before = {name: own[name] for name in values if name in own}
    own.update(values)
    try:
        yield
    finally:
        for name in values:
            own.pop(name, None)
        own.update(before)
