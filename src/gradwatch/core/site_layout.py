"""Which rows of readings are of which kind, found once for all readings of the same sites."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core.kinds import Kind
from gradwatch.core.sites import Site
from gradwatch.util.by_identity import ByIdentity


class SiteLayout:
    """What the sites of a reading tell without its numbers.

    Attributes:
        rows: by kind, the positions of its sites.
        numbers: the positions of all kinds that are one number.
        is_report: whether training reported all of it.
        has_no_tensors: whether it has only the loss, other numbers and the batch.
    """

    def __init__(self, sites: Sequence[Site]) -> None:
        rows: dict[Kind, list[int]] = {}
        for i, site in enumerate(sites):
            rows.setdefault(site.kind, []).append(i)
        self.rows: Mapping[Kind, NDArray[np.intp]] = {
            kind: np.array(places, np.intp) for kind, places in rows.items()
        }
        alone = [i for kind, places in rows.items() if kind.is_number for i in places]
        self.numbers = np.array(alone, np.intp)
        self.is_report = all(kind.is_reported for kind in rows)
        self.has_no_tensors = all(kind.is_number or kind.is_of_batch for kind in rows)


_of_tuple = ByIdentity(SiteLayout)


def site_layout(sites: Sequence[Site]) -> SiteLayout:
    """The layout of these sites; readings that share their tuple of sites share it."""
    return _of_tuple(sites) if isinstance(sites, tuple) else SiteLayout(sites)
