"""Sees the losses that torch differentiates."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeAlias
from weakref import WeakMethod

import torch

Listener: TypeAlias = Callable[[Any], None]
"""Is given the tensors of which `backward` is called, before that."""

# Weakly: a monitor that nobody holds closes itself.
_listeners: list[WeakMethod[Listener]] = []
_own: Any = None


def listen(listener: Listener) -> Callable[[], None]:
    """Call a method before each backward pass; returns a function that ends this.

    It also ends with the object of the method. `torch.autograd.backward` is replaced as long as
    anyone listens: `Tensor.backward` and most libraries call it by that name.
    """
    global _own
    reference = WeakMethod(listener, _end)
    _listeners.append(reference)
    if _own is None:
        _own = _listening(torch.autograd.backward)
        torch.autograd.backward = _own
    return lambda: _end(reference)


def _end(reference: WeakMethod[Listener]) -> None:
    global _own
    if reference in _listeners:
        _listeners.remove(reference)
    # Not if another library has replaced it, too: then it goes on without listeners.
    if not _listeners and _own is not None and torch.autograd.backward is _own:
        torch.autograd.backward = _own.__wrapped__
        _own = None


def _listening(backward: Any) -> Any:
    @wraps(backward)
    def listening(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            for listener in [reference() for reference in _listeners]:
                if listener is not None:
                    with suppress(Exception):
                        listener(tensors)
        return backward(tensors, *args, **kwargs)

    return listening
