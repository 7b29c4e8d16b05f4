"""The submodules of modules of Flax and Equinox, by their paths."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def is_module(value: Any) -> bool:
    """Whether it is a module of NNX or of Equinox."""
    nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
    if nnx is not None and isinstance(value, nnx.Module):
        return True
    return equinox is not None and isinstance(value, equinox.Module)


def is_linen(model: Any) -> bool:
    linen = sys.modules.get("flax.linen")
    return linen is not None and isinstance(model, linen.Module)


def submodules(root: Any) -> dict[str, Any]:
    """The submodules that can be called, by path, each once; a module without any is one itself."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for path, module in _walk(root, (), seen):
        if path and callable(module):
            found["/".join(path)] = module
    return found or {class_name(root): root}


def class_name(module: Any) -> str:
    return type(module).__name__.lower()


def _walk(
    value: Any, path: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    if id(value) in seen:
        return
    if is_module(value):
        seen.add(id(value))
        yield path, value
    for name, part in _parts(value):
        yield from _walk(part, (*path, name), seen)


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return [(str(i), part) for i, part in enumerate(value)]
    if not is_module(value):
        return []
    if isinstance(value, Sequence):
        return [(str(i), part) for i, part in enumerate(value)]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return [(name, getattr(value, name, None)) for name in names]
    return [(name, part) for name, part in vars(value).items() if not name.startswith("_pytree__")]
