"""The scalars of a step for TensorBoard, all encoded at once.

A run measures the same sites again and again, so the bytes of its scalars are the
same at each step, but for four of each: the number itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradwatch.reading import Reading
from gradwatch.sinks.event_file import envelope, scalar
from gradwatch.sites import Kind
from gradwatch.summary import statistic

Array = NDArray[np.float64]
Template: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.intp]]

KEPT_TEMPLATES = 4


class Place(NamedTuple):
    """Where a row's statistics are shown: under prefix + statistic + suffix."""

    prefix: str
    suffix: str
    kind: Kind


class ScalarTable:
    """The statistics of sites, layers, named groups and the whole model.

    Args:
        reading: one with these sites; the table does for all others with the same.
        statistics: the names of the statistics.

    Example:

    >>> from gradwatch.reading import Reading
    >>> from gradwatch.sinks.scalar_table import ScalarTable
    >>> from gradwatch.sites import Kind, Site
    >>> from gradwatch.summary import Summary
    >>> sites = (Site(Kind.WEIGHT, "dense/kernel"), Site(Kind.WEIGHT, "dense/bias"))
    >>> rows = [Summary.of([3.0]).pack(), Summary.of([4.0]).pack()]
    >>> reading = Reading(1, 1, 0.0, sites, Summary.unpack(rows))
    >>> table = ScalarTable(reading, ["l2"])
    >>> for tag, number, _ in table.rows(reading):
    ...     print(tag, number)
    weight_l2/dense/kernel 3.0
    weight_l2/dense/bias 4.0
    layer_weight_l2/dense 5.0
    model/weight_l2 5.0
    """

    def __init__(self, reading: Reading, statistics: Sequence[str]) -> None:
        self.of = (reading.sites, reading.members)
        """What it was made from, kept so that it can be recognised by its identity."""
        self._statistics = tuple(statistics)
        places, source, target = _places(reading)
        self._places = places
        self._source = np.array(source, np.intp)
        self._target = np.array(target, np.intp)
        self._templates: dict[bytes, Template | None] = {}
        """By which numbers there are; None when they have been written once."""

    def rows(self, reading: Reading) -> Iterator[tuple[str, float, Kind]]:
        """Tag, number and kind of all that there is to show."""
        numbers, is_shown = self._numbers(reading)
        values = numbers[is_shown].tolist()
        for (tag, kind), number in zip(self._tags(is_shown), values, strict=True):
            yield tag, number, kind

    def encoded(self, reading: Reading, describe: Callable[[str, Kind], str]) -> bytes:
        """The same as values of an event.

        Args:
            reading: one with the sites of the table.
            describe: the words to write along with a tag, when it is written first.
        """
        numbers, is_shown = self._numbers(reading)
        key = is_shown.tobytes()
        if key not in self._templates:
            # The template comes next time: only these have descriptions.
            if len(self._templates) >= KEPT_TEMPLATES:
                self._templates.clear()
            self._templates[key] = None
            return b"".join(
                envelope(scalar(tag, number, describe(tag, kind)))
                for tag, number, kind in self.rows(reading)
            )
        template, ends = self._templates[key] or self._template(is_shown)
        self._templates[key] = (template, ends)
        values = numbers[is_shown].astype("<f4")
        filled = template.copy()
        filled[ends[:, None] + np.arange(-4, 0)] = values.view(np.uint8).reshape(-1, 4)
        return filled.tobytes()

    def _numbers(self, reading: Reading) -> tuple[Array, NDArray[np.bool_]]:
        """Every statistic of every place, and whether there is anything to show."""
        rows = reading.summary[self._source].merge_by(self._target, len(self._places))
        numbers = np.empty((len(self._statistics), len(self._places)))
        for values, name in zip(numbers, self._statistics, strict=True):
            values[:] = statistic(name, rows)
        # Of a tensor without elements there is no mean; of one full of NaN there is: NaN.
        return numbers, ~(np.isnan(numbers) & (rows.count == 0))

    def _template(self, is_shown: NDArray[np.bool_]) -> Template:
        """The bytes, and where each number ends in them."""
        pieces = [envelope(scalar(tag, 0.0)) for tag, _ in self._tags(is_shown)]
        template = np.frombuffer(b"".join(pieces), np.uint8)
        return template, np.cumsum([len(piece) for piece in pieces], dtype=np.intp)

    def _tags(self, is_shown: NDArray[np.bool_]) -> Iterator[tuple[str, Kind]]:
        for i, j in np.argwhere(is_shown).tolist():
            place = self._places[j]
            yield f"{place.prefix}{self._statistics[i]}{place.suffix}", place.kind


def _places(reading: Reading) -> tuple[list[Place], list[int], list[int]]:
    """The places, and which sites (first list) are merged into which of them (second)."""
    sites = reading.sites
    tensors = [i for i, site in enumerate(sites) if not site.kind.is_number]
    places = [Place(f"{sites[i].kind}_", f"/{sites[i].path}", sites[i].kind) for i in tensors]
    source, target = list(tensors), list(range(len(tensors)))

    def add(place: Place, members: Sequence[int]) -> None:
        source.extend(members)
        target.extend([len(places)] * len(members))
        places.append(place)

    for kind in dict.fromkeys(sites[i].kind for i in tensors if not sites[i].kind.is_of_batch):
        whole = [i for i in tensors if sites[i].kind is kind and not sites[i].is_slice]
        layers: dict[str, list[int]] = {}
        for i in whole:
            layers.setdefault(sites[i].layer, []).append(i)
        for name, members in layers.items():
            add(Place(f"layer_{kind}_", f"/{name}", kind), members)
        prefix = f"{reading.scope}/" if reading.scope != "model" else ""
        for name, positions in reading.members.items():
            members = [i for i in positions if sites[i].kind is kind]
            if members:
                add(Place(f"group_{kind}_", f"/{prefix}{name}", kind), members)
        if whole:
            add(Place(f"{reading.scope}/{kind}_", "", kind), whole)
    return places, source, target
