"""The measurements of one step: the summaries of all its sites, as columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradwatch.core.histogram import Histogram
from gradwatch.core.kinds import Kind
from gradwatch.core.shown import shown
from gradwatch.core.site_layout import SiteLayout, site_layout
from gradwatch.core.sites import Site
from gradwatch.core.statistics import STATISTICS, statistic, value
from gradwatch.core.summary import FIELDS, Summary
from gradwatch.util.by_identity import ByIdentity
from gradwatch.util.display import notebook

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Reading:
    """The measurements of one training step.

    Attributes:
        step: the optimizer step, counted from 1.
        epoch: the epoch, counted from 1.
        time: when the step was run, in seconds since 1970.
        sites: what was measured, in network order.
        summary: one row of numbers a site, in the order of `sites`.
        cells: histogram counts by the position of their site in `sites`.
        group: the part of the training that was measured, such as `generator`; the paths
            of its sites begin with it. Empty for the whole training.
        micro_batch: the index of the measured micro-batch; None for the step as a whole.
        pictures: RGB images of tensors by their site.
        members: positions in `sites` of the members of each group of sites that
            the user has named, see `gradwatch.Totals`.
        unseen: sites whose tensors were not seen in the step: their rows are empty.
        is_late: whether the step was measured by running it again, after later steps.
    """

    step: int
    epoch: int
    time: float
    sites: Sequence[Site]
    summary: Summary
    cells: Mapping[int, Array] = field(default_factory=dict)
    group: str = ""
    micro_batch: int | None = None
    members: Mapping[str, Sequence[int]] = field(default_factory=dict)
    pictures: Mapping[Site, NDArray[np.uint8]] = field(default_factory=dict)
    unseen: frozenset[Site] = frozenset()
    is_late: bool = False

    @cached_property
    def layout(self) -> SiteLayout:
        """Which rows are of which kind."""
        return site_layout(self.sites)

    @property
    def is_report(self) -> bool:
        """Whether training reported all of it; it may then come after readings of later steps."""
        return self.layout.is_report

    def __len__(self) -> int:
        return len(self.sites)

    def __repr__(self) -> str:
        of_what = "" if self.scope == "model" else f" of {self.scope}"
        sites = f"{len(self):,} site{'s' * (len(self) != 1)}"
        return f"Reading(step {self.step:,}, epoch {self.epoch:,}{of_what}: {sites})"

    def _repr_html_(self) -> str:
        return notebook().readings_html([self])

    @cached_property
    def nbytes(self) -> int:
        """The size of its numbers in memory."""
        arrays = [*vars(self.summary).values(), *self.cells.values(), *self.pictures.values()]
        return sum(array.nbytes for array in arrays)

    @cached_property
    def position(self) -> dict[Site, int]:
        """Where each site stands in `sites`."""
        return {site: i for i, site in enumerate(self.sites)}

    def statistic(self, name: str) -> Array:
        """A statistic of every site, in the order of `sites`."""
        return statistic(name, self.summary)

    def histogram(self, index: int) -> Histogram | None:
        """The histogram of the site at that position, if one was taken."""
        cells = self.cells.get(index)
        return None if cells is None else Histogram(cells, self.summary[index])

    def total(self, kind: Kind) -> Summary | None:
        """All sites of a kind merged: the whole model's summary."""
        rows = [i for i, s in enumerate(self.sites) if s.kind is kind and not s.is_slice]
        return self.summary[rows].merge_all() if rows else None

    def layers(self, kind: Kind) -> dict[str, Summary]:
        """The sites of a kind merged layer by layer, in network order."""
        rows = [i for i, s in enumerate(self.sites) if s.kind is kind and not s.is_slice]
        group_of: dict[str, int] = {}
        groups = [group_of.setdefault(self.sites[i].layer, len(group_of)) for i in rows]
        merged = self.summary[rows].merge_by(groups, len(group_of))
        return {layer: merged[group] for layer, group in group_of.items()}

    def named_totals(self, kind: Kind) -> dict[str, Summary]:
        """The sites of a kind merged group by group, for the groups that the user has named.

        In a reading of a part of the training, the names begin with that part's.
        """
        prefix = f"{self.scope}/" if self.scope != "model" else ""
        totals = {}
        for name, positions in self.members.items():
            rows = [i for i in positions if self.sites[i].kind is kind]
            if rows:
                totals[prefix + name] = self.summary[rows].merge_all()
        return totals

    @property
    def scope(self) -> str:
        """The name of its totals: `model`, or the group and micro-batch."""
        return scope(self.group, self.micro_batch) or "model"

    def losses(self) -> dict[str, float]:
        """The step's losses by path; NaN or infinite where they were."""
        return self.numbers(Kind.LOSS)

    def numbers(self, kind: Kind) -> dict[str, float]:
        """The values by path of a kind that is one number; NaN or infinite where they were."""
        rows = self.layout.rows.get(kind)
        if rows is None:
            return {}
        values = self._values
        return {self.sites[i].path: values[i] for i in rows.tolist()}

    @cached_property
    def _values(self) -> dict[int, float]:
        """By position, the values of the kinds that are one number."""
        rows = self.layout.numbers
        return dict(zip(rows.tolist(), value(self.summary[rows]).tolist(), strict=True))

    def update_ratios(self) -> dict[str, float]:
        """The size of each variable's update relative to the variable itself.

        The ratio of the two L2 norms, by path; NaN where the variable is all 0, or one of them
        has NaN.
        """
        norms = shown(STATISTICS["l2"], self.summary)
        ratios = {}
        for i, site in enumerate(self.sites):
            if site.kind is not Kind.UPDATE:
                continue
            weight = self.position.get(Site(Kind.WEIGHT, site.path))
            if weight is not None:
                size = float(norms[weight])
                ratios[site.path] = float(norms[i]) / size if size != 0 else float("nan")
        return ratios


class SiteFilter:
    """Leaves some sites out of readings."""

    def __init__(self, is_left_out: Callable[[Site], bool]) -> None:
        self._is_left_out = is_left_out
        # One tuple for the same sites: sinks recognise them by its identity.
        self._kept = ByIdentity(self._choose)

    def __call__(self, reading: Reading) -> Reading:
        """The reading without them; itself if it has none of them."""
        rows, sites = self._kept(reading.sites)
        if len(sites) == len(reading.sites):
            return reading
        place = {old: new for new, old in enumerate(rows.tolist())}
        return replace(
            reading,
            sites=sites,
            summary=reading.summary[rows],
            cells={place[i]: cells for i, cells in reading.cells.items() if i in place},
            members={
                name: [place[i] for i in own if i in place] for name, own in reading.members.items()
            },
        )

    def _choose(self, sites: Sequence[Site]) -> tuple[NDArray[np.intp], tuple[Site, ...]]:
        kept = [i for i, site in enumerate(sites) if not self._is_left_out(site)]
        return np.array(kept, np.intp), tuple(sites[i] for i in kept)


def stacked(readings: Sequence[Reading]) -> Array:
    """The summaries of readings of equally many sites as one table: reading, field, site."""
    # Many small arrays: this way takes a tenth of the time of np.stack.
    arrays = [getattr(each.summary, name) for each in readings for name in FIELDS]
    shape = (len(readings), len(FIELDS), len(readings[0]))
    return np.concatenate(arrays, dtype=np.float64).reshape(shape)


def scope(group: str, micro_batch: int | None) -> str:
    """The prefix of the paths of a group and micro-batch; empty for neither."""
    part = "" if micro_batch is None else f"micro_batch_{micro_batch}"
    return "/".join(filter(None, (group, part)))
