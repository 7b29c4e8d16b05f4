"""The submodules of a torch module by their paths, and which of them run compiled."""

from typing import Any

import torch

from gradwatch.capture.variable_names import unwrapped


def modules_of(root: Any) -> dict[str, Any]:
    """The submodules by their paths; a module that has none stands for itself.

    Mere containers, such as a `ModuleList`, return nothing.
    """
    named = {n.replace(".", "/"): m for n, m in root.named_modules() if n and has_forward(m)}
    return named or {type(root).__name__.lower(): root}


def compiled_paths(module: Any) -> set[str]:
    """The paths of submodules that are called inside a compiled graph, if at all."""
    modules = modules_of(unwrapped(module))
    if is_compiled(module) or hasattr(getattr(module, "module", None), "_orig_mod"):
        return set(modules)
    tops = {p for p, m in modules.items() if getattr(m, "_compiled_call_impl", None)}
    # A wrapper that torch.compile made calls hooks of its own outside of the graph.
    inside = tuple(f"{p}/" for p, m in modules.items() if p in tops or hasattr(m, "_orig_mod"))
    return {p for p in modules if p in tops or p.startswith(inside)}


def has_forward(module: Any) -> bool:
    """Whether a module can be called: not a mere container."""
    # Of the object itself: what torch.compile returns has one of its own.
    return getattr(module.forward, "__func__", None) is not torch.nn.Module.forward


def is_compiled(module: Any) -> bool:
    """Whether calls of a module run a compiled graph of all of it."""
    return hasattr(module, "_orig_mod") or bool(getattr(module, "_compiled_call_impl", None))
