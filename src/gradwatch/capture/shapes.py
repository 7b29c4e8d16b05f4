"""To which framework tensors belong, and what shape they have."""

from collections.abc import Sequence
from typing import Any

from gradwatch.capture.errors import WrongTypeError
from gradwatch.measure import Framework, family, framework


def common_framework(tensors: Sequence[Any]) -> Framework:
    """The framework of the tensors; raises TypeError if they belong to none, or to several."""
    found: dict[str, Any] = {}
    for x in tensors:
        name = None if x is None else family(x)
        if x is not None and name is None:
            raise WrongTypeError(
                "Tensors of TensorFlow, JAX, torch and NumPy can be measured. "
                f"Received: one of type {type(x).__module__}.{type(x).__name__}"
            )
        if name is not None:
            found.setdefault(name, x)
    if set(found) != {"numpy"}:
        found.pop("numpy", None)  # Any framework measures arrays of NumPy's.
    if len(found) > 1:
        raise WrongTypeError(
            f"Tensors of one framework are expected in a call. Received: {' and '.join(found)}"
        )
    return framework(next(iter(found), "numpy"))


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape, -1 where it is not known; for a gradient, that of the dense tensor."""
    shape = getattr(tensor, "shape", ())
    if getattr(shape, "rank", 0) is None:
        return (-1,)
    return tuple(-1 if size is None else int(size) for size in shape)


def shapes_agree(expected: tuple[int, ...], received: tuple[int, ...]) -> bool:
    """Whether they can be the same, as far as they are known."""
    if (-1,) in (expected, received):
        return True
    return len(expected) == len(received) and all(
        a == b or -1 in (a, b) for a, b in zip(expected, received, strict=True)
    )
