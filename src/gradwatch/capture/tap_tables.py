"""Summaries of taps among the arrays of a measurement."""

import itertools
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from gradwatch.capture.errors import WrongValueError
from gradwatch.capture.user_taps import TapRows
from gradwatch.core import FIELDS, Site
from gradwatch.measure import Framework

_NUMBER = "taps"

Sites = tuple[tuple[Site, ...], ...]
"""For each array, the sites of its rows."""

# Unique in this process: measurements of another monitor are never mistaken for own ones.
_numbers = itertools.count(1)


def tap_names(arrays: Mapping[str, Any]) -> list[str]:
    """The names of the arrays of taps."""
    return [name for name in arrays if name.startswith(_NUMBER)]


class TapTables:
    """What the rows of taps stand for; measurements carry a number by which that is found."""

    def __init__(self) -> None:
        self._numbers: dict[Sites, int] = {}
        self._sites: dict[int, Sites] = {}

    def arrays(self, own: Framework, taps: TapRows, prefix: str) -> dict[str, Any]:
        """The rows of taps by the names under which they leave a step; none without taps."""
        if not taps.parts:
            return {}
        sites = tuple(
            tuple(Site(s.kind, f"{prefix}/{s.path}" if prefix else s.path) for s in several)
            for several in taps.sites
        )
        for several, array in zip(sites, taps.arrays, strict=True):
            if tuple(array.shape) and prod(array.shape[:-1]) != len(several):
                raise WrongValueError(
                    "taps= takes those of one step; those of several, as of a scan over steps, are "
                    f"recorded one by one. Received: {several[0].path!r} of shape {array.shape}"
                )
        if sites not in self._numbers:
            number = self._numbers[sites] = next(_numbers)
            self._sites[number] = sites
        rows = {f"{_NUMBER}_{i}": array for i, array in enumerate(taps.arrays)}
        return {_NUMBER: own.constant(self._numbers[sites]), **rows}

    def rows(self, arrays: Mapping[str, Any]) -> dict[Site, Any]:
        """On the host: the packed summaries of all sites."""
        if _NUMBER not in arrays:
            return {}
        number = int(arrays[_NUMBER])
        if number not in self._sites:
            raise WrongValueError("These taps were measured by another monitor.")
        found: dict[Site, Any] = {}
        for i, sites in enumerate(self._sites[number]):
            rows = np.asarray(arrays[f"{_NUMBER}_{i}"]).reshape(-1, len(FIELDS))
            found.update(zip(sites, rows, strict=True))
        return found
