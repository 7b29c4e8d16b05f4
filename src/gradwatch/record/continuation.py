"""Whether a training continues the run that a directory holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradwatch.core import KINDS, ModelFacts, SiteInfo
from gradwatch.store import (
    DESCRIPTION,
    parse_journal,
    parse_manifest,
    read_description,
    writers_in,
)
from gradwatch.util import Json

ASKED_FOR = "asked_for"
"""In `run.json`: the name of the directory that the user gave, where the run is in another."""
_ROWS = re.compile(r"events\.out\.tfevents\..*|.*\.csv")


@dataclass(frozen=True)
class Beginning:
    """What is known of a training when its recording begins.

    `layers` has the class and the units of each layer, `shapes` the shapes of variables, as far as
    they are known; both by path. `rank` is the one that the user gave to the store: only the rows
    of that rank are then continued.
    """

    first_step: int = 1
    layers: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rank: int | None = None

    @classmethod
    def of(cls, first_step: int, facts: ModelFacts, infos: Iterable[SiteInfo]) -> Beginning:
        layers = {layer.path: (layer.class_name, layer.units) for layer in facts.layers}
        variables = [info for info in infos if info.kind.is_of_variable]
        return cls(first_step, layers, {info.path: tuple(info.shape) for info in variables})

    def obstacle(self, directory: Path, *, has_rows: bool | None = None) -> str:
        """Why this training does not continue the run in a directory, in words.

        It is empty if it does, or if nothing is recorded there. A run continues with the same model
        from a later step than that at which it began.
        """
        if not (holds_rows(directory, self.rank) if has_rows is None else has_rows):
            return ""
        known = _described(directory)
        if self._differs(known):
            return "holds the training of another model"
        if self.first_step <= known.first_step:
            began, begins = known.first_step, self.first_step
            return f"holds a training from step {began} on already; this one begins at {begins}"
        return ""

    def _differs(self, other: Beginning) -> bool:
        """Whether the models are known to differ; of each, only a part may be known."""
        ours, theirs = self.layers.keys(), other.layers.keys()
        if ours and theirs:
            if not (ours <= theirs or theirs <= ours):
                return True
            pairs = ((self.layers[path], other.layers[path]) for path in ours & theirs)
            if any(None not in (a, b) and a != b for p in pairs for a, b in zip(*p, strict=True)):
                return True
        common = self.shapes.keys() & other.shapes.keys()
        if any(self.shapes[path] != other.shapes[path] for path in common):
            return True
        is_disjoint = bool(self.shapes) and bool(other.shapes) and not common
        return is_disjoint and not (ours and theirs)


def holds_rows(directory: Path, rank: int | None = None) -> bool:
    """Whether a sink, or the store of one rank, has written measurements there."""
    if rank is not None:
        return bool(writers_in(directory, rank))
    return any(
        parse_journal(name) or parse_manifest(name) or _ROWS.fullmatch(name)
        for name in _names(directory)
    )


def asked_for(directory: Path) -> str | None:
    """The name under which the run in a directory was asked for, if it is another."""
    name = _content(directory).get(ASKED_FOR)
    return name if isinstance(name, str) else None


def numbered(wished: Path) -> list[Path]:
    """The directories next to it with the same name and a number, the highest first."""
    pattern = re.compile(rf"{re.escape(wished.name)}-([1-9]\d{{0,8}})")
    found = {int(m[1]): m[0] for name in _names(wished.parent) if (m := pattern.fullmatch(name))}
    return [wished.with_name(found[number]) for number in sorted(found, reverse=True)]


def _names(directory: Path) -> Iterator[str]:
    with suppress(OSError):
        yield from (path.name for path in directory.iterdir())


def _content(directory: Path) -> Mapping[str, Json]:
    # Whatever is wrong with it, the run is then one of which nothing is known.
    with suppress(Exception):
        return read_description(directory / DESCRIPTION)
    return {}


def _described(directory: Path) -> Beginning:
    """The beginning of the run in a directory, as `run.json` tells it."""
    content = _content(directory)
    first = _path(content, "fits", 0, "first_step")
    layers = {
        each["path"]: (each.get("class_name"), each.get("units"))
        for each in _with_path(_path(content, "model", "layers"))
    }
    shapes = {
        each["path"]: tuple(each["shape"])
        for each in _with_path(content.get("sites"))
        if _is_of_variable(each.get("kind")) and isinstance(each.get("shape"), list)
    }
    return Beginning(first if isinstance(first, int) else 1, layers, shapes)


def _is_of_variable(kind: Json) -> bool:
    known = KINDS.get(kind) if isinstance(kind, str) else None
    return known is not None and known.is_of_variable


def _path(value: Json, *keys: str | int) -> Json:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _with_path(value: Json) -> Sequence[dict[str, Json]]:
    """The entries of a list that tell about a path."""
    entries = value if isinstance(value, list) else []
    return [x for x in entries if isinstance(x, dict) and isinstance(x.get("path"), str)]
