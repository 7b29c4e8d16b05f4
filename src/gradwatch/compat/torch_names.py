"""What torch has under other names in its versions from 2.5 on."""

import sys
from collections.abc import Callable
from typing import Any


def change_recompile_limit(change: Callable[[int], int]) -> bool:
    """Change how often `torch.compile` compiles a function; whether it was imported."""
    config: Any = sys.modules.get("torch._dynamo.config")
    if config is None:
        return False
    name = recompile_limit_name(config)
    setattr(config, name, change(getattr(config, name)))
    return True


def recompile_limit_name(config: Any) -> str:
    """The name of this limit in torch's settings."""
    return "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"


def saved_tensors_hooks_are_on() -> bool:
    """Whether hooks decide what graphs keep, as under checkpointing."""
    import torch

    top: Any = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    if top is not None:
        return top(True) is not None
    try:  # before 2.6: hooks that are on cannot be forbidden
        with torch.autograd.graph.disable_saved_tensors_hooks("gradwatch asks for them"):
            return False
    except RuntimeError:
        return True
