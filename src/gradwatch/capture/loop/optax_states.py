"""Finds the states of `Monitor.optax` in the state of an optimizer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Tensor


class LinkState(NamedTuple):
    """The state of a link of an `optax.chain`, see `OptaxLink`."""

    step: Tensor
    """How many updates there were."""
    at: Tensor
    """Which of them `measured` is of."""
    measured: Mapping[str, Mapping[str, Tensor]]
    """By the name of the group, the arrays of `LoopCapture.measure`."""
    inner: Any
    """The states of the transformations inside it."""


@dataclass(frozen=True)
class LinkStates:
    """What was found: the states of links, and the learning rate if the state has it."""

    links: list[LinkState]
    learning_rate: Tensor | None


def link_states(given: Any) -> LinkStates | None:
    """The states of links in the state of an optimizer, or in what holds that; None without any.

    `given` may be an `nnx.Optimizer` or a `TrainState`, too.
    """
    state = getattr(given, "opt_state", given)
    if not isinstance(state, tuple | list) and state is given:
        return None
    links: list[LinkState] = []
    rates: list[Tensor] = []
    for each in _states(state):
        if isinstance(each, LinkState):
            links.append(each)
        else:
            rates.append(each.hyperparams["learning_rate"])
    return LinkStates(links, raw(rates[0]) if len(rates) == 1 else None) if links else None


def halved(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Arrays of 64 bits as pairs of 32 bits, with the dtype in the name.

    A user's own branches and loops, such as those of `optax.MultiSteps`, cut wider numbers off.
    """
    import jax

    from gradwatch.compat import jax_names

    with jax_names.wide_types():
        wide = {n: x.dtype.itemsize > 4 for n, x in arrays.items()}
        return {
            f"{n}:{x.dtype}" if wide[n] else n: (
                jax.lax.bitcast_convert_type(x, np.uint32) if wide[n] else x
            )
            for n, x in arrays.items()
        }


def whole(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """On the host, the arrays that `halved` was given."""
    found = {}
    for name, x in arrays.items():
        name, _, dtype = name.partition(":")
        found[name] = np.ascontiguousarray(x).view(dtype)[..., 0] if dtype else x
    return found


def raw(value: Any) -> Tensor:
    """The array in a variable of Flax's NNX; arrays are returned as they are."""
    read = getattr(value, "get_raw_value", None)
    return value if read is None else read()


def _states(state: Any) -> Iterator[Any]:
    """The states of links, and those with a learning rate, of nested transformations."""
    if isinstance(state, LinkState):
        yield state
    if "learning_rate" in (getattr(state, "hyperparams", None) or ()):
        yield state
    if isinstance(state, LinkState):
        yield from _states(state.inner)
    elif isinstance(state, tuple | list):
        for each in state:
            yield from _states(each)
    elif isinstance(state, dict):
        # Those of `optax.partition`, by label; not the moments of a tree of parameters.
        for each in state.values():
            if isinstance(each, tuple):
                yield from _states(each)
