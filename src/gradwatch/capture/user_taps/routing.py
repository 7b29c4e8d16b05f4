"""Taps of routers and of residual branches: something that follows from a tensor is recorded.

Such a tap is a tap like any other, which its name tells apart: a compiler knows nothing but names.
"""

from gradwatch.core import Kind, Tensor
from gradwatch.measure import Framework

_CHOICES = "\x1d"
"""Between the name and the number of experts that a token chooses."""
_BRANCH = "\x1e"
"""Behind the name of what is added to a stream."""


def routed(name: str, top_k: int) -> str:
    """The name of a tap on the scores of a router."""
    return f"{name}{_CHOICES}{top_k}"


def branching(name: str) -> str:
    """The name of a tap on what a residual branch adds."""
    return f"{name}{_BRANCH}"


def shown(name: str) -> str:
    """The name that the user has given."""
    return name.partition(_CHOICES)[0].removesuffix(_BRANCH)


def kind_of(name: str) -> Kind:
    """What is recorded of the tensor itself."""
    if _CHOICES in name:
        return Kind.EXPERT_LOAD
    return Kind.RESIDUAL_RATIO if name.endswith(_BRANCH) else Kind.OUTPUT


def has_gradient(name: str) -> bool:
    """Whether the gradient with respect to the tensor is recorded, too."""
    return kind_of(name) is Kind.OUTPUT


def recorded(own: Framework, x: Tensor, name: str, stream: Tensor = None) -> Tensor:
    """What is measured of a tensor that passes a tap; a branch has the stream beside it."""
    kind = kind_of(name)
    if kind is Kind.OUTPUT:
        return x
    with own.aside():
        if kind is Kind.RESIDUAL_RATIO:
            return own.residual_ratio(x, stream)
        return own.expert_load(x, int(name.partition(_CHOICES)[2]))
