"""Follows `model.fit` from step to step, and measures the steps that are due."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from gradwatch.capture.keras.again import KeptCall, Rerun, Reruns, StepSearch, make_keeper
from gradwatch.capture.keras.ahead import make_tracer
from gradwatch.capture.keras.backends import KerasBackend, make_backend
from gradwatch.capture.keras.describe_model import facts_of
from gradwatch.capture.keras.first_steps import FirstSteps
from gradwatch.capture.keras.fit_reports import FitReports, numbers_in
from gradwatch.capture.keras.fit_words import NO_REPLICAS, RANDOM_STATE, STILL_COMPILING, Announce
from gradwatch.capture.keras.measured_call import MeasuredCall
from gradwatch.capture.keras.optimizers import find_optimizers
from gradwatch.capture.keras.replica_refusal import replicas_of
from gradwatch.capture.keras.slow_start import SlowStart
from gradwatch.capture.keras.stand_in import StandIn, restored_train_function
from gradwatch.capture.keras.step import MeasuredStep
from gradwatch.capture.keras.step_counter import FitStepCounter
from gradwatch.capture.keras.step_request import Observer, StepRequest
from gradwatch.capture.keras.step_view import StepView
from gradwatch.capture.keras.twins import TwinPlace
from gradwatch.capture.loss_signs import LossSigns
from gradwatch.capture.meaning import fit_meaning
from gradwatch.capture.number_log import NumberLog
from gradwatch.capture.recorder import Recorder, Submit
from gradwatch.core import KerasModel, Kind, ModelFacts, Moment, Site, SiteInfo
from gradwatch.measure import Fetched
from gradwatch.util import Reporter
from gradwatch.watches import Timetable
from gradwatch.watches.budget import Pacer

_FAR = 10**9 + 7
LESSER_FROM = 300
"""The steps after which the step that measures less is compiled; fewer would not make up for it."""


class FitCapture:
    """Measures the due steps of a model's `fit`, once or repeatedly.

    Before a step that is due, the model's `train_function` is replaced by one that puts the
    model's own back as its first act: between steps, and through any exception in a step, the
    model is as Keras made it. A selector that matches nothing raises ValueError.
    """

    def __init__(
        self,
        model: KerasModel,
        timetable: Timetable,
        pacer: Pacer,
        submit: Submit,
        reporter: Reporter,
        announce: Announce,
        steps_before: int = 0,
    ) -> None:
        self._model = model
        parameters = sum(math.prod(variable.shape) for variable in model.trainable_variables)
        self._timetable = timetable.affordable(parameters)
        self._pacer = pacer
        self._reporter = reporter
        self._reports, self._numbers = FitReports(), NumberLog(submit)
        self._signs = LossSigns(pacer)
        self._announce, self._batch = announce, 0
        self._own_start: SlowStart | None = None
        self._backend = make_backend(model)
        if pacer.budget is not None and not self._timetable.is_due(Moment(_FAR)):
            # A measured step that ran all batches would not keep to the budget.
            self._backend.own_step_has_run = True
        self._own_function = restored_train_function(model)
        self._counter = FitStepCounter(model, steps_before)
        if any(w.per_replica for w in timetable.watches) and replicas_of(model) == 1:
            reporter.notice(NO_REPLICAS)
        keeper = make_keeper(model, self._backend, reporter)
        self._reruns: Reruns | None = None
        if keeper is not None:
            self._reruns = Reruns(keeper, self._step_search, self._send_rerun, self._say, reporter)
        tracer = make_tracer(model, keeper)
        self._measured_step = MeasuredStep(model, self._own_function, self._backend, keeper, tracer)
        self._first_steps = FirstSteps(self._measured_step, tracer, self._own_function, pacer)

        def view(timetable: Timetable, name: str, is_spare: bool) -> StepView:
            return StepView(
                model,
                timetable,
                self._backend,
                Recorder(submit, reporter),
                self._measured_step,
                partial(self._observer, is_spare=is_spare),
                self._measured,
                TwinPlace(self._own_function, name) if keeper is not None else None,
            )

        self._whole = view(self._timetable, "whole", False)
        self._lesser_from = steps_before + LESSER_FROM
        self._partial: StepView | None = None
        """What the user has asked for, without what only the diagnosis wants."""
        asked_for = self._timetable.without_diagnosis()
        if asked_for is not None and (tracer is not None or self._backend.runs_eagerly(model)):
            self._partial = view(asked_for, "partial", True)
            self._measured_step.takes_batches = True

    reports_each_step = True

    def serves(self, model: KerasModel) -> bool:
        """Whether it can be used for another `fit`, with all that it has compiled."""
        return self.is_of(model) and all(view.take_back() for view in self._views)

    def is_of(self, model: KerasModel) -> bool:
        """Whether it is the same model; `compile()` makes Keras build a new train function."""
        return model is self._model and restored_train_function(model) is self._own_function

    @property
    def _views(self) -> list[StepView]:
        return [view for view in (self._whole, self._partial) if view is not None]

    def steps_of(self, model: KerasModel) -> int:
        """How many steps a model has trained here; 0 if it is another."""
        return self._counter.steps_so_far() if model is self._model else 0

    @property
    def next_step(self) -> int:
        """The number of the next step, as far as it is known before it begins."""
        return self._counter.steps_so_far() + 1

    def report(self, batch: int, logs: Mapping[str, Any]) -> None:
        """Keras reports that the batch with that index in the epoch has ended; on any thread."""
        step, stride = self._counter.step_of(batch), self._model.steps_per_execution
        self._reports.add(step, self._counter.epoch, batch + 1, stride, logs)

    def send_reports(self, *, everything: bool = False, is_training: bool = True) -> None:
        """Send what Keras has reported, as far as nothing before it is missing."""
        for report in self._reports.take(everything=everything):
            jumps = self._signs.add_mean(report.epoch, report.place, report.loss)
            if self._reruns is not None and is_training:
                self._reruns.add_loss(report.step, report.loss, jumps=jumps)
            self._numbers.add(report.moment, report.get_numbers, when=report.time)

    def send_epoch(self, epoch: int, logs: Mapping[str, Any], prefix: str = "") -> None:
        """Send the numbers that Keras reports at the end of an epoch, or of an evaluation."""
        self.send_reports(everything=True)
        numbers = numbers_in(logs, Kind.EPOCH_METRIC, prefix)
        # Keras begins a step to find that the data have ended, so the last one reported is better.
        step = self._reports.last_step_of(epoch) or self._counter.steps_so_far()
        if numbers and step:
            self._numbers.add(Moment(step, epoch), lambda: numbers)

    def _step_search(self, waits: bool) -> StepSearch | None:
        view, moment = self._whole, Moment(self.next_step)
        request = self._request(view, moment)
        if self._reruns is None or view.plan.is_outdated:
            return None
        if not waits and self._measured_step.is_awaited(view.observer):
            return None
        if not self._measured_step.prepare([[request]]):
            return None
        function = self._measured_step.function_for(view.observer)
        fetch, tables = self._backend.framework.fetch, view.recorder.tables
        return StepSearch(self._reruns.keeper, function, fetch, tables, self._whole.may_skip)

    def _send_rerun(self, rerun: Rerun) -> None:
        if rerun.moment is not None:
            request = StepRequest(rerun.moment, False, self._whole.observer)
            self._whole.send(request, rerun.measured)

    def facts(self) -> ModelFacts:
        return facts_of(self._model, self._reporter)

    def stop(self) -> None:
        """Have `fit` end after the step that is under way, as early stopping does."""
        self._model.stop_training = True

    def meaning(self) -> Mapping[Kind, str]:
        words: dict[Kind, str] = {}
        with self._reporter.guard("describing the optimizer", "what gradients mean, in words"):
            words.update(fit_meaning(find_optimizers(self._model), replicas_of(self._model)))
        return words

    def infos(self) -> list[SiteInfo]:
        """The descriptions of the chosen sites; none before the model's variables exist."""
        plan = self._whole.plan.current
        known = [] if plan is None else plan.infos
        # Sites that surround the network are known only in the step.
        return [info for info in known if info.kind.is_of_variable or info.kind.is_of_layer]

    def begin_epoch(self, epoch: int, batches: int | None) -> bool:
        """Epoch `epoch`, counted from 1, begins; `batches` is None if not known.

        True if training has gone back to a checkpoint.
        """
        self._pacer.pause()
        self._counter.begin_epoch(epoch, batches)
        if self._counter.steps_so_far() and not self._measured_step.has_run:
            self._backend.own_step_has_run = True
        return self._counter.went_back

    def begin_batch(self, batch: int) -> None:
        """The batch with that index in the epoch, or several from it on, come next."""
        self.send_reports()
        if self._reruns is not None:
            self._reruns.look_at_copies()
        self._batch = batch
        moments = self._counter.moments(batch)
        for view in self._views:
            view.plan.make_if_built()
        due = [moment for moment in moments if self._timetable.is_due(moment)]
        observer = self._whole.observer
        if self._measured_step.is_awaited(observer) and not any(map(self._may_wait, due)):
            due = []
        whole = [moment for moment in due if self._is_whole(moment)]
        if self._reruns is not None:
            self._reruns.keeper.begin(moments, is_measured=len(whole) == len(moments))
        is_ordinary = not due or all(map(self._timetable.is_ordinary, due))
        self._pacer.tick(moments, len(due), counts=is_ordinary, whole=len(whole))
        every = self._backend.holds_random_state or (not due and self._first_steps.cover(observer))
        if observer.is_refused:
            self._reporter.notice(RANDOM_STATE)
        elif due or every:
            self._measure_next(moments, every=every)
        else:
            self._backend.own_step_has_run = True
            self._run_own(moments)

    def end_batch(self, batch: int) -> None:
        """The execution up to that batch has ended; on any thread."""
        if self._own_start is not None:
            self._own_start.end()
        self._counter.end_batch(batch)

    def end(self) -> None:
        self._counter.end()
        if self._measured_step.is_awaited(self._whole.observer):
            self._say(STILL_COMPILING)
        with self._reporter.guard("keeping the measured step", "nothing"):
            for view in self._views:
                view.keep()

    def _run_own(self, moments: list[Moment]) -> None:
        """The model's own step comes next: after measured ones, it is yet to be compiled."""
        if self._own_start is None:
            self._own_start = SlowStart(self._say, "Keras's own step")
            if self._measured_step.has_run and self._measured_step.is_compiled:
                self._own_start.begin()
        # Another monitor that watches this fit keeps or measures the step, so this one cannot.
        is_free = not isinstance(vars(self._model)["train_function"], StandIn)
        if not is_free or self._whole.plan.current is None:
            return
        if self._reruns is not None:
            KeptCall(self._model, self._reruns.keeper).install()
        else:
            self._check(moments)

    def _check(self, moments: list[Moment], *, is_measured: bool = False) -> None:
        """Have the step looked at that comes next: nothing is known of outputs."""
        if len(moments) == 1 and self._checks is not None and not self._checks.is_off:
            self._checks.call(moments[0], is_measured=is_measured).install()

    @cached_property
    def _checks(self) -> Any:
        """What looks at steps that are not measured, for a diagnosis; None if nothing does."""
        found = None
        if any(w.optional and w.kind is Kind.OUTPUT for w in self._timetable.watches):
            with self._reporter.guard("preparing to look at steps", "NaN in steps not measured"):
                found = self._backend.step_checks(self._model, self._send_rows, self._reporter)
        return found

    def _send_rows(self, moment: Moment, rows: Mapping[Site, Any]) -> None:
        """Send packed summaries by site, whatever is due."""
        self._numbers.close_batch()
        self._whole.recorder.send(moment, numbers=lambda table: rows)

    def _say(self, words: str) -> None:
        self._announce(words, is_below_bar=self._batch > 0)

    def release(self) -> None:
        """Leave the model as Keras made it, also where another callback prevented a step."""
        restored_train_function(self._model)

    def _measure_next(self, moments: list[Moment], *, every: bool) -> None:
        if not self._measured_step.is_settled and self._whole.plan.is_outdated:
            for view in self._views:
                view.renew()
        due = [every or self._timetable.is_due(moment) for moment in moments]
        requests = [[self._request_for(m)] if d else [] for m, d in zip(moments, due, strict=True)]
        replaced = vars(self._model)["train_function"]
        replaced = getattr(replaced, "inner", replaced)
        if isinstance(replaced, MeasuredCall):
            # By another monitor that watches this fit.
            replaced.join(requests)
            return
        restored_train_function(self._model)
        MeasuredCall(self._measured_step, self._model, requests).install()
        if requests[0] and requests[0][0].instead is not None:
            self._check(moments, is_measured=True)

    def _is_whole(self, moment: Moment) -> bool:
        """Whether what only the diagnosis wants is measured, too."""
        part = self._partial
        if part is None or self._timetable.is_whole(moment):
            return True
        return self._measured_step.is_compiled and not self._measured_step.is_there(part.observer)

    def _request_for(self, moment: Moment) -> StepRequest:
        request = self._request(self._whole, moment)
        part, is_eager = self._partial, self._backend.runs_eagerly(self._model)
        if part is None or self._timetable.is_whole(moment):
            return request
        is_early = moment.step <= self._lesser_from and not is_eager
        if is_early and not self._measured_step.is_there(part.observer):
            return request
        # Nobody waits for what measures less.
        return replace(self._request(part, moment), may_wait=is_eager, instead=request)

    def _request(self, view: StepView, moment: Moment) -> StepRequest:
        histograms = any(view.plan.timetable.histograms_due(moment))
        may_wait, is_due = self._may_wait(moment), self._timetable.is_due(moment)
        return StepRequest(moment, histograms, view.observer, may_wait, is_due=is_due)

    def _may_wait(self, moment: Moment) -> bool:
        """Whether training may wait for a measured step to be compiled.

        It does for a step that the user has chosen; and where the model is built by its first step,
        which cannot be traced apart from being run.
        """
        is_chosen = self._pacer.budget is None or self._timetable.is_asked_for(moment)
        return is_chosen or self._whole.plan.current is None

    def _measured(self, view: StepView, moment: Moment, wait: Fetched) -> None:
        """A step was measured, and is about to be sent."""
        if self._reruns is not None:
            harmed = partial(view.is_harmed, wait)
            self._reruns.add_measured(moment.step, harmed, is_whole=view is self._whole)
        # What is reported from now on comes after this.
        self._numbers.close_batch()

    def _observer(
        self, view: StepView, observation: Any, backend: KerasBackend, *, is_spare: bool
    ) -> Observer:
        return Observer(
            backend,
            observation,
            view.send,
            self._reporter,
            self._say,
            (lambda seconds: None) if is_spare else self._pacer.compiled,
            (lambda: None) if is_spare else self._pacer.missed,
            is_spare,
        )
