"""Tells what modules return, through the one hook that torch has for all modules."""

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakMethod

import torch
from torch.nn.modules.module import register_module_forward_hook

from gradwatch.capture.torch.global_hooks import add_global_hook
from gradwatch.util import Reporter

Note = Callable[[str, Any, Any], None]
"""Is given the path of a module, its arguments and what it returned."""

# Weakly: a monitor that nobody holds closes itself.
_listening: dict[int, list[tuple[str, WeakMethod[Note], Reporter]]] = {}
"""By the id of a module, its path, who is told, and who is told of its errors."""
_remove: Callable[[], None] | None = None


def listen(modules: Mapping[str, Any], note: Note, reporter: Reporter) -> Callable[[], None]:
    """Have a method told of each eager call of these modules, which its object must keep alive.

    The modules themselves get no hooks: TorchScript refuses modules with hooks, and torch's own
    transformers leave their fast path in evaluation.

    Returns:
        A function that ends it; it also ends with the object of the method.
    """
    global _remove
    told = WeakMethod(note, lambda _: end())
    entries = [(id(module), (path, told, reporter)) for path, module in modules.items()]
    for key, entry in entries:
        _listening.setdefault(key, []).append(entry)
    if _remove is None and _listening:
        _remove = add_global_hook(register_module_forward_hook, _called)

    def end() -> None:
        global _remove
        for key, entry in entries:
            if entry in _listening.get(key, ()):
                _listening[key].remove(entry)
                if not _listening[key]:
                    del _listening[key]
        if not _listening and _remove is not None:
            _remove()
            _remove = None

    return end


def _called(module: Any, args: Any, outputs: Any) -> None:
    # A compiled graph contains nothing of this.
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    for path, told, reporter in tuple(_listening.get(id(module), ())):
        note = told()
        try:
            if note is not None:
                note(path, args, outputs)
        except Exception as error:
            reporter.internal_error(error, "noting the output of a module", "outputs of that step")
