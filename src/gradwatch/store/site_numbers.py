"""The numbers that stand for sites in a writer's files."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Site

REMEMBERED = 16


class SiteNumbers:
    """Numbers sites from 0, by their first appearance; `entries` has kind, path and group.

    Readings come with the same few lists of sites again and again; the numbers of
    the last ones are remembered, so that ten thousand sites need not be looked up
    one by one.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, str]] = []
        self._number: dict[tuple[Site, str], int] = {}
        self._recent: deque[tuple[str, list[Site], NDArray[np.int64]]] = deque(maxlen=REMEMBERED)
        self._last: tuple[Sequence[Site], str, NDArray[np.int64]] | None = None

    def numbers(self, sites: Sequence[Site], group: str = "") -> NDArray[np.int64]:
        if self._last is not None and self._last[0] is sites and self._last[1] == group:
            return self._last[2]
        numbers = self._find(sites, group)
        # Only a tuple stays as it is.
        self._last = (sites, group, numbers) if isinstance(sites, tuple) else None
        return numbers

    def _find(self, sites: Sequence[Site], group: str) -> NDArray[np.int64]:
        # Lists compare their elements by identity first, so this is quick.
        wanted = list(sites)
        for known_group, known, numbers in self._recent:
            if known_group == group and known == wanted:
                return numbers
        numbers = np.array([self._number_of(site, group) for site in wanted], np.int64)
        self._recent.appendleft((group, wanted, numbers))
        return numbers

    def _number_of(self, site: Site, group: str) -> int:
        number = self._number.setdefault((site, group), len(self.entries))
        if number == len(self.entries):
            self.entries.append((str(site.kind), site.path, group))
        return number
