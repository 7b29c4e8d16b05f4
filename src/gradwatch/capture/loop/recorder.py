"""Recording the steps of a hand-written loop."""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from gradwatch.capture.errors import WrongPlaceError, WrongTypeError, WrongValueError
from gradwatch.capture.loop.given import Given, require_eager
from gradwatch.capture.loop.inputs_and_targets import as_floats, batch_tensors
from gradwatch.capture.loop.loop_meaning import RECORDED
from gradwatch.capture.loop.shapes import common_framework
from gradwatch.capture.loop.step_count import Progress
from gradwatch.capture.loop.step_layout import Layout, Layouts, check_loss, loss_row, measured
from gradwatch.capture.readings import reading_of
from gradwatch.capture.values import is_value, names_due
from gradwatch.core import Kind, ModelFacts, Reading, Site, SiteInfo, Summary, scope
from gradwatch.core.schedule import Moment
from gradwatch.measure import Fetched, Framework
from gradwatch.watches import Timetable
from gradwatch.watches.budget import Pacer

PARTS = {"rows", "cells", "layout"}
"""What `measure` returns; `loss` may come to it."""


class LoopRecorder:
    """Follows a loop from call to call, and sends on what is due.

    It never waits for the device: the arrays are fetched on another thread.

    Args:
        timetable: what to measure, and when.
        pacer: told when steps begin.
        submit: takes a function that waits for a step's arrays and makes its Reading.
        open_run: called before a reading is submitted.
        epoch_ended: told of the number of an epoch of which there will be no more.
        remark: told, in words, of what the user should know.
        may_measure: whether anything may be measured, asked once; it may wait for other
            processes of this training.
    """

    def __init__(
        self,
        timetable: Timetable,
        pacer: Pacer,
        submit: Callable[[Callable[[], Reading | None]], None],
        open_run: Callable[[LoopRecorder], None],
        epoch_ended: Callable[[int], None],
        remark: Callable[[str], None],
        may_measure: Callable[[Timetable], bool] = lambda timetable: True,
    ) -> None:
        self.timetable = timetable
        self._ask = may_measure
        self._pacer = pacer
        self._leader: str | None = None
        """The group whose steps are timed: the first one."""
        self.remark = remark
        self.layouts = Layouts(timetable, remark)
        self.at_end: list[Callable[[], None]] = []
        """Called once when the run ends: to remove hooks."""
        self.is_meeting = False
        """Whether a sharded module is watched."""
        self._submit = submit
        self._open_run = open_run
        self._epoch_ended = epoch_ended
        self._meaning = dict(RECORDED)
        self.model_facts = ModelFacts()
        self._progress: dict[str, Progress] = {}
        self._epoch: int | None = None
        self._shown_epoch: int | None = None
        self._first_step = 1
        # Registered now, and so called before the pipeline's own end.
        atexit.register(_end, weakref.ref(self))

    # What the monitor asks when it opens a run.

    @property
    def next_step(self) -> int:
        """The first step that is recorded."""
        return self._first_step

    def facts(self) -> ModelFacts:
        """What is known of the model."""
        return self.model_facts

    def meaning(self) -> Mapping[Kind, str]:
        """What the measurements of each kind are, in words."""
        return self._meaning

    def infos(self) -> list[SiteInfo]:
        """What is known of the chosen sites of all that was given so far."""
        return self.layouts.infos()

    def means(self, meaning: Mapping[Kind, str]) -> None:
        """Say what the measurements are; before the first one."""
        self._meaning.update(meaning)

    # Where the loop is.

    def progress(self, group: str) -> Progress:
        """The course of a group."""
        return self._progress.setdefault(group, Progress())

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
        """A group comes to a moment; what is due of it is measured next, or was just now.

        Args:
            group: the group.
            moment: where it is.
            was_measured: whether that is done already.
            is_due: whether it is measured, if others than the timetable decide that.
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
        """The run ends: let go of hooks, and have the last epoch shown."""
        while self.at_end:
            self.at_end.pop()()
        self._show()

    def _show(self) -> None:
        epoch, self._shown_epoch = self._shown_epoch, None
        if epoch is not None:
            self._epoch_ended(epoch)

    # Recording.

    def measure(
        self, given: Given, group: str, micro_batch: int | None, loss: Any, histograms: Any
    ) -> dict[str, Any]:
        """The measurement of these tensors, as arrays on the device; none if it may not be."""
        if not self._may_measure:
            return {}
        layout = self.layouts.layout_of(given, group, micro_batch)
        with given.framework.aside():
            result = measured(layout, given, histograms)
            if loss is not None:
                result["loss"] = loss_row(loss)
        given.framework.use_copies(())
        return result

    def record_tensors(
        self, given: Given, moment: Moment, group: str, micro_batch: int | None, loss: Any
    ) -> None:
        """Measure and send what is due at a moment."""
        require_eager(given, "monitor.record()")
        layout = self.layouts.layout_of(given, group, micro_batch)
        _remark_on_none(given, self.remark)
        if self.is_due(moment):
            arrays = measured(layout, given, self.is_due(moment, histograms=True))
            self.send(moment, layout, given.framework, arrays, loss)

    def send(
        self, moment: Moment, layout: Layout, own: Framework, arrays: Mapping[str, Any], loss: Any
    ) -> None:
        """Send a measurement of a known layout."""
        due = layout.plan.due(moment)
        names = ["rows", *(["cells"] if due.histograms else []), *names_due(due, arrays)]
        self._send(moment, own.fetch(arrays, names), _losses(loss), lambda _: layout)

    def send_later(self, moment: Moment, layout: Layout, wait: Fetched) -> None:
        """Send what `wait` returns, on another thread; nothing if that is empty."""
        self._send(moment, wait, {}, lambda arrays: layout if arrays else None)

    def send_numbers(self, moment: Moment, group: str, numbers: Mapping[str, float]) -> None:
        """Send numbers about the step, by their names."""
        self._send(moment, dict, _fetched(group, numbers), lambda _: None, group)

    def send_sites(
        self,
        moment: Moment,
        group: str,
        sites: Sequence[Site],
        wait: Fetched,
        numbers: Mapping[str, float],
    ) -> None:
        """Send `rows`, packed summaries of some sites, whatever is due; and numbers beside them."""
        rows = cache(lambda: wait()["rows"] if sites else None)
        sent = {site: partial(_row, rows, at) for at, site in enumerate(sites)}
        self._send(moment, dict, sent | _fetched(group, numbers), lambda _: None, group)

    def follow(self, is_chosen: Callable[[int], bool]) -> None:
        """Leave it to others which steps a budget chooses."""
        self._pacer.follow(is_chosen)

    @property
    def pace(self) -> Callable[[], tuple[int, bool]] | None:
        """Tells how often the budget allows to measure, see `Pacer.pace`; None without one."""
        pacer = self._pacer
        return None if pacer.budget is None else lambda: pacer.pace

    def record_readings(self, readings: Any, moment: Moment, loss: Any) -> None:
        """Send what is due of a measurement that was made in a compiled function."""
        own = _framework_of_readings(readings)
        if not self.is_due(moment):
            return
        losses = {"loss": own.fetch(readings, ["loss"])} if "loss" in readings else {}
        losses |= _losses(loss)
        names = ["rows", "layout"]
        names += ["cells"] if self.is_due(moment, histograms=True) else []
        if any(self.timetable.probes_due(moment)):
            names += [name for name in readings if is_value(name)]
        wait = own.fetch(readings, names)
        # Which layout it is, is known when it has arrived.
        self._send(moment, wait, losses, lambda a: self.layouts.numbered(int(a["layout"])))

    def record_beside(
        self, moment: Moment, group: str, loss: Any, inputs: Any = None, targets: Any = None
    ) -> None:
        """Send a step's loss and what it was given, if anything is due at it."""
        if not self.is_due(moment):
            return
        sent = {Site(Kind.LOSS, _under(group, name)): f for name, f in _losses(loss).items()}
        batch = batch_tensors(inputs, targets, group)
        if batch:
            own = common_framework(list(batch.values()))
            for site, tensor in batch.items():
                row = own.measure([as_floats(tensor, own)])[0]
                sent[site] = partial(_first_row, own.fetch({"rows": row}, ["rows"]))
        self._send(moment, dict, sent, lambda _: None, group)

    def _send(
        self,
        moment: Moment,
        wait: Fetched,
        losses: Mapping[Any, Fetched],
        find_layout: Callable[[Mapping[str, Any]], Layout | None],
        group: str = "",
    ) -> None:
        self._first_step = moment.step
        self._open_run(self)
        self._shown_epoch = moment.epoch
        when = time.time()

        def make_reading() -> Reading | None:
            arrays = wait()
            layout = find_layout(arrays)
            rows = {name: fetched()["loss"] for name, fetched in losses.items()}
            if layout is None:
                return _of_losses(moment, when, group, rows)
            return _of_layout(moment, when, layout, arrays, rows)

        self._submit(make_reading)


def _losses(loss: Any) -> dict[str, Fetched]:
    if loss is None:
        return {}
    own = check_loss(loss)
    row = loss_row(loss)
    if own.is_traced(row):
        raise WrongPlaceError(
            "monitor.record(loss=...) was called inside a compiled function. "
            "Return the loss from it, and record it outside."
        )
    return {"loss": own.fetch({"loss": row}, ["loss"])}


def _first_row(wait: Fetched) -> dict[str, Any]:
    return {"loss": wait()["rows"][0]}


def _row(rows: Callable[[], Any], at: int) -> dict[str, Any]:
    return {"loss": rows()[at]}


def _fetched(group: str, numbers: Mapping[str, float]) -> dict[Site, Fetched]:
    rows = {name: Summary.of(np.array([number])).pack() for name, number in numbers.items()}
    return {
        Site(Kind.SCALAR, _under(group, name)): partial(dict, loss=row)
        for name, row in rows.items()
    }


def _of_losses(moment: Moment, when: float, group: str, rows: Mapping[Site, Any]) -> Reading | None:
    if not rows:
        return None
    sites = list(rows)
    summary = Summary.unpack(np.stack(list(rows.values())))
    return Reading(moment.step, moment.epoch, when, sites, summary, group=group)


def _of_layout(
    moment: Moment, when: float, layout: Layout, arrays: Any, rows: Mapping[str, Any]
) -> Reading | None:
    due = layout.plan.due(moment)
    prefix = scope(layout.group, layout.micro_batch)
    reading = reading_of(
        moment,
        when,
        layout.plan,
        due,
        arrays,
        layout=layout.rows,
        losses={_under(prefix, name): row for name, row in rows.items()},
        group=layout.group,
        micro_batch=layout.micro_batch,
    )
    return reading if len(reading) else None


def _under(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name


def _framework_of_readings(readings: Any) -> Framework:
    if not isinstance(readings, Mapping) or not set(readings) >= PARTS:
        raise WrongTypeError(
            "record() takes, without a name, what monitor.measure() returned. Tensors are given "
            "by name: record(gradients=grads, variables=variables). "
            f"Received: {type(readings).__name__}"
        )
    own = common_framework([readings["rows"]])
    if own.is_traced(readings["rows"]):
        raise WrongPlaceError(
            "monitor.record() was called inside a compiled function. Return the readings from it, "
            "and record them outside."
        )
    shape = tuple(readings["rows"].shape)
    if len(shape) != 2:
        raise WrongValueError(
            f"record() takes the readings of one step. Received: rows of shape {shape}. "
            "Those of several steps, as of a scan, are recorded one by one."
        )
    return own


def _remark_on_none(given: Given, remark: Callable[[str], None]) -> None:
    gradients = [x for site, x in given.tensors.items() if site.kind is Kind.GRADIENT]
    if gradients and all(x is None for x in gradients):
        remark(
            "Not one of the gradients exists (all are None), so they are recorded with count 0. "
            "In torch, record between loss.backward() and optimizer.zero_grad(); in TensorFlow, "
            "the loss must be computed from the variables, inside the tape."
        )


def _end(recorder: weakref.ref[LoopRecorder]) -> None:
    """At the end of the process, for loops whose monitor nobody closed."""
    still_there = recorder()
    if still_there is not None:
        still_there.end()
