"""Keeps AutoGraph of tf.function from rewriting gradwatch."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def do_not_convert(method: F) -> F:
    """Keep AutoGraph from rewriting a method that is called inside tf.function."""
    # The mark of tf.autograph.experimental.do_not_convert, without importing TensorFlow.
    method.autograph_info__ = {}  # type: ignore[attr-defined]
    return method
