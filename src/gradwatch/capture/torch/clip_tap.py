"""Sees gradients before torch's functions clip them."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeAlias
from weakref import WeakMethod

import torch
from torch.amp import GradScaler
from torch.nn.utils import clip_grad

Listener: TypeAlias = Callable[[Any, Any], None]
"""Is given the gradients that are about to be clipped, and None; or None, and the `GradScaler` that
is about to scale a loss."""

_GROUPING = "_group_tensors_by_device_and_dtype"
"""All functions of `clip_grad` call it with the gradients before they change them."""
_NORM = "_get_total_norm"
"""Calls it, too, but changes nothing."""

# Weakly: a monitor that nobody holds closes itself.
_listeners: list[WeakMethod[Listener]] = []
_replaced: list[tuple[Any, str, Any]] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Call a method before each clipping; returns a function that ends this.

    It also ends with the object of the method. The clipping functions stay as they are, so those
    that a program has imported by name are seen, too: what is replaced, as long as anyone listens,
    is a helper in their module. In a version of torch without that helper, clipping is not seen.
    """
    reference = WeakMethod(listener, _end)
    _listeners.append(reference)
    if not _replaced:
        if hasattr(clip_grad, _GROUPING):
            _replace(clip_grad, _GROUPING, _telling_of_gradients)
        _replace(GradScaler, "scale", _telling_of_scaler)
    return lambda: _end(reference)


def _replace(owner: Any, name: str, telling: Callable[[Any], Any]) -> None:
    own = telling(getattr(owner, name))
    setattr(owner, name, own)
    _replaced.append((owner, name, own))


def _end(reference: WeakMethod[Listener]) -> None:
    if reference in _listeners:
        _listeners.remove(reference)
    while not _listeners and _replaced:
        owner, name, own = _replaced.pop()
        # Not if another library has replaced it, too: then it goes on without listeners.
        if getattr(owner, name) is own:
            setattr(owner, name, own.__wrapped__)


def _tell(gradients: Any, scaler: Any) -> None:
    for listener in [reference() for reference in _listeners]:
        if listener is not None:
            with suppress(Exception):
                listener(gradients, scaler)


def _telling_of_gradients(group: Any) -> Any:
    @wraps(group)
    def telling(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling() and sys._getframe(1).f_code.co_name != _NORM:
            _tell(tensors[0], None)
        return group(tensors, *args, **kwargs)

    return telling


def _telling_of_scaler(scale: Any) -> Any:
    @wraps(scale)
    def telling(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            _tell(None, self)
        return scale(self, *args, **kwargs)

    return telling
