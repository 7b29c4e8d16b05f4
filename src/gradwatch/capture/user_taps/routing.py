"""Taps of routers: of the scores, how many tokens choose each expert is recorded.

Such a tap is a tap like any other, which its name tells apart: a compiler knows nothing but names.
"""

from gradwatch.core import Kind, Tensor
from gradwatch.measure import Framework

_MARK = "\x1d"
"""Between the name and the number of experts that a token chooses."""


def routed(name: str, top_k: int) -> str:
    """The name of a tap on the scores of a router."""
    return f"{name}{_MARK}{top_k}"


def is_router(name: str) -> bool:
    return _MARK in name


def shown(name: str) -> str:
    """The name that the user has given."""
    return name.partition(_MARK)[0]


def kind_of(name: str) -> Kind:
    """What is recorded of the tensor itself."""
    return Kind.EXPERT_LOAD if is_router(name) else Kind.OUTPUT


def recorded(own: Framework, x: Tensor, name: str) -> Tensor:
    """What is measured of a tensor that passes a tap."""
    if not is_router(name):
        return x
    with own.aside():
        return own.expert_load(x, int(name.partition(_MARK)[2]))
