"""The summaries of what has passed the taps of one step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, count, product
from typing import Any, NamedTuple

from gradwatch.capture.user_taps.routing import shown
from gradwatch.core import Kind, Site

REPLICATED = "it is in a step that replicas of tf.distribute run. Train on one device to see it."

SCALED = (
    "Gradients of taps are those of the scaled loss: the scale of the LossScaleOptimizer is not "
    "divided out of them."
)

MOST_ITERATIONS = 256
"""Iterations of a loop that are sites of their own; of a longer loop, they are merged."""

_OF_LAYERS = (Kind.OUTPUT, Kind.OUTPUT_GRADIENT)


class TapMark(NamedTuple):
    """What one row, or an array of rows, is of."""

    kind: Kind
    name: str
    call: int = 1
    """Counted from 1 for each name in the step."""
    iterations: tuple[int, ...] = ()
    """The lengths of the loops that the tap is in: the first axes of the array of rows."""

    def paths(self) -> Iterator[str]:
        """The path of each row: `h`, `h@2`, `h/0`, `h/1`."""
        called = shown(self.name) + (f"@{self.call}" if self.call > 1 else "")
        for indices in product(*map(range, self.iterations)):
            yield "/".join([called, *map(str, indices)])


@dataclass(frozen=True, eq=False)
class TapRows:
    """What `with_taps` returns beside the result; give it to `record` or `measure` as `taps=`.

    Each part is an array of packed summaries on the device, whose last axis runs over the fields,
    with the marks of its rows. `notices` tell what is not recorded.
    """

    parts: Sequence[tuple[Sequence[TapMark], Any]] = ()
    notices: Sequence[str] = ()

    @property
    def arrays(self) -> list[Any]:
        return [array for _, array in self.parts]

    @property
    def sites(self) -> list[list[Site]]:
        """For each array, the sites of its rows. Two taps `h` and one `h@2` have three."""
        found: set[Site] = set()
        return [
            [_new_site(mark.kind, path, found) for mark in marks for path in mark.paths()]
            for marks, _ in self.parts
        ]

    def apart_from(self, layers: Set[str], prefix: str = "") -> TapRows:
        """The same, with other names for taps whose paths, after a prefix, are those of layers."""
        if not layers:
            return self
        start = f"{prefix}/" if prefix else ""
        same = {
            mark.name
            for marks, _ in self.parts
            for mark in marks
            if mark.kind in _OF_LAYERS and any(start + path in layers for path in mark.paths())
        }
        if not same:
            return self
        parts = [
            ([m._replace(name=f"{m.name} (tap)") if m.name in same else m for m in marks], array)
            for marks, array in self.parts
        ]
        notices = [
            f"The tap {name!r} has the name of a layer. It is recorded as '{name} (tap)'."
            for name in sorted(same)
        ]
        return TapRows(parts, [*self.notices, *notices])


def _new_site(kind: Kind, path: str, found: set[Site]) -> Site:
    """A site that was not found yet."""
    paths = chain([path], (f"{path} ({number})" for number in count(2)))
    site = next(site for site in (Site(kind, each) for each in paths) if site not in found)
    found.add(site)
    return site


def twice_used(name: str) -> str:
    """The notice about a name that stands for several tensors of a step."""
    name = shown(name)
    return (
        f"The tap {name!r} is passed more than once in a step: the second tensor is recorded as "
        f"'{name}@2', and so on. Give each place a name of its own."
    )


def not_recorded(name: str, why: str) -> str:
    return f"The tap {shown(name)!r} is not recorded: {why}"
