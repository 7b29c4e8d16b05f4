"""Which sites are merged into which rows: layers, blocks and the whole model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from gradwatch.core import Site


@dataclass(frozen=True)
class RowGroups:
    """For each row the sites that are merged into it, all of one kind; a site may be in several.

    Two with the same key have the same rows: the sites themselves are not compared.
    """

    key: Hashable
    sites: tuple[tuple[Site, ...], ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, sites: Sequence[Sequence[Site]]) -> RowGroups:
        """Rows that are their own key."""
        given = tuple(map(tuple, sites))
        return cls(given, given)

    def __len__(self) -> int:
        return len(self.sites)

    def classes(self) -> tuple[list[tuple[int, ...]], dict[Site, int]]:
        """The sets of rows that sites are in, and which of these each site has.

        Sites of one class are always merged together, so they are merged once and not
        once for every row that they are in.
        """
        rows_of: dict[Site, list[int]] = {}
        for row, sites in enumerate(self.sites):
            for site in sites:
                rows_of.setdefault(site, []).append(row)
        numbers: dict[tuple[int, ...], int] = {}
        class_of = {s: numbers.setdefault(tuple(r), len(numbers)) for s, r in rows_of.items()}
        return list(numbers), class_of
