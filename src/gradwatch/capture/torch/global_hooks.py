"""Hooks of all modules of the process, of which torch.compile does not warn."""

from collections.abc import Callable
from typing import Any

from torch.nn.modules import module as torch_module

_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)
_own: list[Any] = []
_has_any: Callable[[], Any] | None = getattr(torch_module, "_has_any_global_hook", None)
"""torch.compile asks it before each call, to warn that hooks fire for its wrapper too."""


def add_global_hook(register: Callable[[Any], Any], hook: Any) -> Callable[[], None]:
    """Register a hook that does nothing for wrappers, and return a function that removes it.

    A filter of warnings would not do: it ends with the `catch_warnings` that it is added in.
    """
    handle = register(hook)
    _own.append(hook)
    if _has_any is not None:
        torch_module._has_any_global_hook = _has_any_of_others

    def remove() -> None:
        handle.remove()
        _own.remove(hook)
        if not _own and _has_any is not None:
            torch_module._has_any_global_hook = _has_any

    return remove


def _has_any_of_others() -> bool:
    found = (hook for name in _HOOKS for hook in getattr(torch_module, name, {}).values())
    return any(hook not in _own for hook in found)
