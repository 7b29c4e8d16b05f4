"""The scalars of steps for TensorBoard, all encoded at once.

A run measures the same sites again and again, so the bytes of its scalars are the
same at each step, but for four of each: the number itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import VALUE, Kind, Reading, Site, Summary, l2, stacked, statistic
from gradwatch.sinks.event_file import envelope, scalar

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Template: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.intp]]

KEPT_TEMPLATES = 4

NOT_TAGGED = (Kind.LOSS, Kind.SCALAR)
"""Numbers whose tag does not begin with their kind: a loss is under its path, and the other
numbers of a step are for the diagnosis."""

RATIO_MEANING = "The L2 norm of the variable's update divided by the L2 norm of the variable."


class Place(NamedTuple):
    """Where a row's statistics are shown: under prefix + statistic + suffix."""

    prefix: str
    suffix: str
    kind: Kind


class ScalarTable:
    """The numbers that are the same few at each step of the same sites.

    They are the statistics of sites, layers, named groups and the whole model, the shares of zeros
    in outputs, the ratios of updates, the epoch, and kinds that are numbers. A table made of one
    reading fits all others with the same sites.
    """

    def __init__(self, reading: Reading, statistics: Sequence[str]) -> None:
        self.of = (reading.sites, reading.members)
        """Its sites and groups, kept so that their identities stay valid."""
        self._statistics = tuple(statistics)
        self._places, self._source, self._starts = _places(reading)
        sites = reading.sites
        self._outputs = [i for i, site in enumerate(sites) if site.kind is Kind.OUTPUT]
        pairs = [
            (i, reading.position[weight])
            for i, site in enumerate(sites)
            if site.kind is Kind.UPDATE
            and (weight := Site(Kind.WEIGHT, site.path)) in reading.position
        ]
        self._updates, self._weights = [i for i, _ in pairs], [w for _, w in pairs]
        losses = [i for i, site in enumerate(sites) if site.kind is Kind.LOSS]
        numbers = [i for i, s in enumerate(sites) if s.kind.is_number and s.kind not in NOT_TAGGED]
        self._single = [*losses, *numbers]
        self._others: list[tuple[str, Kind | str]] = [
            *((f"output_zero_share/{sites[i].path}", Kind.OUTPUT) for i in self._outputs),
            *((f"update_ratio/{sites[i].path}", RATIO_MEANING) for i in self._updates),
            (f"{reading.scope}/epoch", ""),
            *((sites[i].path, Kind.LOSS) for i in losses),
            *((f"{sites[i].kind}/{sites[i].path}", sites[i].kind.meaning) for i in numbers),
        ]
        self._templates: dict[bytes, Template | None] = {}
        """By which numbers there are; None when they have been written once."""

    def rows(self, reading: Reading) -> Iterator[tuple[str, float]]:
        """Tag and number of all that there is to show."""
        numbers, is_shown = self._numbers([reading], stacked([reading]))
        values = numbers[is_shown].tolist()
        for (tag, _), number in zip(self._tags(is_shown[0]), values, strict=True):
            yield tag, number

    def encoded(
        self, readings: Sequence[Reading], rows: Array, describe: Callable[[str, Kind | str], str]
    ) -> list[bytes]:
        """The same of each reading, as values of an event; `rows` is `stacked(readings)`.

        `describe` returns the words to write along with a tag, when it is written first, from what
        it is about: a kind, or the words themselves.
        """
        numbers, is_shown = self._numbers(readings, rows)
        found = [b""] * len(readings)
        alike: dict[bytes, list[int]] = {}
        for i, shown in enumerate(is_shown):
            key = shown.tobytes()
            if key in self._templates:
                alike.setdefault(key, []).append(i)
            else:
                # The template comes next time: only these have descriptions.
                if len(self._templates) >= KEPT_TEMPLATES:
                    self._templates.clear()
                self._templates[key] = None
                found[i] = b"".join(
                    envelope(scalar(tag, number, describe(tag, about)))
                    for (tag, about), number in zip(
                        self._tags(shown), numbers[i, shown].tolist(), strict=True
                    )
                )
        for key, own in alike.items():
            shown = is_shown[own[0]]
            template, places = self._templates.get(key) or self._template(shown)
            self._templates[key] = (template, places)
            values = numbers[np.ix_(np.array(own), np.flatnonzero(shown))].astype("<f4")
            filled = np.repeat(template[None], len(own), axis=0)
            filled[:, places] = values.view(np.uint8)
            for i, row in zip(own, filled, strict=True):
                found[i] = row.tobytes()
        return found

    def _numbers(self, readings: Sequence[Reading], rows: Array) -> tuple[Array, Mask]:
        """A row of all numbers for each reading, and which of them are to be shown."""
        epochs = np.array([[reading.epoch] for reading in readings], np.float64)
        parts = [(epochs, np.ones(epochs.shape, bool))]
        # For small arrays, every operation that is left out counts.
        if self._updates:
            ratios = self._ratios(rows)
            parts.insert(0, (ratios, ~np.isnan(ratios)))
        if self._outputs:
            outputs = _summary(rows, self._outputs)
            parts.insert(0, (outputs.zeros / outputs.count, outputs.count > 0))
        if self._places:
            parts.insert(0, self._statistics_of(rows))
        if self._single:
            values = VALUE(_summary(rows, self._single))
            parts.append((values, np.ones(values.shape, bool)))
        numbers, masks = zip(*parts, strict=True)
        return np.concatenate(numbers, axis=1), np.concatenate(masks, axis=1)

    def _statistics_of(self, rows: Array) -> tuple[Array, Mask]:
        merged = Summary.merged_runs(rows[:, :, self._source], self._starts)
        numbers = np.empty((len(rows), len(self._statistics), len(self._places)))
        for i, name in enumerate(self._statistics):
            numbers[:, i] = statistic(name, merged)
        # Of a tensor without elements there is no mean; of one full of NaN there is: NaN.
        is_shown = ~(np.isnan(numbers) & (merged.count == 0)[:, None])
        return numbers.reshape(len(rows), -1), is_shown.reshape(len(rows), -1)

    def _ratios(self, rows: Array) -> Array:
        """The sizes of updates relative to the variables'; NaN where those are all 0."""
        sizes = l2(_summary(rows, self._weights))
        return l2(_summary(rows, self._updates)) / np.where(sizes > 0, sizes, np.nan)

    def _template(self, is_shown: Mask) -> Template:
        """The bytes, and where in them the numbers' bytes are."""
        pieces = [envelope(scalar(tag, 0.0)) for tag, _ in self._tags(is_shown)]
        template = np.frombuffer(b"".join(pieces), np.uint8)
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.intp)
        return template, (ends[:, None] + np.arange(-4, 0)).ravel()

    def _tags(self, is_shown: Mask) -> Iterator[tuple[str, Kind | str]]:
        """Tag of each number that is shown, and what it is about."""
        first_other = len(self._statistics) * len(self._places)
        for at in np.flatnonzero(is_shown).tolist():
            if at >= first_other:
                yield self._others[at - first_other]
            else:
                name, place = divmod(at, len(self._places))
                prefix, suffix, kind = self._places[place]
                yield f"{prefix}{self._statistics[name]}{suffix}", kind


def _summary(rows: Array, sites: Sequence[int]) -> Summary:
    return Summary(*np.moveaxis(rows[:, :, sites], 1, 0))


def _places(reading: Reading) -> tuple[list[Place], NDArray[np.intp], NDArray[np.intp]]:
    """The places, the sites that are merged into each, in a row, and where in it each begins."""
    sites = reading.sites
    tensors = [i for i, site in enumerate(sites) if not site.kind.is_number]
    places = [Place(f"{sites[i].kind}_", f"/{sites[i].path}", sites[i].kind) for i in tensors]
    source, starts = list(tensors), list(range(len(tensors)))

    def add(place: Place, members: Sequence[int]) -> None:
        starts.append(len(source))
        source.extend(members)
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
    return places, np.array(source, np.intp), np.array(starts, np.intp)
