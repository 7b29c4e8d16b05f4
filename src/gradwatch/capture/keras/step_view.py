"""What a monitor measures in a model's training step, and what measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from gradwatch.capture.keras.again import is_harmed
from gradwatch.capture.keras.backends import KerasBackend
from gradwatch.capture.keras.fit_plan import FitPlan
from gradwatch.capture.keras.observation import Observation
from gradwatch.capture.keras.optimizers import skips_overflows
from gradwatch.capture.keras.replica_refusal import replicas_of
from gradwatch.capture.keras.single_replicas import of_replica
from gradwatch.capture.keras.step import MeasuredStep
from gradwatch.capture.keras.step_request import Observer, StepRequest
from gradwatch.capture.keras.twins import TwinPlace
from gradwatch.capture.recorder import Recorder
from gradwatch.capture.replicas import replica_name
from gradwatch.capture.values import names_due
from gradwatch.core import KerasModel, Moment
from gradwatch.measure import Fetched
from gradwatch.watches import Timetable


class StepView:
    """The plan of a timetable for a model, its observer, and the step that is compiled for it.

    `watch` makes an observer of an observation. `measured` is told of each step that is sent, with
    the function that waits for its arrays. A compiled step is kept in `twins`, if given,
    when `fit` ends, and taken from there.
    """

    def __init__(
        self,
        model: KerasModel,
        timetable: Timetable,
        backend: KerasBackend,
        recorder: Recorder,
        step: MeasuredStep,
        watch: Callable[[StepView, Observation, KerasBackend], Observer],
        measured: Callable[[StepView, Moment, Fetched], None],
        twins: TwinPlace | None,
    ) -> None:
        self.plan = FitPlan(model, timetable, recorder.reporter)
        self.recorder = recorder
        self._model = model
        self._backend = backend
        self._step = step
        self._watch = watch
        self._measured = measured
        self._twins = twins
        self.plan.make_if_built()
        twin = None if twins is None else twins.take(self.plan.current, timetable.kinds)
        if twin is None:
            self.observer = self._new_observer()
        else:
            self.observer = watch(self, twin.observation, twin.backend)
            step.adopt(self.observer, twin.compiled)
            recorder.tables.adopt(twin.tables, self.plan.require())

    def renew(self) -> None:
        """The model has other variables than when the plan was made."""
        self.plan.renew()
        if self._twins is not None:
            self._twins.forget()
        self.observer = self._new_observer()

    @cached_property
    def may_skip(self) -> bool:
        """Whether the optimizer may skip a step whose gradients are not finite."""
        return skips_overflows(self._model)

    def is_harmed(self, wait: Fetched) -> bool:
        """Whether a step that was measured has left something that is not finite."""
        return is_harmed(wait(), self.recorder.tables, may_skip=self.may_skip)

    def take_back(self) -> bool:
        """Whether what was kept is still this monitor's, for another `fit`."""
        return self._twins is None or self._twins.take_back()

    def keep(self) -> None:
        """`fit` has ended: keep what was compiled."""
        if self._twins is not None:
            compiled = self._step.compiled_for(self.observer)
            kinds, tables = self.plan.timetable.kinds, self.recorder.tables
            self._twins.leave(self.plan.current, kinds, self.observer, compiled, tables)

    def send(self, request: StepRequest, measured: Mapping[str, Any]) -> None:
        """Send a measurement, without waiting for it."""
        if not measured:
            return
        try:
            plan, moment = self.plan.require(), request.moment
            due = plan.due(moment)
            if not due.summaries:
                return  # It was measured for the sake of its random numbers alone.
            fetch = self._backend.framework.fetch
            wait = self._step.fetched(self.observer, fetch(measured, names_due(due, measured)))
            self._measured(self, moment, wait)
            self.recorder.send(
                moment,
                wait,
                count=len(due.summaries),
                unseen=request.observer.observation.coverage.unseen,
            )
            if due.per_replica and "replicas" in measured:
                of_replicas = fetch(measured, ["replicas"])
                for replica in range(replicas_of(self._model)):
                    self.recorder.send(
                        moment,
                        numbers=partial(of_replica, replica, plan, due, of_replicas),
                        group=replica_name(replica),
                        count=len(due.per_replica),
                    )
        except Exception as error:
            reporter = self.recorder.reporter
            reporter.internal_error(error, "sending a measured step", "that step")

    def _new_observer(self) -> Observer:
        observation = self._backend.observation(
            lambda backend: Observation(self._model, self.plan, backend, self.recorder)
        )
        return self._watch(self, observation, self._backend)
