"""What values in a run's files may be; all else is damage, also if its checksum fits.

Each function returns the value, or raises `ValueError` in words.
"""

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from gradwatch.util import Json

T = TypeVar("T")

LARGEST = 1 << 53
"""Whole numbers up to this one are exact in every language that reads a run."""
LARGEST_INDEX = (1 << 31) - 1
LATEST = 8.6e12
"""The time that a browser's calendar knows, before and after 1970, in seconds."""


def whole(value: Json, low: int = 0, high: int = LARGEST) -> int:
    if type(value) is not int:
        raise ValueError(f"{shown(value)} is no whole number")
    if not low <= value <= high:
        raise ValueError(f"{shown(value)} is too {'small' if value < low else 'large'}")
    return value


def index(value: Json) -> int:
    return whole(value, 0, LARGEST_INDEX)


def step(value: Json) -> int:
    return whole(value, -LARGEST)


def moment(value: Json) -> float:
    """Seconds since 1970."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -LATEST <= value <= LATEST:
        raise ValueError(f"{shown(value)} is no time")
    return float(value)


def number(value: Json) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) < math.inf:
        raise ValueError(f"{shown(value)} is no number")
    return float(value)


def flag(value: Json) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is neither true nor false")
    return value


def text(value: Json) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no text")
    return value


def mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} is no mapping")
    return value


def sequence(value: Json) -> list[Json]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{shown(value)} is no list")
    return list(value)


def optional(check: Callable[[Json], T], value: Json) -> T | None:
    return None if value is None else check(value)


def fields(about: Json, checks: Mapping[str, Callable[[Json], Any]]) -> dict[str, Json]:
    """A mapping with these keys, each with a value that fits; others may be there too."""
    found = mapping(about)
    for name, check in checks.items():
        try:
            check(found.get(name))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def site(entry: Json) -> tuple[str, str, str]:
    """Kind, path and group."""
    if len(sequence(entry)) != 3:
        raise ValueError(f"{shown(entry)} is no site")
    kind, path, group = entry
    return text(kind), text(path), text(group)


def sites(entries: Iterable[Json]) -> list[tuple[str, str, str] | None]:
    """The sites of a writer, each once; None for one that is not known."""
    found = [optional(site, entry) for entry in entries]
    known = [entry for entry in found if entry is not None]
    if len(set(known)) < len(known):
        raise ValueError("one site has two numbers")
    return found


def attempt(about: Json) -> dict[str, Json]:
    return fields(about, _ATTEMPT)


def groups(value: Json) -> dict[str, list[int]]:
    """The numbers of sites by the name of their group."""
    found = mapping(value)
    return {name: [index(each) for each in sequence(own)] for name, own in found.items()}


def end(about: Json) -> dict[str, Json]:
    return fields(about, _END)


def writer(about: Json, name: str) -> dict[str, Json]:
    """The facts of the writer of that name: no other file is named by them."""
    found = fields(about, _WRITER)
    rank = int(name.split("-r")[1].split("-")[0])
    if found["writer"] != name or found["rank"] != rank:
        raise ValueError(f"it is of {shown(found['writer'])}, rank {found['rank']}")
    return found


def shown(value: object) -> str:
    """The value in a message, which may be long."""
    return _SHORT.repr(value)


def reason(error: BaseException) -> str:
    """What is wrong, in a message."""
    return f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"


def each(check: Callable[[Json], T], values: Iterable[Json]) -> list[T]:
    return [check(value) for value in values]


_ATTEMPT: Mapping[str, Callable[[Json], Any]] = {
    "attempt": index,
    "first_step": step,
    "group": lambda value: optional(text, value),
    "time": lambda value: optional(moment, value),
}
_END: Mapping[str, Callable[[Json], Any]] = {
    "time": lambda value: optional(moment, value),
    "lost_rows": lambda value: optional(whole, value),
}
_WRITER: Mapping[str, Callable[[Json], Any]] = {
    "writer": text,
    "rank": index,
    "host": lambda value: optional(text, value),
    "pid": lambda value: optional(whole, value),
    "process_start": lambda value: optional(whole, value),
    "started": lambda value: optional(moment, value),
}
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
