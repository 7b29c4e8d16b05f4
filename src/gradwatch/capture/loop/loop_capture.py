"""Records the steps of a hand-written loop."""

from __future__ import annotations

import atexit
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from gradwatch.capture.loop.loop_facts import LoopFacts
from gradwatch.capture.loop.loop_numbers import LoopNumbers, fetched_number
from gradwatch.capture.loop.loop_plans import LoopPlans
from gradwatch.capture.loop.loop_readings import (
    check_gradients,
    check_loss,
    fetched_loss,
    framework_of_readings,
    loss_row,
    names_to_fetch,
    packed_numbers,
)
from gradwatch.capture.loop.step_count import Progress
from gradwatch.capture.loss_signs import LossSigns
from gradwatch.capture.meaning import RECORDED
from gradwatch.capture.recorder import Recorder, Submit
from gradwatch.capture.site_table import SiteTable
from gradwatch.capture.step_tensors import StepTensors, under
from gradwatch.capture.values import names_due
from gradwatch.core import Kind, ModelFacts, Moment, Site, SiteInfo, Tensor
from gradwatch.measure import Fetched, Framework
from gradwatch.util import Reporter
from gradwatch.watches import Timetable
from gradwatch.watches.budget import Pacer


class LoopCapture:
    """Follows a loop from call to call, and records what is due.

    `open_run` is called before a reading is submitted, `epoch_ended` with the number of an epoch
    that has ended. `may_measure` is asked once, and may wait for other processes. What is in
    `at_end` is called once when the run ends, to remove hooks. `is_meeting` is set while a sharded
    module is watched, `is_diagnosed` if there are rules that look at what is recorded.
    """

    def __init__(
        self,
        timetable: Timetable,
        pacer: Pacer,
        submit: Submit,
        open_run: Callable[[LoopCapture], None],
        epoch_ended: Callable[[int], None],
        reporter: Reporter,
        may_measure: Callable[[Timetable], bool] = lambda timetable: True,
        tell_facts: Callable[[ModelFacts], None] = lambda facts: None,
    ) -> None:
        self.timetable = timetable
        self.reporter = reporter
        self.at_end: list[Callable[[], None]] = []
        self.is_meeting = False
        self.is_diagnosed = False
        self.known = LoopFacts(tell_facts)
        self._recorder = Recorder(submit, reporter)
        self.tap_arrays = self._recorder.tap_arrays
        self._numbers = LoopNumbers(submit, self._recorder.tables, LossSigns(pacer))
        self._plans = LoopPlans(timetable, self._recorder.tables, reporter)
        self._ask = may_measure
        self._pacer = pacer
        self._leader: str | None = None
        """The group whose steps are timed: the first one."""
        self._open_run = open_run
        self._epoch_ended = epoch_ended
        self._meaning = dict(RECORDED)
        self._progress: defaultdict[str, Progress] = defaultdict(Progress)
        self._epoch: int | None = None
        self._shown_epoch: int | None = None
        self._first_step = 1
        # Registered now, and so called before the pipeline's own end.
        atexit.register(_end, weakref.ref(self))

    # For the session, when it opens a run.

    reports_each_step = False

    @property
    def next_step(self) -> int:
        return self._first_step

    def facts(self) -> ModelFacts:
        return self.known.all()

    def meaning(self) -> Mapping[Kind, str]:
        return self._meaning

    def infos(self) -> list[SiteInfo]:
        """The descriptions of the chosen sites of all tensors that were given so far."""
        return self._plans.infos()

    def means(self, meaning: Mapping[Kind, str]) -> None:
        """Set the meaning of the measurements; before the first one."""
        self._meaning.update(meaning)

    # Where the loop is.

    def progress(self, group: str) -> Progress:
        return self._progress[group]

    def enter_epoch(self, epoch: int) -> None:
        """An epoch is under way: the one before, if it is another, has ended."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._pacer.pause()
        if self._shown_epoch not in (None, epoch):
            self._show()

    def advance(
        self,
        group: str,
        moment: Moment,
        *,
        was_measured: bool = False,
        is_due: bool | None = None,
    ) -> None:
        """A group comes to a moment; the measurement of it follows, or was made just now.

        `is_due` says whether it is measured, if that does not depend on the timetable alone.
        """
        self.progress(group).advance(moment)
        if self._leader is None:
            self._leader = group
        if group == self._leader:
            is_due = self.timetable.is_due(moment) if is_due is None else is_due
            self._pacer.tick(
                [moment],
                is_due,
                counts=not is_due or self.timetable.is_ordinary(moment),
                was_measured=is_due and was_measured,
                whole=is_due and self.timetable.is_whole(moment),
            )

    def is_due(self, moment: Moment, *, histograms: bool = False) -> bool:
        """Whether anything, or a histogram, is due."""
        if not self._may_measure:
            return False
        if histograms:
            return any(self.timetable.histograms_due(moment))
        return self.timetable.is_due(moment)

    @cached_property
    def _may_measure(self) -> bool:
        return self._ask(self.timetable)

    def end(self) -> None:
        """The run ends: remove hooks, and have the last epoch shown."""
        while self.at_end:
            self.at_end.pop()()
        self._show()

    def _show(self) -> None:
        epoch, self._shown_epoch = self._shown_epoch, None
        if epoch is not None:
            self._epoch_ended(epoch)

    def follow(self, is_chosen: Callable[[int], bool]) -> None:
        """Let a function choose the steps of a budget."""
        self._pacer.follow(is_chosen)

    @property
    def pace(self) -> Callable[[], tuple[int, bool]] | None:
        """The measuring frequency that the budget allows, see `Pacer.pace`; None without one."""
        pacer = self._pacer
        return None if pacer.budget is None else lambda: pacer.pace

    def table(self, tensors: StepTensors, group: str, micro_batch: int | None = None) -> SiteTable:
        return self._plans.table(tensors, group, micro_batch)

    def measure(
        self,
        tensors: StepTensors,
        group: str,
        micro_batch: int | None,
        loss: Tensor,
        histograms: Any,
    ) -> dict[str, Any]:
        """The measurement of these tensors, as arrays on the device; none if it may not be."""
        if not self._may_measure:
            return {}
        own = tensors.framework if tensors.sources else check_loss(loss)
        table = self.table(tensors, group, micro_batch)
        with own.aside():
            rows = tensors.rows(table.plan.sites)
            result = self._recorder.measure(own, table, rows, histograms, taps=tensors.taps)
            if loss is not None:
                result["loss"] = loss_row(loss)
        own.use_copies(())
        return result

    def record_tensors(
        self,
        tensors: StepTensors,
        moment: Moment,
        group: str,
        micro_batch: int | None,
        loss: Tensor,
    ) -> None:
        """Measure and send what is due at a moment."""
        tensors.require_eager("monitor.record()")
        table = self.table(tensors, group, micro_batch)
        check_gradients(tensors.of_kind(Kind.GRADIENT).sources, self.reporter)
        if self.is_due(moment):
            own, rows = tensors.framework, tensors.rows(table.plan.sites)
            histograms = self.is_due(moment, histograms=True)
            arrays = self._recorder.measure(own, table, rows, histograms, taps=tensors.taps)
            self.send(moment, table, own, arrays, loss)

    def record_readings(self, readings: Any, moment: Moment, loss: Tensor) -> None:
        """Send what is due of a measurement that was made in a compiled function."""
        own = framework_of_readings(readings)
        if not self.is_due(moment):
            if loss is None and "loss" in readings and self._may_measure:
                self._begin_run(moment)
                self._numbers.add_measured_loss(moment, own.fetch(readings, ["loss", "table"]))
            return
        names = names_to_fetch(readings, self.timetable, moment)
        wait_for_loss = fetched_loss(loss)
        if wait_for_loss is None and "loss" in readings:
            wait_for_loss = own.fetch(readings, ["loss"])
        self._send(moment, own.fetch(readings, names), wait_for_loss)

    def record_loss(
        self, moment: Moment, group: str, loss: Tensor, micro_batch: int | None = None
    ) -> None:
        """Send the loss of a step that is not measured."""
        if self._may_measure:
            number = fetched_number("loss", loss)
            self._begin_run(moment)
            self._numbers.add_loss(moment, group, number, micro_batch)

    def record_samples(
        self, moment: Moment, group: str, wait: Callable[[], Mapping[Site, float]]
    ) -> None:
        """Send what is known of single samples, whatever is due."""
        if self._may_measure:
            self._begin_run(moment)
            self._numbers.add(moment, wait, group)

    def record_metrics(self, moment: Moment, group: str, metrics: Mapping[str, Tensor]) -> None:
        """Send numbers by name, whatever is due."""
        if metrics and self._may_measure:
            numbers = {n: fetched_number(f"metrics[{n!r}]", x) for n, x in metrics.items()}
            self._begin_run(moment)
            self._numbers.add_metrics(moment, group, numbers)

    def record_inputs(
        self,
        tensors: StepTensors,
        moment: Moment,
        group: str,
        loss: Tensor,
        numbers: Mapping[Site, float] | None = None,
    ) -> None:
        """Send a step's loss, inputs and targets, and further numbers by site."""
        wait_for_loss = fetched_loss(loss)
        rows = [each for several in tensors.tensors.values() for each in several]
        wait: Fetched = dict
        if rows:
            own = tensors.framework
            wait = own.fetch({"rows": own.measure([each.tensor() for each in rows])[0]}, ["rows"])
        sites = [each.site for each in rows]
        self.send_sites(moment, group, sites, wait, numbers, wait_for_loss)

    def send(
        self,
        moment: Moment,
        table: SiteTable,
        own: Framework,
        arrays: Mapping[str, Any],
        loss: Tensor = None,
        numbers: Mapping[Site, float] | None = None,
        beside: Callable[[], Mapping[Site, Any]] = dict,
    ) -> None:
        """Send a measurement of a known table, and further numbers by site.

        `beside` waits for packed summaries of other sites.
        """
        names = names_due(table.plan.due(moment), arrays)
        self._send(moment, own.fetch(arrays, names), fetched_loss(loss), table, numbers, beside)

    def send_later(self, moment: Moment, table: SiteTable | None, wait: Fetched) -> None:
        """Send what `wait` returns, on another thread; nothing if that is empty."""
        self._send(moment, wait, None, table)

    def send_sites(
        self,
        moment: Moment,
        group: str,
        sites: Sequence[Site],
        wait: Fetched,
        numbers: Mapping[Site, float] | None = None,
        wait_for_loss: Fetched | None = None,
    ) -> None:
        """Send `rows`, packed summaries of some sites, whatever is due, and numbers by site."""
        scalars = packed_numbers(numbers)

        def found(table: SiteTable | None) -> Mapping[Site, Any]:
            rows = dict(zip(sites, wait()["rows"], strict=True)) if sites else {}
            if wait_for_loss is not None:
                rows = {Site(Kind.LOSS, under(group, "loss")): wait_for_loss()["loss"], **rows}
            return {**rows, **scalars}

        self._begin_run(moment)
        self._numbers.close_batch()
        self._recorder.send(moment, numbers=found, group=group)

    def _send(
        self,
        moment: Moment,
        wait: Fetched,
        wait_for_loss: Fetched | None,
        table: SiteTable | None = None,
        numbers: Mapping[Site, float] | None = None,
        beside: Callable[[], Mapping[Site, Any]] = dict,
    ) -> None:
        more = packed_numbers(numbers)

        def numbers_of(known: SiteTable | None) -> Mapping[Site, Any]:
            found = {**more, **beside()}
            if wait_for_loss is None or known is None:
                return found
            return {Site(Kind.LOSS, under(known.prefix, "loss")): wait_for_loss()["loss"], **found}

        self._begin_run(moment)
        self._numbers.close_batch()
        self._recorder.send(moment, wait, table=table, numbers=numbers_of)

    def _begin_run(self, moment: Moment) -> None:
        self._first_step = moment.step
        self._open_run(self)
        self._shown_epoch = moment.epoch


def _end(recorder: weakref.ref[LoopCapture]) -> None:
    """At the end of the process, for loops whose monitor was not closed."""
    still_there = recorder()
    if still_there is not None:
        still_there.end()
