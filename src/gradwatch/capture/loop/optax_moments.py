"""What optax's transformations hold of each parameter, found in any tree of their states."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gradwatch.capture.errors import WrongValueError
from gradwatch.capture.loop.optax_settings import settings_in
from gradwatch.capture.state import HeldMoments
from gradwatch.capture.trees import leaves
from gradwatch.capture.variable_names import Variables, dtype_name
from gradwatch.measure import Framework

Held = tuple[dict[int, HeldMoments], list[str]]
"""HeldMoments by the position of the variable, and notices."""


class _Layout(NamedTuple):
    """The fields of a state that are moments, and the function that makes the transformation."""

    first: str = ""
    second: str = ""
    largest: str = ""
    maker: str = ""
    decay: str = ""


_LAYOUTS: Mapping[str, _Layout] = {
    "ScaleByAdamState": _Layout("mu", "nu", maker="scale_by_adam", decay="b2"),
    "ScaleByAmsgradState": _Layout("mu", "nu", "nu_max", maker="scale_by_amsgrad"),
    "ScaleByRmsState": _Layout(second="nu", maker="scale_by_rms"),
    "ScaleByRmsWithCountState": _Layout(second="nu", maker="scale_by_rms", decay="decay"),
    "ScaleByRssState": _Layout(second="sum_of_squares", maker="scale_by_rss"),
    "ScaleByAdaDeltaState": _Layout(second="e_g", maker="scale_by_adadelta"),
    "ScaleByBeliefState": _Layout("mu"),
    "ScaleByLionState": _Layout("mu"),
    "MuonState": _Layout("mu"),
    "TraceState": _Layout("trace"),
}
"""By the name of the state's class."""

_UNSET = (
    "Gradients relative to the second moment are not recorded: a state of optax does not tell its "
    "decay and epsilon. Give optimizer_state=(transformation, state) instead of the state, such as "
    "(optax.adam(1e-3), opt_state). Where several transformations of one kind differ in them, they "
    "cannot be told apart."
)
_EPSILON_IN_ROOT = ("scale_by_rms", "scale_by_rss", "scale_by_adadelta")


def optax_moments(given: Any, known: Variables, own: Framework) -> Held:
    """The moments in a state, in (transformation, state), or in what holds `tx` and `opt_state`.

    By the position of the variable, with notices of what is not recorded.
    """
    transformation, state = _parts(given)
    settings = settings_in(transformation)
    notices: list[str] = []
    found: dict[int, dict[str, Any]] = {}
    for name, each, injected in _states(state, {}):
        layout = _LAYOUTS.get(name)
        if layout is None:
            if any(keys in known.position for keys, _ in _tensors(each)):
                notices.append(f"The state of {name} is not recorded: its form is not known.")
            continue
        choice = settings.of(layout.maker, injected)
        if layout.maker and choice is None:
            notices.append(_UNSET)
        for position, part in _by_variable(each, layout, known).items():
            merged = found.setdefault(position, {})
            moments = _moments(part, layout, choice, getattr(each, "count", None), own)
            # Of several, the first: a momentum after an RMSprop has no second moment.
            merged.update({n: x for n, x in moments.items() if n not in merged})
    return {position: HeldMoments(**parts) for position, parts in found.items()}, notices


def _parts(given: Any) -> tuple[Any, Any]:
    if hasattr(given, "opt_state"):  # Flax's TrainState and Optimizer.
        return getattr(given, "tx", None), given.opt_state
    is_pair = isinstance(given, tuple) and len(given) == 2 and hasattr(given[0], "update")
    return (given[0], given[1]) if is_pair and hasattr(given[0], "init") else (None, given)


def _states(tree: Any, injected: Mapping[str, Any]) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """The states of single transformations: names, states, and what was injected around them."""
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from _states(value, injected)
        return
    if not isinstance(tree, tuple | list):
        return
    fields = getattr(tree, "_fields", None)
    if fields is None:
        for value in tree:
            yield from _states(value, injected)
        return
    name = type(tree).__name__
    if name in _LAYOUTS:
        yield name, tree, injected
        return
    injected = getattr(tree, "hyperparams", injected)
    nested = [value for n, value in zip(fields, tree, strict=True) if n in _NESTED]
    if not nested:
        yield name, tree, injected
    for value in nested:
        yield from _states(value, injected)


_NESTED = ("inner_state", "inner_states", "inner_opt_state", "base_optimizer_state", "state")
"""The fields by which states hold those of other transformations."""


def _tensors(state: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The leaves of a state's fields, each with the keys below its field."""
    for value in state:
        if hasattr(value, "shape") or value is None:
            continue  # A count.
        for leaf in leaves(value):
            if hasattr(leaf.value, "shape") and "float" in dtype_name(leaf.value):
                yield leaf.keys, leaf.value


def _by_variable(state: Any, layout: _Layout, known: Variables) -> dict[int, dict[str, Any]]:
    """By the position of the variable, the tensors of the layout's fields."""
    found: dict[int, dict[str, Any]] = {}
    for role in ("first", "second", "largest"):
        name = getattr(layout, role)
        if not name:
            continue
        tensors = [leaf for leaf in leaves(getattr(state, name)) if hasattr(leaf.value, "shape")]
        in_order = len(tensors) == len(known.order)
        for place, leaf in enumerate(tensors):
            position = known.position.get(leaf.keys)
            if position is None and in_order:
                position = known.order[place]
            if position is None:
                raise WrongValueError(
                    f"optimizer_state= has {name}[{'/'.join(leaf.keys)!r}], which belongs to no "
                    "variable. Give the state of the transformation that updates parameters=."
                )
            found.setdefault(position, {})[role] = leaf.value
    return found


def _moments(
    part: Mapping[str, Any],
    layout: _Layout,
    settings: Mapping[str, Any] | None,
    count: Any,
    own: Framework,
) -> dict[str, Any]:
    """The arguments of `HeldMoments`."""
    found = {role: part[role] for role in ("first", "second") if role in part}
    if settings is None or "second" not in part or "eps" not in settings:
        return found
    correction: Any = 1.0
    if layout.decay and settings.get(layout.decay) is not None:
        correction = own.bias_correction(settings[layout.decay], count)
    is_in_root = settings.get("eps_in_sqrt", layout.maker in _EPSILON_IN_ROOT)
    epsilon = settings["eps"] ** 0.5 if is_in_root else settings["eps"]
    if "eps_root" in settings:  # What both come to where v is 0.
        epsilon = epsilon + settings["eps_root"] ** 0.5
    if "largest" in part:
        found["divisor"] = part["largest"]  # Corrected by optax before it took the largest.
    return found | {"correction": correction, "floor": epsilon * correction**0.5}
