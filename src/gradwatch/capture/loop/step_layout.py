"""What the rows of a measurement stand for, and making one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradwatch.capture.errors import WrongValueError
from gradwatch.capture.loop.given import Given
from gradwatch.capture.loop.shapes import common_framework
from gradwatch.capture.readings import Layout as Rows
from gradwatch.capture.values import values_of
from gradwatch.core import Kind, SiteInfo
from gradwatch.core import select as selectors
from gradwatch.measure import Framework
from gradwatch.watches import Plan, Timetable

# Numbers of no other monitor's in this process: readings of another are then not mistaken.
_numbers = itertools.count(1)

ALONG = {
    Kind.UPDATE: "previous=",
    Kind.APPLIED_GRADIENT: "applied_gradients=",
    Kind.OUTPUT: "outputs= (tensors by name, or what monitor.outputs_of(model) has seen)",
    Kind.OUTPUT_GRADIENT: "output_gradients= (or outputs=, with what monitor.outputs_of(model) "
    "has seen)",
}
"""Kinds that need an argument of their own, and it."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The sites of measurements of one form, under the number that they carry."""

    number: int
    plan: Plan
    rows: Rows
    group: str
    micro_batch: int | None


class Layouts:
    """The layouts of a monitor: one for each set of tensors it is given.

    Args:
        timetable: what the user wants, and when.
        remark: told, in words, of what the user should know.
    """

    def __init__(self, timetable: Timetable, remark: Callable[[str], None]) -> None:
        self._timetable = timetable
        self._remark = remark
        self._by_sites: dict[object, Layout] = {}
        self._by_number: dict[int, Layout] = {}
        # A function may be compiled on another thread than the one that records.
        self._lock = threading.Lock()

    def layout_of(self, given: Given, group: str, micro_batch: int | None) -> Layout:
        """The layout for these tensors: the same one for the same sites.

        Raises:
            ValueError: a selector matches nothing.
        """
        # Outputs change their shape with the batch's.
        known = tuple((i.site, () if i.kind.is_of_layer else i.shape, i.dtype) for i in given.infos)
        found = tuple(each.site for several in given.of_layers.values() for each in several)
        key = (group, micro_batch, known, found)
        with self._lock:
            if key not in self._by_sites:
                plan = self._plan(given, group)
                rows = tuple((i, each.site) for i, each in given.rows(plan.sites))
                layout = Layout(next(_numbers), plan, rows, group, micro_batch)
                self._by_sites[key] = self._by_number[layout.number] = layout
            return self._by_sites[key]

    def numbered(self, number: int) -> Layout:
        """The layout of that number.

        Raises:
            ValueError: none of this monitor's has it.
        """
        with self._lock:
            if number not in self._by_number:
                raise WrongValueError("These readings were measured by another monitor.")
            return self._by_number[number]

    def infos(self) -> list[SiteInfo]:
        """What is known of the sites of all layouts, each once."""
        with self._lock:
            plans = [layout.plan for layout in self._by_sites.values()]
        return list({info.site: info for plan in plans for info in plan.infos}.values())

    def _plan(self, given: Given, group: str) -> Plan:
        self._remark_on_missing(given)
        if not group and not self._by_sites:
            return Plan(self._timetable, given.infos)
        # One of several: what matches nothing here may be meant for another.
        return Plan(narrowed(self._timetable, given.infos), given.infos)

    def _remark_on_missing(self, given: Given) -> None:
        kinds = {info.kind for info in given.infos}
        asked_for = {watch.kind for watch in self._timetable.watches if not watch.optional}
        for kind, argument in ALONG.items():
            if kind in asked_for and kind not in kinds:
                self._remark(
                    f"The monitor is to watch {kind}s, but this loop does not say what they are, "
                    f"so none are recorded. Give {argument} to measure() or record()."
                )
        if given.of_layers and not any(kind.is_of_layer for kind in self._timetable.kinds):
            self._remark(
                "Outputs are given, but the monitor watches none. Make it with "
                "watch=[gradwatch.outputs(...), gradwatch.output_gradients(...)]."
            )


def narrowed(timetable: Timetable, infos: Sequence[SiteInfo]) -> Timetable:
    """The timetable without the selectors that match none of these sites."""
    watches = []
    for watch in timetable.watches:
        offered = [info for info in infos if info.kind is watch.kind]
        kept = tuple(spec for spec in watch.selection if _matches(spec, offered))
        chooses = [spec for spec in kept if not _excludes(spec)]
        if chooses or all(map(_excludes, watch.selection)):
            kept_watch = replace(watch, selection=kept)
            try:
                selectors.choose(kept, offered, watch.function_name)
            except selectors.SelectionError:
                continue  # All that it chooses here is excluded again.
            watches.append(kept_watch)
    return Timetable(watches, timetable.every)


def _excludes(spec: selectors.Spec) -> bool:
    return isinstance(spec, str) and spec.startswith("!")


def _matches(spec: selectors.Spec, infos: Sequence[SiteInfo]) -> bool:
    selector = selectors.as_selector(
        spec[1:] if isinstance(spec, str) and spec.startswith("!") else spec
    )
    return any(selector.selects(info) for info in infos)


def measured(layout: Layout, given: Given, histograms: Any) -> dict[str, Any]:
    """The summaries of a layout's sites, as arrays on the device.

    Args:
        layout: made for these tensors.
        given: the tensors.
        histograms: whether to count histogram cells: a flag of the framework's, or
            Python's own.

    Returns:
        `rows`, `cells`, the values that probes want, and `layout`, which is the
        layout's number: a constant, so that all a compiled function returns are arrays.
    """
    plan = layout.plan
    own = given.framework
    measured = [(i, found.tensor()) for i, found in given.rows(plan.sites)]
    with_cells = [at for at, (i, _) in enumerate(measured) if i in plan.with_histogram]
    rows, cells = own.measure([x for _, x in measured], with_cells, histograms)
    return {
        "rows": rows,
        "cells": cells,
        "layout": own.constant(layout.number),
        **values_of(plan, dict(measured).__getitem__, own.copy),
    }


def check_loss(loss: Any) -> Framework:
    """The framework of a loss.

    Raises:
        TypeError, ValueError: it is no number, or not a single one.
    """
    own = common_framework([loss])
    shape = tuple(getattr(loss, "shape", ()))
    if shape != ():
        raise WrongValueError(
            f"loss= is one number for the step. Received: shape={shape}. Give its mean or sum, "
            "whichever it is that the gradients are of."
        )
    return own


def loss_row(loss: Any) -> Any:
    """The packed summary of a loss."""
    return check_loss(loss).measure([loss])[0][0]
