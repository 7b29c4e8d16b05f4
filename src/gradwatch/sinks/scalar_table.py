"""The scalars of steps for TensorBoard, all encoded at once.

A run measures the same sites again and again, so the bytes of its scalars are the
same at each step, but for four of each: the number itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import (
    STATISTICS,
    UPDATE_RATIO,
    VALUE,
    Kind,
    Reading,
    Summary,
    shown,
    stacked,
    zero_share,
)
from gradwatch.sinks.event_file import envelope, scalar
from gradwatch.sinks.scalar_tags import ZERO_SHARE, Group, TaggedNumber, tagged_numbers

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]
Template: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.intp]]

KEPT_TEMPLATES = 4
KEPT_TABLES = 16


class ScalarTable:
    """The numbers that are the same few at each step of the same sites.

    A table made of one reading fits all others with the same sites. `statistics` are those to
    write of every site, layer and the model; None for the few of `tagged_numbers`.
    """

    def __init__(self, reading: Reading, statistics: Sequence[str] | None) -> None:
        self.of = (reading.sites, reading.members)
        """Its sites and groups, kept so that their identities stay valid."""
        self._has_epoch = statistics is not None and not reading.is_report
        numbers = tagged_numbers(reading, statistics)
        # By statistic: so that each is computed once, of all summaries.
        by_statistic: dict[str, list[TaggedNumber]] = {}
        for each in numbers:
            by_statistic.setdefault(each.statistic, []).append(each)
        runs = _Runs()
        self._columns = [
            (name, runs.add([n.of for n in own]), runs.add([n.per for n in own]))
            for name, own in by_statistic.items()
        ]
        self._source, self._starts = runs.arrays()
        self._tagged = [(n.tag, n.about) for own in by_statistic.values() for n in own]
        if self._has_epoch:
            self._tagged.append((f"{reading.scope}/epoch", ""))
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
        for i, own in enumerate(is_shown):
            key = own.tobytes()
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
                        self._tags(own), numbers[i, own].tolist(), strict=True
                    )
                )
        for key, own in alike.items():
            mask = is_shown[own[0]]
            template, places = self._templates.get(key) or self._template(mask)
            self._templates[key] = (template, places)
            values = numbers[np.ix_(np.array(own), np.flatnonzero(mask))].astype("<f4")
            filled = np.repeat(template[None], len(own), axis=0)
            filled[:, places] = values.view(np.uint8)
            for i, row in zip(own, filled, strict=True):
                found[i] = row.tobytes()
        return found

    def _numbers(self, readings: Sequence[Reading], rows: Array) -> tuple[Array, Mask]:
        """A row of all numbers for each reading, and which of them are to be shown."""
        parts: list[tuple[Array, Mask]] = []
        if self._columns:
            merged = Summary.merged_runs(rows[:, :, self._source], self._starts)
            parts += [_column(name, merged, of, per) for name, of, per in self._columns]
        if self._has_epoch:
            epochs = np.array([[reading.epoch] for reading in readings], np.float64)
            parts.append((epochs, np.ones(epochs.shape, bool)))
        if not parts:
            return np.zeros((len(readings), 0)), np.zeros((len(readings), 0), bool)
        numbers, masks = zip(*parts, strict=True)
        return np.concatenate(numbers, axis=1), np.concatenate(masks, axis=1)

    def _template(self, is_shown: Mask) -> Template:
        """The bytes, and where in them the numbers' bytes are."""
        pieces = [envelope(scalar(tag, 0.0)) for tag, _ in self._tags(is_shown)]
        template = np.frombuffer(b"".join(pieces), np.uint8)
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.intp)
        return template, (ends[:, None] + np.arange(-4, 0)).ravel()

    def _tags(self, is_shown: Mask) -> Iterator[tuple[str, Kind | str]]:
        """Tag of each number that is shown, and what it is about."""
        return (self._tagged[at] for at in np.flatnonzero(is_shown).tolist())


class ScalarTables:
    """The tables of the last few kinds of readings; `statistics` is that of `ScalarTable`."""

    def __init__(self, statistics: Sequence[str] | None) -> None:
        self._statistics = statistics
        self._tables: dict[tuple[int, int, str], ScalarTable] = {}

    def table_for(self, reading: Reading) -> ScalarTable:
        """The table for readings of these sites, which are recognised by their identity."""
        key = (id(reading.sites), id(reading.members) if reading.members else 0, reading.scope)
        if key not in self._tables:
            if len(self._tables) >= KEPT_TABLES:
                self._tables.clear()
            self._tables[key] = ScalarTable(reading, self._statistics)
        return self._tables[key]

    def clear(self) -> None:
        """Make them anew."""
        self._tables.clear()


class _Runs:
    """Groups of sites, side by side, so that those of a statistic are a slice of what they give."""

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._known: dict[tuple[Group, ...], slice] = {}

    def add(self, groups: Sequence[Group]) -> slice:
        """Where the summaries of these groups will be; empty ones are left out."""
        own = tuple(filter(None, groups))
        if own not in self._known:
            start = len(self._groups)
            self._groups += own
            self._known[own] = slice(start, len(self._groups))
        return self._known[own]

    def arrays(self) -> tuple[Places, Places]:
        """All sites of all groups, and where each group begins."""
        lengths = [len(group) for group in self._groups]
        sites = np.array([i for group in self._groups for i in group], np.intp)
        return sites, np.cumsum([0, *lengths[:-1]], dtype=np.intp)[: len(lengths)]


def _column(name: str, merged: Summary, of: slice, per: slice) -> tuple[Array, Mask]:
    """A statistic of some summaries, and where it is shown: not where it is not defined."""
    own = merged[:, of]
    if name == VALUE.name:
        return VALUE(own), np.ones(own.count.shape, bool)
    if name == ZERO_SHARE:
        return zero_share(own), own.count > 0
    if name == UPDATE_RATIO.name:
        size = shown(UPDATE_RATIO, merged[:, per])
        ratio = shown(UPDATE_RATIO, own) / np.where(size == 0, np.nan, size)
        return ratio, (size != 0) & (own.count > 0)
    values = shown(STATISTICS[name], own)
    # Of a tensor without elements there is no mean; of one with NaN there is: NaN.
    return values, ~(np.isnan(values) & (own.count == 0))
