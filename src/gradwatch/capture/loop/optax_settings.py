"""The decays and epsilons of optax's transformations, which their states do not have."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Hyperparameters:
    """By the function that made a transformation, the arguments of each one that it made."""

    by_maker: Mapping[str, list[dict[str, Any]]]

    def of(self, maker: str, injected: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The arguments, with those injected by `inject_hyperparams`; None if they are not known.

        Nor are they known where several of one kind have different ones.
        """
        found = self.by_maker.get(maker, [])
        if not found:
            return injected or None
        if any(each != found[0] for each in found):
            return None
        return {**found[0], **injected}


def settings_in(transformation: Any) -> Hyperparameters:
    """Those of all transformations that this one is made of: what their functions refer to."""
    found: dict[str, list[dict[str, Any]]] = {}
    update = getattr(transformation, "update", None)
    for function in _functions(update, set()):
        maker, _, rest = function.__qualname__.partition(".")
        if rest == "<locals>.update_fn":
            cells = dict(_cells(function))
            numbers = {n: x for n, x in cells.items() if isinstance(x, int | float)}
            found.setdefault(maker, []).append(numbers)
    return Hyperparameters(found)


def _cells(function: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # It is empty.
            continue


def _functions(thing: Any, seen: set[int]) -> Iterator[Any]:
    """The functions that something refers to, in lists, in mappings and in each other."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    inner: list[Any] = []
    if isinstance(thing, tuple | list):
        inner = list(thing)
    elif isinstance(thing, Mapping):
        inner = list(thing.values())
    elif hasattr(thing, "__self__") and hasattr(thing, "__func__"):
        # A method, such as that of `MultiSteps`.
        inner = [thing.__func__, *vars(thing.__self__).values()]
    elif hasattr(thing, "__code__") and hasattr(thing, "__closure__"):
        yield thing
        inner = [value for _, value in _cells(thing)]
    for each in inner:
        yield from _functions(each, seen)
