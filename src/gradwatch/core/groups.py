"""Groups of sites that the user has named, such as `encoder`: their members."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradwatch.core import select as selectors
from gradwatch.core.reading import Reading
from gradwatch.core.sites import Site, SiteInfo


class Grouping:
    """Finds the members of named groups in readings.

    A group is a selector or a list of them. One that needs more than a site's address, such as a
    layer's type, raises a TypeError.
    """

    def __init__(self, groups: Mapping[str, Any]) -> None:
        self._groups = {name: _selectors(name, spec) for name, spec in groups.items()}
        self._found: dict[tuple[Site, ...], dict[str, tuple[int, ...]]] = {}

    def attach(self, reading: Reading) -> Reading:
        """The reading with the members of the groups in it; called on one thread only."""
        if not self._groups:
            return reading
        sites = tuple(reading.sites)
        if sites not in self._found:
            self._found[sites] = self._members(sites)
        return replace(reading, members=self._found[sites])

    def unmatched(self) -> list[str]:
        """The names of groups without a member in any reading so far."""
        named = {name for members in self._found.values() for name in members}
        return [name for name in self._groups if name not in named] if self._found else []

    def _members(self, sites: Sequence[Site]) -> dict[str, tuple[int, ...]]:
        infos = [_info(site) for site in sites]
        offered = [
            i
            for i, s in enumerate(sites)
            if not (s.kind.is_number or s.kind.is_of_batch or s.is_slice)
        ]
        members = {}
        for name, (including, excluding) in self._groups.items():
            chosen = tuple(
                i
                for i in offered
                if any(s.matches(infos[i]) for s in including)
                and not any(s.matches(infos[i]) for s in excluding)
            )
            if chosen:
                members[name] = chosen
        return members


def _selectors(name: str, spec: Any) -> tuple[list[selectors.Selector], list[selectors.Selector]]:
    specs = [spec] if isinstance(spec, str) or not isinstance(spec, Sequence) else list(spec)
    for each in specs:
        if not isinstance(each, str | re.Pattern | selectors.Selector) and (
            isinstance(each, type) or not callable(each)
        ):
            raise TypeError(
                f"The group {name!r} is chosen by path patterns, regular expressions or functions "
                f"of a SiteInfo. Received: {each!r} (of type {type(each).__name__})"
            )
    return selectors.split(specs)


def _info(site: Site) -> SiteInfo:
    """All that is known of a site from its address."""
    return SiteInfo(site, shape=(), dtype="", part=site.path.rpartition("/")[2])
