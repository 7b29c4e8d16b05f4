"""Asks every `tf.GradientTape` of a training step for gradients of more tensors."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from gradwatch.util import Reporter


class _Listener(NamedTuple):
    sources: Callable[[], list[Any]]
    arrived: Callable[[list[Any]], None]
    reporter: Reporter


_NOTING = "asking a tape for gradients of outputs", "output gradients of that step"

_lock = threading.Lock()
_listeners: list[_Listener] = []
_own_gradient: Any = None
_differentiating = threading.local()


@contextmanager
def asking_tapes(
    sources: Callable[[], list[Any]],
    arrived: Callable[[list[Any]], None],
    reporter: Reporter,
) -> Iterator[None]:
    """While the context lasts, tapes also differentiate with respect to these sources.

    A tape keeps the gradient of a tensor that is among its sources and throws away that of
    any other it passes on its way; the computation is the same, and so are the results.

    Each gradient is None where the tape's target does not depend on the source. After an internal
    error the tape answers as without a monitor.
    """
    listener = _Listener(sources, arrived, reporter)
    _install(listener)
    try:
        yield
    finally:
        _remove(listener)


def _install(listener: _Listener) -> None:
    global _own_gradient
    with _lock:
        if not _listeners:
            _own_gradient = tf.GradientTape.gradient
            tf.GradientTape.gradient = _gradient
        _listeners.append(listener)


def _remove(listener: _Listener) -> None:
    with _lock:
        # By identity: two taps may be equal tuples.
        _listeners[:] = [each for each in _listeners if each is not listener]
        if not _listeners and tf.GradientTape.gradient is _gradient:
            tf.GradientTape.gradient = _own_gradient


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """`tf.GradientTape.gradient`, for the listeners too."""
    # A tape may be asked in the backward rule of another's operation (tf.recompute_grad).
    asked = [] if getattr(_differentiating, "now", False) else _asked()
    if not asked:
        return _own_gradient(tape, target, sources, *args, **kwargs)
    more = [list(tensors) for _, tensors in asked]
    _differentiating.now = True
    try:
        result, *gradients = _own_gradient(tape, target, [sources, *more], *args, **kwargs)
    finally:
        _differentiating.now = False
    for (listener, _), found in zip(asked, gradients, strict=True):
        try:
            listener.arrived(found)
        except Exception as error:
            listener.reporter.internal_error(error, *_NOTING)
    return result


def _asked() -> list[tuple[_Listener, list[Any]]]:
    """The listeners that need gradients of this tape."""
    asked = []
    for listener in tuple(_listeners):
        try:
            tensors = listener.sources()
            if tensors:
                asked.append((listener, tensors))
        except Exception as error:
            listener.reporter.internal_error(error, *_NOTING)
    return asked
