"""Plans the measurements of a loop from the tensors that it gives."""

from collections.abc import Sequence
from dataclasses import replace

from gradwatch.capture.site_table import SiteTable, SiteTables
from gradwatch.capture.step_tensors import StepTensors
from gradwatch.core import Kind, SiteInfo
from gradwatch.core import select as selectors
from gradwatch.util import Reporter
from gradwatch.watches import Plan, Timetable, missing_vitals

_ARGUMENTS = {
    Kind.UPDATE: "previous=",
    Kind.APPLIED_GRADIENT: "applied_gradients=",
    Kind.FIRST_MOMENT: "optimizer_state= (the optimizer, or optax's transformation and state)",
    Kind.OUTPUT: "outputs= (tensors by name, or what monitor.outputs_of(model) has seen)",
    Kind.OUTPUT_GRADIENT: "output_gradients= (or outputs=, with what monitor.outputs_of(model) "
    "has seen)",
}
"""The argument that tensors of a kind are given by, where it is one of its own."""


class LoopPlans:
    """The plans of a monitor: one for each set of tensors that it is given."""

    def __init__(self, timetable: Timetable, tables: SiteTables, reporter: Reporter) -> None:
        self._timetable = timetable
        self._tables = tables
        self._reporter = reporter
        self._known: dict[object, SiteTable] = {}

    def table(self, tensors: StepTensors, group: str, micro_batch: int | None) -> SiteTable:
        """The table of these tensors, always the same for the same sites.

        It raises ValueError if a selector matches nothing.
        """
        # The shape of outputs changes with that of the batch.
        known = tuple(
            (i.site, () if i.kind.is_of_layer else i.shape, i.dtype) for i in tensors.infos
        )
        layers = [s for s in tensors.tensors if s.kind.is_of_layer]
        found = tuple(each.site for s in layers for each in tensors.tensors[s])
        key = (group, micro_batch, known, found)
        if key not in self._known:
            plan = self._plan(tensors, group)
            rows = [(i, each.site) for i, each in tensors.found(plan.sites)]
            self._known[key] = self._tables.table(plan, rows, group, micro_batch)
        return self._known[key]

    def infos(self) -> list[SiteInfo]:
        """The descriptions of the sites of all plans, each once."""
        plans = [table.plan for table in tuple(self._known.values())]
        return list({info.site: info for plan in plans for info in plan.infos}.values())

    def _plan(self, tensors: StepTensors, group: str) -> Plan:
        self._check_watches(tensors)
        if not group and not self._known:
            return Plan(self._timetable, tensors.infos)
        # One of several: a selector that matches nothing here may be meant for another.
        return Plan(narrowed(self._timetable, tensors.infos), tensors.infos)

    def _check_watches(self, tensors: StepTensors) -> None:
        for notice in (*tensors.notices, *missing_vitals(self._timetable, tensors.infos)):
            self._reporter.notice(notice)
        kinds = {info.kind for info in tensors.infos}
        asked_for = {w.kind: w.kinds for w in self._timetable.watches if not w.optional}
        for kind, argument in _ARGUMENTS.items():
            if kind in asked_for and not kinds.intersection(asked_for[kind]):
                if kind is Kind.FIRST_MOMENT and tensors.notices:
                    continue  # It was given.
                what = kind.plural.replace("_", " ")
                self._reporter.notice(
                    f"The monitor is to watch {what}, but this loop does not say what they are, "
                    f"so none are recorded. Give {argument} to measure() or record()."
                )
        is_given = any(site.kind.is_of_layer for site in tensors.tensors)
        if is_given and not any(kind.is_of_layer for kind in self._timetable.kinds):
            self._reporter.notice(
                "Outputs are given, but the monitor watches none. Make it with "
                "watch=[gradwatch.outputs(...), gradwatch.output_gradients(...)]."
            )


def narrowed(timetable: Timetable, infos: Sequence[SiteInfo]) -> Timetable:
    """The timetable without the selectors that match none of these sites."""
    watches = []
    for watch in timetable.watches:
        offered = [info for info in infos if info.kind in watch.kinds]
        kept = tuple(spec for spec in watch.selection if _matches(spec, offered))
        chooses = [spec for spec in kept if not _excludes(spec)]
        if chooses or all(map(_excludes, watch.selection)):
            kept_watch = replace(watch, selection=kept)
            try:
                selectors.choose(kept, offered, watch.function_name)
            except selectors.SelectionError:
                continue  # All that it chooses here is excluded again.
            watches.append(kept_watch)
    return timetable.with_watches(watches)


def _excludes(spec: selectors.Spec) -> bool:
    return isinstance(spec, str) and spec.startswith("!")


def _matches(spec: selectors.Spec, infos: Sequence[SiteInfo]) -> bool:
    selector = selectors.as_selector(
        spec[1:] if isinstance(spec, str) and spec.startswith("!") else spec
    )
    return any(selector.selects(info) for info in infos)
