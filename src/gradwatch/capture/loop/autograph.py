"""Keeping tf.function's AutoGraph away from what is ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def as_it_is(method: F) -> F:
    """Keep tf.function's AutoGraph from rewriting a method of ours that is called in it."""
    # The mark that tf.autograph.experimental.do_not_convert leaves, without TensorFlow.
    method.autograph_info__ = {}  # type: ignore[attr-defined]
    return method
