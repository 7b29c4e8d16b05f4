"""Sees the losses that torch differentiates."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeAlias

import torch

Listener: TypeAlias = Callable[[Any], None]
"""Is given the tensors of which `backward` is called, before that."""

_listeners: list[Listener] = []
_own: Any = None


def listen(listener: Listener) -> Callable[[], None]:
    """Call a function before each backward pass; returns a function that ends this.

    `torch.autograd.backward` is replaced as long as anyone listens: `Tensor.backward` and most
    libraries call it by that name.
    """
    global _own
    _listeners.append(listener)
    if _own is None:
        _own = _listening(torch.autograd.backward)
        torch.autograd.backward = _own

    def end() -> None:
        global _own
        if listener in _listeners:
            _listeners.remove(listener)
        # Not if another library has replaced it, too: then it goes on without listeners.
        if not _listeners and torch.autograd.backward is _own:
            torch.autograd.backward = _own.__wrapped__
            _own = None

    return end


def _listening(backward: Any) -> Any:
    @wraps(backward)
    def listening(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            for listener in tuple(_listeners):
                with suppress(Exception):
                    listener(tensors)
        return backward(tensors, *args, **kwargs)

    return listening
