"""Walking lists, dicts and other trees of tensors, with the path to each leaf."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Leaf(NamedTuple):
    """A tensor, variable or None in a tree."""

    keys: tuple[str, ...]
    is_named: bool
    """Whether a key or attribute, not only places in lists, led to it."""
    value: Any


def leaves(tree: Any) -> list[Leaf]:
    """The leaves of nested dicts, lists, tuples and whatever JAX knows as a tree.

    Dicts keep their own order, as a network is read, where JAX would sort them.
    """
    return list(_walk(tree, (), False))


def _walk(tree: Any, keys: tuple[str, ...], is_named: bool) -> Iterator[Leaf]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _walk(value, (*keys, str(key)), True)
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for key, value in zip(tree._fields, tree, strict=True):
            yield from _walk(value, (*keys, str(key)), True)
    elif isinstance(tree, list | tuple):
        for i, value in enumerate(tree):
            yield from _walk(value, (*keys, str(i)), is_named)
    else:
        yield from _walk_jax(tree, keys, is_named)


def _walk_jax(tree: Any, keys: tuple[str, ...], is_named: bool) -> Iterator[Leaf]:
    """A leaf, or a node of a type that was registered with JAX: Flax's, Equinox's, ..."""
    jax = sys.modules.get("jax")
    if tree is None or jax is None or jax.tree_util.all_leaves([tree]):
        yield Leaf(keys, is_named, tree)
        return
    found, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is None)
    for path, value in found:
        names = [_jax_key(key) for key in path]
        # A variable of Flax's NNX holds its array in an attribute: no part of its name.
        is_held = "flax" in sys.modules and getattr(path[-1], "name", "") in _NNX_VALUES
        if is_held and len(keys) + len(names) > 1:
            names.pop()
        yield Leaf((*keys, *names), True, value)


_NNX_VALUES = ("value", "raw_value")


def _jax_key(key: Any) -> str:
    for name in ("name", "key", "idx"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key).strip(".[]'\"")
