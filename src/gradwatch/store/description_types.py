"""The types of what `run.json` says; readers get only what is of them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from gradwatch.store import checks
from gradwatch.util import Json

Type: TypeAlias = Any
"""Of a value: a type, a tuple of types, a range, `[Type]` for a list, `{key: Type}` for a mapping
that may have other keys too, or `{...: Type}` for one whose values are all alike."""

_TEXT, _FLAG, _ANY = (str, type(None)), (bool, type(None)), object
_NUMBER = (int, float, type(None))
_SITE = {"kind": str, "path": str, "shape": [(int, type(None))], "dtype": _TEXT, "part": _TEXT}
_LAYER = {
    "path": str,
    **dict.fromkeys(("class_name", "activation", "dtype"), _TEXT),
    **dict.fromkeys(("units", "rate"), _NUMBER),
    **dict.fromkeys(("trainable", "is_inferring", "is_fresh"), _FLAG),
}
_ONE_MODEL = {
    "layers": [_LAYER],
    "outputs": [str],
    "loss": {
        **dict.fromkeys(("name", "reduction", "rest"), _TEXT),
        **dict.fromkeys(("from_logits", "is_nonnegative", "is_of_own_step"), _FLAG),
        "axis": _NUMBER,
        "shapes": (list, type(None)),
    },
    "optimizer": {
        "name": _TEXT,
        "is_scheduled": _FLAG,
        **dict.fromkeys(
            (
                "learning_rate", "loss_scale", "weight_decay", "epsilon", "beta_1", "beta_2",
                "momentum", "clip_norm", "clip_value",
            ),
            _NUMBER,
        ),
    },
    "targets_are_whole": _FLAG,
    "batch_size": _NUMBER,
    "precision": _TEXT,
    "parameters": {
        **dict.fromkeys(("total", "trainable"), _NUMBER),
        **{key: [str] for key in ("unheld", "unregistered", "uncalled", "fresh")},
    },
    "is_linear": _FLAG,
}  # fmt: skip
_MODEL = {**_ONE_MODEL, "groups": {...: _ONE_MODEL}}
_FIT = {
    **dict.fromkeys(("started", "every", "training"), _TEXT),
    "first_step": _NUMBER,
    "ranks": range(1, 100_001),
    "watch": [str],
    "meaning": {...: str},
    "environment": {...: (str, int, float, bool, type(None))},
    "imported": {...: _TEXT},
    "model": _MODEL,
    "sites": [_SITE],
}
_CONTENT = {
    "fits": [_FIT],
    "fit_count": range(1 << 53),
    "sites": [_SITE],
    "unseen": [{"kind": str, "path": str}],
    "model": _MODEL,
    "meaning": {...: str},
    "diagnose": {"silences": [{"rule": str, "where": str, "because": str}]},
    "cost": {...: _NUMBER},
    "ended": (str, int, float, type(None)),
    "config": {...: _ANY},
    "tags": [str],
    "note": _TEXT,
}
_REQUIRED = ("kind", "path", "rule", "where", "because")
_NAMES = {str: "a text", list: "a list", dict: "a mapping", bool: "true or false"}


def fitting(content: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """The parts of a run's description that are of the right types, and what is wrong with others.

    A part that is not is left out, with all that it holds; parts of no known meaning are kept.
    """
    faults: list[str] = []
    return dict(_fitted(dict(content), _CONTENT, "", faults)), faults


def _fitted(value: Json, type_: Type, where: str, faults: list[str]) -> Json:
    """The value without what does not fit in it; `_NOTHING` if it does not fit itself."""
    if isinstance(type_, dict):
        if not isinstance(value, dict):
            return _refused(value, "a mapping", where, faults)
        known = dict.fromkeys(value, type_[...]) if ... in type_ else type_
        parts = {
            k: _fitted(v, known.get(k, _ANY), f"{where}.{k}", faults) for k, v in value.items()
        }
        kept = {key: part for key, part in parts.items() if part is not _NOTHING}
        missing = [key for key in _REQUIRED if key in known and key not in kept]
        return _refused(value, f"what has a {missing[0]}", where, faults) if missing else kept
    if isinstance(type_, list):
        if not isinstance(value, list):
            return _refused(value, "a list", where, faults)
        each = (_fitted(v, type_[0], f"{where}[{i}]", faults) for i, v in enumerate(value))
        return [part for part in each if part is not _NOTHING]
    if isinstance(type_, range):
        is_one = type(value) is int and value in type_
        return value if is_one else _refused(value, "a possible number", where, faults)
    is_finite = not isinstance(value, float) or math.isfinite(value)
    is_flag = isinstance(value, bool) and type_ is not _ANY and bool not in _several(type_)
    if isinstance(value, type_) and is_finite and not is_flag:
        return value
    return _refused(value, " or ".join(_words(type_)), where, faults)


def _several(type_: Type) -> tuple[type, ...]:
    return type_ if isinstance(type_, tuple) else (type_,)


def _words(type_: Type) -> Iterator[str]:
    yield from dict.fromkeys(
        _NAMES.get(each, "a number") for each in _several(type_) if each is not type(None)
    )


class _Nothing:
    """Stands for a value that is left out."""


_NOTHING = _Nothing()


def _refused(value: Json, what: str, where: str, faults: list[str]) -> _Nothing:
    faults.append(f"{where.removeprefix('.')} is {checks.shown(value)}, not {what}")
    return _NOTHING
