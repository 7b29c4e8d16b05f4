"""The thresholds of a rule, which may differ from site to site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.core import select as selectors


class Limits:
    """A rule's thresholds: one number each, or another one for chosen sites.

    Args:
        values: the thresholds by name.
        local: (selector, thresholds by name) for chosen sites; a later one goes first.

    Example:

    >>> from gradwatch import Kind, Site
    >>> from gradwatch.diagnosis.limits import Limits
    >>> limits = Limits({"share": 0.5}, [("conv*", {"share": 0.9})])
    >>> limits["share"], limits.at("share", "net/conv2d")
    (0.5, 0.9)
    >>> limits.per_site("share", [Site(Kind.OUTPUT, "net/conv2d"), Site(Kind.OUTPUT, "net/dense")])
    array([0.9, 0.5])
    """

    def __init__(
        self,
        values: Mapping[str, float],
        local: Sequence[tuple[selectors.Spec, Mapping[str, float]]] = (),
    ) -> None:
        self._values = dict(values)
        self._local = [(selectors.as_selector(spec), dict(own)) for spec, own in local]
        self._known: dict[Any, NDArray[np.float64]] = {}

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def at(self, name: str, path: str) -> float:
        """The threshold at one path."""
        for selector, own in reversed(self._local):
            if name in own and matches(selector, path):
                return own[name]
        return self._values[name]

    def per_site(self, name: str, sites: Sequence[Site]) -> NDArray[np.float64] | float:
        """The threshold at each site; one number where it is the same for all."""
        if not any(name in own for _, own in self._local):
            return self._values[name]
        # The sites of a table are one tuple from step to step.
        key = name, tuple(sites)
        if key not in self._known:
            self._known[key] = np.array([self.at(name, site.path) for site in sites])
        return self._known[key]


def matches(selector: selectors.Selector, path: str) -> bool:
    """Whether a selector chooses a path, as far as a path can tell."""
    site = Site(Kind.OUTPUT, path)
    return selector.matches(SiteInfo(site, (), "", path.rpartition("/")[2]))
