"""The parts of what `fit` trains: a Keras model, or any layer that is also a trainer."""

from typing import Any


def top_layers(model: Any) -> list[Any]:
    """The layers that the model itself holds, in the order of Keras's `model.layers`.

    A property `layers` of the user's own is not read: it may raise, or hold something else.
    """
    for cls in type(model).__mro__:
        read = getattr(vars(cls).get("layers"), "fget", None)
        if read is not None and is_of_keras(read):
            return list(read(model))
    return list(model._flatten_layers(include_self=False, recursive=False))


def fact(owner: Any, name: str, unknown: Any = None) -> Any:
    """An attribute; `unknown` if there is none, or code of the user raises when it is read."""
    try:
        return getattr(owner, name, unknown)
    except Exception:
        return unknown


def is_of_keras(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "keras"
