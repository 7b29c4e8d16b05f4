"""When a run measures, and which sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwatch.core import Kind, Moment, Schedule, Site, SiteInfo
from gradwatch.core import select as selectors
from gradwatch.watches.probes.probe import Probe
from gradwatch.watches.watch import Watch

MOST_COPIED = 50_000_000
"""The most parameters that are copied to measure updates that the user has not asked for: 200 MB
in float32, during a measured step."""

DERIVED_KINDS = (Kind.NORMALIZED_GRADIENT, Kind.EPSILON_RULED, Kind.MOMENTUM_COSINE)
"""What follows from an optimizer's state and the gradient."""


class Timetable:
    """The watches of a monitor, for any model; those without a schedule follow `every`.

    What only the diagnosis wants is due when anything else is; with a schedule `thinned`, only at
    those of these steps that it chooses.
    """

    def __init__(
        self, watches: Sequence[Watch], every: Schedule, thinned: Schedule | None = None
    ) -> None:
        self.watches = tuple(watches)
        self.every = every
        self.kinds = frozenset(kind for watch in watches for kind in watch.kinds)
        if Kind.FIRST_MOMENT in self.kinds:
            self.kinds |= {Kind.UPDATE}  # For its size.
        asked_for = [watch.every or every for watch in watches if not watch.optional]
        along = _any_of(asked_for) if asked_for else every
        self._thinned = thinned
        if thinned is not None:
            thinned = Schedule("thinned", lambda m: along.due(m) and self._is_chosen(m))
        self._diagnosis = thinned or along
        self._asked_for = along
        self._summaries = [
            watch.every or every
            if not watch.optional
            else self._diagnosis
            if watch.is_for_diagnosis
            else along
            for watch in watches
        ]
        self._histograms: list[Schedule | None] = []
        for watch, schedule in zip(watches, self._summaries, strict=True):
            taken = schedule if watch.histogram is True else watch.histogram
            self._histograms.append(taken or None)
        every_one = [*self._summaries, *(h for h in self._histograms if h is not None)]
        self._schedules = list({id(schedule): schedule for schedule in every_one}.values())

    @property
    def probe_meaning(self) -> dict[Kind, str]:
        """In words, what the probes of watches measure."""
        kinds = [watch.probe.kind for watch in self.watches if watch.probe is not None]
        return {kind: kind.meaning for kind in kinds if kind is not None}

    def along(self, *kinds: Kind) -> Timetable:
        """The same, and these kinds where they can be measured."""
        more = [Watch(kind, optional=True) for kind in kinds if kind not in self.kinds]
        return self.with_watches([*self.watches, *more])

    def with_watches(self, watches: Sequence[Watch]) -> Timetable:
        """The same schedules for these watches."""
        return Timetable(watches, self.every, self._thinned)

    def without_diagnosis(self) -> Timetable | None:
        """What is measured at steps that are not whole; None if all are."""
        kept = [watch for watch in self.watches if not watch.is_for_diagnosis]
        is_whole = self._thinned is None or len(kept) == len(self.watches)
        return None if is_whole else self.with_watches(kept)

    def is_whole(self, moment: Moment) -> bool:
        """Whether what only the diagnosis wants is measured at a step, if anything is."""
        return self._thinned is None or moment.is_again or self._is_chosen(moment)

    def _is_chosen(self, moment: Moment) -> bool:
        return self._thinned is None or self._thinned.due(moment)

    def affordable(self, parameters: int) -> Timetable:
        """The same, without updates that the user has not asked for if the model is too large."""
        if parameters <= MOST_COPIED:
            return self
        kept = [w for w in self.watches if not (w.optional and w.kind is Kind.UPDATE)]
        return self.with_watches(kept)

    @property
    def is_asked_for_outputs(self) -> bool:
        """Whether the user has asked for outputs of layers or their gradients."""
        return any(watch.kind.is_of_layer and not watch.optional for watch in self.watches)

    def is_due(self, moment: Moment) -> bool:
        # Called at every step; most watches share one or two schedules.
        return any(schedule.due(moment) for schedule in self._schedules)

    @property
    def periods(self) -> frozenset[int] | None:
        """Steps that are due are multiples of one of these, but for those that stand for an epoch.

        None if that is not known, or nothing is due but once an epoch.
        """
        given = [watch.every or self.every for watch in self.watches]
        given += [w.histogram for w in self.watches if isinstance(w.histogram, Schedule)]
        found = {schedule.period for schedule in given}
        return None if None in found or found == {0} else frozenset(n for n in found if n)

    def is_asked_for(self, moment: Moment) -> bool:
        """Whether a watch is due by a schedule of its own, which the user has given it."""
        return any(watch.every is not None and watch.every.due(moment) for watch in self.watches)

    def is_ordinary(self, moment: Moment) -> bool:
        """Whether no probe is due, and no histogram on a schedule of its own."""
        return not any(
            (isinstance(watch.histogram, Schedule) and watch.histogram.due(moment))
            or (watch.probe is not None and schedule.due(moment))
            for watch, schedule in zip(self.watches, self._summaries, strict=True)
        )

    def summaries_due(self, moment: Moment) -> list[bool]:
        """For each watch, whether summaries are due."""
        if moment.is_again:
            # What was measured the first time is not measured again.
            known = self._thinned is not None and self._asked_for.due(moment)
            return [
                watch.probe is None and (watch.is_for_diagnosis or not known)
                for watch in self.watches
            ]
        # A histogram needs its summary.
        return [
            summary.due(moment) or (histogram is not None and histogram.due(moment))
            for summary, histogram in zip(self._summaries, self._histograms, strict=True)
        ]

    def histograms_due(self, moment: Moment) -> list[bool]:
        return [h is not None and not moment.is_again and h.due(moment) for h in self._histograms]

    def probes_due(self, moment: Moment) -> list[bool]:
        now = self.summaries_due(moment)
        return [
            watch.probe is not None and is_due
            for watch, is_due in zip(self.watches, now, strict=True)
        ]

    def has_histograms(self) -> list[bool]:
        """For each watch, whether it has histograms at any step."""
        return [h is not None for h in self._histograms]


@dataclass(frozen=True)
class Due:
    """The measurements that are due at a step, as positions in the plan's `sites`."""

    summaries: tuple[int, ...]
    histograms: frozenset[int]
    probes: tuple[tuple[Probe, int], ...] = ()
    """The probes that are due, each with the position of its site."""
    per_replica: tuple[int, ...] = ()
    """Gradients that are also due for each replica."""


class Plan:
    """The sites of a run, in network order, and which of them are due when.

    `available` has all sites of the model; a selector that matches none raises a ValueError.
    """

    def __init__(self, timetable: Timetable, available: Sequence[SiteInfo]) -> None:
        self._timetable = timetable
        chosen: list[set[Site]] = []
        for watch in timetable.watches:
            offered = [info for info in available if info.kind in watch.kinds]
            infos = selectors.choose(watch.selection, offered, watch.function_name)
            chosen.append({info.site for info in infos})
        offered_at_all = {info.site for info in available}
        along = [
            {Site(kind, site.path) for kind in _along(watch) for site in sites} & offered_at_all
            for watch, sites in zip(timetable.watches, chosen, strict=True)
        ]
        wanted = set[Site]().union(*chosen, *along)
        self.sites: tuple[Site, ...] = tuple(i.site for i in available if i.site in wanted)
        position = {site: i for i, site in enumerate(self.sites)}
        self._own = [frozenset(position[s] for s in sites) for sites in chosen]
        self._along = [frozenset(position[s] for s in sites) for sites in along]
        self.with_histogram = self._union(self._own, timetable.has_histograms())
        probed = self._union(self._own, [watch.probe is not None for watch in timetable.watches])
        self.with_values: tuple[int, ...] = tuple(sorted(probed))
        """Sites with a probe, which needs their values."""
        per_replica = self._union(self._own, [watch.per_replica for watch in timetable.watches])
        self.per_replica: tuple[int, ...] = tuple(sorted(per_replica))
        self.layer_paths = frozenset(site.path for site in self.sites if site.kind.is_of_layer)
        self._infos = {i.site: i for i in available if i.site in wanted}
        self._dues: dict[tuple[tuple[bool, ...], tuple[bool, ...]], Due] = {}
        self._sites_due: dict[int, frozenset[Site]] = {}

    def due(self, moment: Moment) -> Due:
        """The measurements that are due at the moment; equal ones are one object."""
        now = self._timetable.summaries_due(moment)
        histograms = self._timetable.histograms_due(moment)
        key = (tuple(now), tuple(histograms))
        if key not in self._dues:
            self._dues[key] = self._due(now, histograms)
        return self._dues[key]

    def sites_due(self, moment: Moment) -> frozenset[Site]:
        """The sites whose summaries are due at the moment; equal ones are one object."""
        due = self.due(moment)
        if id(due) not in self._sites_due:
            self._sites_due[id(due)] = frozenset(self.sites[i] for i in due.summaries)
        return self._sites_due[id(due)]

    def _due(self, now: list[bool], histograms: list[bool]) -> Due:
        return Due(
            tuple(sorted(self._union(self._own, now) | self._union(self._along, now))),
            self._union(self._own, histograms),
            tuple(
                (watch.probe, i)
                for watch, positions, is_due in zip(
                    self._timetable.watches, self._own, now, strict=True
                )
                if watch.probe is not None and is_due
                for i in sorted(positions)
            ),
            tuple(
                sorted(
                    self._union(
                        self._own,
                        [
                            watch.per_replica and is_due
                            for watch, is_due in zip(self._timetable.watches, now, strict=True)
                        ],
                    )
                )
            ),
        )

    @property
    def infos(self) -> list[SiteInfo]:
        return [self._infos[site] for site in self.sites]

    def info(self, position: int) -> SiteInfo:
        return self._infos[self.sites[position]]

    @staticmethod
    def _union(positions: list[frozenset[int]], chosen: list[bool]) -> frozenset[int]:
        empty: frozenset[int] = frozenset()
        return empty.union(*(p for p, yes in zip(positions, chosen, strict=True) if yes))


def _any_of(schedules: Sequence[Schedule]) -> Schedule:
    distinct = list({id(schedule): schedule for schedule in schedules}.values())
    if len(distinct) == 1:
        return distinct[0]
    return Schedule("along", lambda moment: any(each.due(moment) for each in distinct))


def _along(watch: Watch) -> list[Kind]:
    """The kinds that are measured together with a watch's own, without histograms."""
    if watch.kind is Kind.UPDATE:
        # For the ratio of the two.
        return [Kind.WEIGHT]
    if watch.kind is Kind.FIRST_MOMENT:
        return [*DERIVED_KINDS, Kind.UPDATE, Kind.WEIGHT]
    if watch.kind is Kind.OUTPUT:
        return [Kind.SATURATED, *([Kind.DEAD_UNIT] if watch.per_unit else [])]
    return []
