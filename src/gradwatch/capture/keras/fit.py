"""Following `model.fit` from step to step, and measuring the steps that are due."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gradwatch.capture.keras.backends import make_backend
from gradwatch.capture.keras.meaning import meanings
from gradwatch.capture.keras.observation import Observation
from gradwatch.capture.keras.optimizers import find_optimizers
from gradwatch.capture.keras.step import MeasuredStep, Order
from gradwatch.capture.keras.variables import sites_of
from gradwatch.capture.plan import Due, Plan, Timetable
from gradwatch.reading import Reading
from gradwatch.schedule import Moment
from gradwatch.sites import Kind
from gradwatch.summary import Summary


class FitCapture:
    """Measures the due steps of a model's `fit`, once or repeatedly.

    Before a step that is due, the model's `train_function` is replaced by one
    that puts the model's own back as its first act: between steps, and through
    any exception, the model is as Keras made it.

    Args:
        model: the model being fitted.
        timetable: what to measure, and when.
        submit: takes a function that waits for a step's arrays and makes its Reading.
        fault: told of an exception of ours.
        remark: told, in words, of what the user should know.

    Raises:
        ValueError: a selector matches nothing.
    """

    def __init__(
        self,
        model: Any,
        timetable: Timetable,
        submit: Callable[[Callable[[], Reading]], None],
        fault: Callable[[Exception], None],
        remark: Callable[[str], None],
    ) -> None:
        self._model = model
        self._timetable = timetable
        self._submit = submit
        self._fault = fault
        self._remark = remark
        self._backend = make_backend(model)
        self._own_function = model.train_function
        self._plan: Plan | None = None
        self._planned_variables = -1
        self._counter = StepCounter(model)
        self._measured_step = self._make_measured_step()
        if _is_built(model):
            self._require_plan()

    def serves(self, model: Any) -> bool:
        """Whether this capture, with what it has compiled, does for another `fit`."""
        # compile() makes Keras build a new train function.
        return model is self._model and model.train_function is self._own_function

    @property
    def next_step(self) -> int:
        """The number of the next step, as far as it is known before it begins."""
        return self._counter.steps_so_far() + 1

    def meaning(self) -> Mapping[Kind, str]:
        """What the measurements of each kind are, in words."""
        return meanings(find_optimizers(self._model))

    def begin_epoch(self, epoch: int, batches: int | None) -> None:
        """Epoch `epoch`, counted from 1, begins; `batches` is None if not known."""
        self._counter.begin_epoch(epoch, batches)

    def begin_batch(self, batch: int) -> None:
        """The batch with that index in the epoch, or several from it on, come next."""
        orders = [self._order(moment) for moment in self._counter.moments(batch)]
        if self._plan is None and _is_built(self._model):
            self._require_plan()
        if any(orders):
            self._measure_next(orders)

    def end(self) -> None:
        """`fit` has ended."""
        self._counter.end()

    def _order(self, moment: Moment) -> Order | None:
        if not any(self._timetable.summaries_due(moment)):
            return None
        return Order(moment, histograms=any(self._timetable.histograms_due(moment)))

    def _measure_next(self, orders: list[Order | None]) -> None:
        """Replace the model's train function for its next call."""
        own = vars(self._model)
        if self._plan is not None and len(self._model.weights) != self._planned_variables:
            # A layer has come to life since: what was compiled does not know it.
            self._plan = None
            self._measured_step = self._make_measured_step()
        train_function = own["train_function"]

        def measured_once(*args: Any) -> Any:
            own["train_function"] = train_function
            return self._measured_step.run(orders, args, self._hand_over)

        own["train_function"] = measured_once

    def _hand_over(self, order: Order, measured: Mapping[str, Any]) -> None:
        """Send a measurement on its way, without waiting for it."""
        if not measured:
            return
        try:
            plan = self._require_plan()
            due = plan.due(order.moment)
            names = ["rows", *(["cells"] if due.histograms else [])]
            names += ["updates"] if "updates" in measured else []
            wait = self._backend.fetch(measured, names)
            self._submit(partial(_reading, order.moment, time.time(), plan, due, wait))
        except Exception as error:
            self._fault(error)

    def _require_plan(self) -> Plan:
        """The plan; made as soon as the model's variables exist."""
        if self._plan is None:
            self._plan = Plan(self._timetable, sites_of(self._model))
            self._planned_variables = len(self._model.weights)
        return self._plan

    def _make_measured_step(self) -> MeasuredStep:
        observation = Observation(
            self._model,
            self._timetable.kinds,
            self._require_plan,
            self._backend,
            self._fault,
            self._remark,
        )
        return MeasuredStep(self._model, self._backend, observation)


def refusal(model: Any) -> str | None:
    """Why this model's training cannot be watched, in words; None if it can."""
    strategy = getattr(model, "distribute_strategy", None)
    replicas = getattr(strategy, "num_replicas_in_sync", 1)
    if replicas > 1:
        return (
            f"The model trains on {replicas} replicas with tf.distribute, which gradwatch does "
            "not measure yet. Nothing is recorded."
        )
    return None


class StepCounter:
    """Counts optimizer steps on the host, so that nobody waits for the device.

    It starts from the optimizer's own counter when `fit` starts. From there on
    every batch counts, also one whose update loss scaling skipped.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._running = False
        self._before_epoch = 0
        self._seen_in_epoch = 0
        self._epoch = 0
        self._batches: int | None = None
        self._optimizer_at_end: int | None = None

    def steps_so_far(self) -> int:
        return self._before_epoch + self._seen_in_epoch if self._running else self._start()

    def begin_epoch(self, epoch: int, batches: int | None) -> None:
        if not self._running:
            # Not when fit begins: a callback may have restored a checkpoint since.
            self._before_epoch = self._start()
            self._running = True
        elif batches is None and self._model.steps_per_execution > 1:
            # How many batches the last execution found is known to the optimizer only.
            self._before_epoch = _optimizer_steps(self._model)
        else:
            self._before_epoch += self._seen_in_epoch
        self._epoch, self._batches, self._seen_in_epoch = epoch, batches, 0

    def moments(self, batch: int) -> list[Moment]:
        """The steps of the execution that begins with a batch."""
        end = batch + self._model.steps_per_execution
        if self._batches is not None:
            end = max(batch + 1, min(end, self._batches))
        self._seen_in_epoch = end
        representative = 0 if self._batches is None else self._batches - 1
        return [
            Moment(self._before_epoch + b + 1, self._epoch, stands_for_epoch=b == representative)
            for b in range(batch, end)
        ]

    def end(self) -> None:
        self._before_epoch, self._seen_in_epoch = self.steps_so_far(), 0
        self._optimizer_at_end = _optimizer_steps(self._model)
        self._running = False

    def _start(self) -> int:
        steps = _optimizer_steps(self._model)
        return self._before_epoch if steps == self._optimizer_at_end else steps


def _optimizer_steps(model: Any) -> int:
    return max((int(o.iterations.numpy()) for o in find_optimizers(model) if o.built), default=0)


def _is_built(model: Any) -> bool:
    return all(layer.built for layer in model._flatten_layers())


def _reading(
    moment: Moment, when: float, plan: Plan, due: Due, wait: Callable[[], Mapping[str, Any]]
) -> Reading:
    """Wait for a step's arrays and keep what was due."""
    arrays = wait()
    updated = arrays.get("updates")
    kept = [
        i
        for i in due.summaries
        # Between two updates there is no applied gradient.
        if updated is None or updated[i] or plan.sites[i].kind is not Kind.APPLIED_GRADIENT
    ]
    row_of_cells = {i: row for row, i in enumerate(plan.with_histogram)}
    return Reading(
        step=moment.step,
        epoch=moment.epoch,
        time=when,
        sites=[plan.sites[i] for i in kept],
        summary=Summary.unpack(arrays["rows"][kept]),
        cells={
            position: arrays["cells"][row_of_cells[i]].astype(float)
            for position, i in enumerate(kept)
            if i in due.histograms
        },
    )
