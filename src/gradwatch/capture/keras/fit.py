"""Following `model.fit` from step to step, and measuring the steps that are due."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras

from gradwatch.capture.keras.backends import OfReplicas, make_backend
from gradwatch.capture.keras.describe_model import facts_of
from gradwatch.capture.keras.layers import output_sites_of
from gradwatch.capture.keras.meaning import meanings
from gradwatch.capture.keras.observation import Observation
from gradwatch.capture.keras.optimizers import find_optimizers, innermost
from gradwatch.capture.keras.replica_readings import ReplicaReadings, refusal, replicas_of
from gradwatch.capture.keras.step import (
    MeasuredCall,
    MeasuredStep,
    Observer,
    Order,
    own_train_function,
)
from gradwatch.capture.keras.step_inputs import around_sites
from gradwatch.capture.keras.variables import fit_of, sites_of
from gradwatch.capture.readings import Layout, reading_of
from gradwatch.capture.values import names_due
from gradwatch.core import Kind, ModelFacts, Reading, ReportedLoss, Site, SiteInfo
from gradwatch.core.schedule import Moment
from gradwatch.watches import Due, Plan, Timetable
from gradwatch.watches.budget import Pacer

__all__ = ["FitCapture", "StepCounter", "refusal"]

_RANDOM_STATE = (
    "Nothing is measured: the training step draws random numbers by operations of tf.random, which "
    "keep their state inside the compiled step, so that a measured step would draw others. Measure "
    "from the first step on (every=1), draw them with keras.random and a SeedGenerator, or compile "
    "the model with run_eagerly=True."
)


class FitCapture:
    """Measures the due steps of a model's `fit`, once or repeatedly.

    Before a step that is due, the model's `train_function` is replaced by one
    that puts the model's own back as its first act: between steps, and through
    any exception in a step, the model is as Keras made it.

    Args:
        model: the model being fitted.
        timetable: what to measure, and when.
        pacer: told when steps begin.
        submit: takes a function that waits for a step's arrays and makes its Reading,
            the number of its sites, and those of them that nobody saw.
        fault: told of an exception of ours.
        remark: told, in words, of what the user should know.

    Raises:
        ValueError: a selector matches nothing.
    """

    def __init__(
        self,
        model: Any,
        timetable: Timetable,
        pacer: Pacer,
        submit: Callable[[Callable[[], Reading], int, frozenset[Site]], None],
        fault: Callable[[Exception], None],
        remark: Callable[[str], None],
    ) -> None:
        self._model = model
        parameters = sum(math.prod(variable.shape) for variable in model.trainable_variables)
        self._timetable = timetable.affordable(parameters)
        self._pacer = pacer
        self._submit = submit
        self._fault = fault
        self._remark = remark
        self._backend = make_backend(model)
        self._own_function = own_train_function(model)
        self._plan: Plan | None = None
        self._planned_variables = -1
        self._counter = StepCounter(model)
        self._replicas = ReplicaReadings(replicas_of(model))
        if any(w.per_replica for w in timetable.watches) and replicas_of(model) == 1:
            remark(
                "gradients(per_replica=True): this training has no replicas whose gradients could "
                "be told apart, so only the gradients themselves are recorded."
            )
        self._measured_step = MeasuredStep(model, self._backend)
        self._observer = self._make_observer()
        if _is_built(model):
            self._require_plan()

    def serves(self, model: Any) -> bool:
        """Whether this capture, with what it has compiled, does for another `fit`."""
        # compile() makes Keras build a new train function.
        return model is self._model and own_train_function(model) is self._own_function

    @property
    def next_step(self) -> int:
        """The number of the next step, as far as it is known before it begins."""
        return self._counter.steps_so_far() + 1

    def reported(self, batch: int, loss: float) -> ReportedLoss:
        """What Keras reports when the batch with that index in the epoch has ended."""
        stride = self._model.steps_per_execution
        return ReportedLoss(self._counter.step_of(batch), batch + 1, loss, stride)

    def facts(self) -> ModelFacts:
        """What is known of the model."""
        return facts_of(self._model)

    def stop(self) -> None:
        """Have `fit` end after the step that is under way, as early stopping does."""
        self._model.stop_training = True

    def meaning(self) -> Mapping[Kind, str]:
        """What the measurements of each kind are, in words."""
        return meanings(find_optimizers(self._model), replicas_of(self._model))

    def infos(self) -> list[SiteInfo]:
        """What is known of the chosen sites; none before the model's variables exist."""
        known = [] if self._plan is None else self._plan.infos
        # Of what surrounds the network, nothing is known before it is there.
        return [info for info in known if info.kind.is_of_variable or info.kind.is_of_layer]

    def begin_epoch(self, epoch: int, batches: int | None) -> None:
        """Epoch `epoch`, counted from 1, begins; `batches` is None if not known."""
        self._pacer.pause()
        self._counter.begin_epoch(epoch, batches)
        if self._counter.steps_so_far() and not self._measured_step.has_run:
            self._backend.own_step_has_run = True

    def begin_batch(self, batch: int) -> None:
        """The batch with that index in the epoch, or several from it on, come next."""
        moments = self._counter.moments(batch)
        if self._plan is None and _is_built(self._model):
            self._require_plan()
        due = [moment for moment in moments if self._timetable.is_due(moment)]
        is_ordinary = not due or all(map(self._timetable.is_ordinary, due))
        self._pacer.tick(moments, bool(due), counts=is_ordinary)
        if self._observer.is_refused:
            self._remark(_RANDOM_STATE)
        elif due or self._backend.holds_random_state:
            self._measure_next(moments)
        else:
            self._backend.own_step_has_run = True

    def end(self) -> None:
        """`fit` has ended."""
        self._counter.end()

    def release(self) -> None:
        """Leave the model as Keras made it, also where another callback thwarted a step."""
        own_train_function(self._model)

    def _measure_next(self, moments: list[Moment]) -> None:
        """Replace the model's train function for its next call."""
        if self._plan is not None and len(self._model.weights) != self._planned_variables:
            # A layer has come to life since: what was compiled does not know it.
            self._plan = None
            self._observer = self._make_observer()
        every = self._backend.holds_random_state
        orders = [[self._order(m)] if every or self._timetable.is_due(m) else [] for m in moments]
        replaced = vars(self._model)["train_function"]
        if isinstance(replaced, MeasuredCall):
            # By another monitor that watches this fit.
            replaced.join(orders)
        else:
            MeasuredCall(self._measured_step, self._model, orders)

    def _order(self, moment: Moment) -> Order:
        histograms = any(self._timetable.histograms_due(moment))
        return Order(moment, histograms, self._observer)

    def _hand_over(self, order: Order, measured: Mapping[str, Any]) -> None:
        """Send a measurement on its way, without waiting for it."""
        if not measured:
            return
        try:
            plan = self._require_plan()
            due = plan.due(order.moment)
            if not due.summaries:
                return  # It was measured for the sake of its random numbers alone.
            names = ["rows", *(["cells"] if due.histograms else [])]
            names += [name for name in ("updates", "layout") if name in measured]
            names += names_due(due, measured)
            wait = self._backend.framework.fetch(measured, names)
            layouts = order.observer.observation.layouts
            make_reading = partial(_reading, order.moment, time.time(), plan, due, layouts, wait)
            unseen = order.observer.observation.unseen
            self._submit(make_reading, len(due.summaries), unseen)
            if due.per_replica and "replicas" in measured:
                wait = self._backend.framework.fetch(measured, ["replicas"])
                for reading in self._replicas.readings(order.moment, time.time(), plan, due, wait):
                    self._submit(reading, len(due.per_replica), frozenset())
        except Exception as error:
            self._fault(error)

    def _require_plan(self) -> Plan:
        """The plan; made as soon as the model's variables exist."""
        if self._plan is None:
            available = sites_of(self._model)
            if any(kind.is_of_layer for kind in self._timetable.kinds):
                available += output_sites_of(self._model)
            available += around_sites(self._timetable.kinds)
            self._plan = Plan(self._timetable, available)
            self._planned_variables = len(self._model.weights)
        return self._plan

    def _make_observer(self) -> Observer:
        def make(mine: Callable[[], bool] | None = None) -> Observation:
            return Observation(
                self._model,
                self._timetable.kinds,
                lambda: self._plan,
                self._require_plan,
                self._backend,
                self._fault,
                self._remark,
                self._remark if self._timetable.is_asked_for_outputs else lambda text: None,
                mine,
            )

        observation: Any
        if isinstance(self._backend, OfReplicas):
            observation = self._backend.observation(make, self._require_plan)
        else:
            observation = make()
        return Observer(self._backend, observation, self._hand_over, self._fault)


class StepCounter:
    """Counts training steps on the host, so that nobody waits for the device.

    It starts from the optimizer's own counter. Every batch counts, also a
    micro-batch of an accumulated gradient, and one whose update loss scaling
    skipped.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._optimizers: list[Any] = []
        self._fit: Any = None
        self._epoch = 0
        self._batches: int | None = None
        self._before_epoch = 0
        self._begun = 0
        """The steps of the epoch, the one that is under way included."""
        self._optimizer_before: int | None = None
        """What the optimizer had counted when the epoch began, or `fit` ended."""

    def steps_so_far(self) -> int:
        return self._before_epoch + self._begun

    def step_of(self, batch: int) -> int:
        return self._before_epoch + batch + 1

    def begin_epoch(self, epoch: int, batches: int | None) -> None:
        # Not when fit begins: a callback may have restored a checkpoint since.
        is_same_fit = fit_of(self._model) is self._fit
        if not is_same_fit:
            self._optimizers = find_optimizers(self._model)
        self._catch_up(is_same_fit)
        self._fit = fit_of(self._model)
        self._epoch, self._batches = epoch, batches

    def moments(self, batch: int) -> list[Moment]:
        """The steps of the execution that begins with a batch."""
        end = batch + self._model.steps_per_execution
        if self._batches is not None:
            end = max(batch + 1, min(end, self._batches))
        self._begun = end
        representative = 0 if self._batches is None else self._batches - 1
        return [
            Moment(self._before_epoch + b + 1, self._epoch, stands_for_epoch=b == representative)
            for b in range(batch, end)
        ]

    def end(self) -> None:
        self._catch_up(is_same_fit=True)

    def _catch_up(self, is_same_fit: bool) -> None:
        """Count what was really run since the last time; nothing may be under way."""
        # Not `iterations`, which with gradient accumulation counts the updates.
        counters = [_number(innermost(o)._iterations.value) for o in self._optimizers]
        counted = max(counters, default=0)
        if self._optimizer_before is None or counted < self._optimizer_before:
            # The first time, or the model has gone back to a checkpoint.
            self._before_epoch = counted
        else:
            run = counted - self._optimizer_before
            least, most = self._steps_run(is_same_fit)
            # Outside these bounds the optimizer's counter is no witness: it skips
            # steps, or is applied more than once in one. Unless it is another fit:
            # then the model may have been trained without us.
            is_witness = least <= run and (run <= most or not is_same_fit)
            self._before_epoch += run if is_witness else most
        self._begun = 0
        self._optimizer_before = counted

    def _steps_run(self, is_same_fit: bool) -> tuple[int, int]:
        """The least and the greatest number of steps that may have been run of those begun."""
        least = most = self._begun
        at_once = self._model.steps_per_execution
        if not is_same_fit:
            least -= at_once  # That fit was interrupted, perhaps within a step.
        elif self._batches is None and keras.backend.backend() != "torch":
            # Keras finds the end of the data by beginning a step that has none, after
            # an execution that may have had only some. (torch gets the data first.)
            least -= 2 * at_once - 1
            most -= 0 if self._model.stop_training else at_once
        skips_steps = any(o is not innermost(o) for o in self._optimizers)
        return (most, most) if skips_steps else (least, most)


def _number(counter: Any) -> int:
    # What tf.distribute keeps on several devices is no number itself.
    return int(counter.read_value() if hasattr(counter, "read_value") else counter)


def _is_built(model: Any) -> bool:
    return all(layer.built for layer in model._flatten_layers())


def _reading(
    moment: Moment,
    when: float,
    plan: Plan,
    due: Due,
    layouts: Sequence[Layout],
    wait: Callable[[], Mapping[str, Any]],
) -> Reading:
    """Wait for a step's arrays and keep what was due."""
    arrays = wait()
    layout = layouts[int(arrays.get("layout", 0))]
    return reading_of(moment, when, plan, due, arrays, layout=layout)
