"""Counts the training steps of `fit` on the host."""

import threading
from typing import Any

from gradwatch.capture.keras.optimizers import find_optimizers, innermost
from gradwatch.capture.keras.variables import fit_of
from gradwatch.compat.keras_facts import ENDS_WITH_LAST_BATCH
from gradwatch.core import KerasModel, KerasOptimizer, Moment


class FitStepCounter:
    """Counts training steps without waiting for the device.

    It starts from the optimizer's own counter. Every batch counts, also a micro-batch of an
    accumulated gradient, and one whose update loss scaling skipped. An optimizer that has counted
    nothing yet, of a model that is compiled again, goes on after `steps_before`.
    """

    def __init__(self, model: KerasModel, steps_before: int = 0) -> None:
        self._model = model
        self._optimizers: list[KerasOptimizer] = []
        self._fit: Any = None
        self._epoch = 0
        self._batches: int | None = None
        self._before_epoch = steps_before
        self._begun = 0
        """The steps of the epoch, the one that is under way included."""
        self._ended = 0
        """Those of executions that have ended: more than were run if the data ended within one."""
        self._lock = threading.Lock()
        self.went_back = False
        """Whether the model has gone back to a checkpoint before the epoch began."""
        self._optimizer_before: int | None = None
        """What the optimizer had counted when the epoch began, or `fit` ended."""

    def steps_so_far(self) -> int:
        return self._before_epoch + self._begun

    @property
    def epoch(self) -> int:
        """The epoch that is under way, counted from 1; 0 before the first."""
        return self._epoch

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
        """The steps of the execution that begins with a batch, if the data lasts that long."""
        # All of them, whatever the length of the epoch: Keras goes beyond `steps_per_epoch`
        # where that is not a multiple.
        end = self._begun = batch + self._model.steps_per_execution
        representative = 0 if self._batches is None else self._batches - 1
        return [
            Moment(self._before_epoch + b + 1, self._epoch, stands_for_epoch=b == representative)
            for b in range(batch, end)
        ]

    def end_batch(self, batch: int) -> None:
        """The execution that ends with a batch has ended; on any thread, in any order."""
        if not ENDS_WITH_LAST_BATCH:
            batch += self._model.steps_per_execution - 1
        with self._lock:
            self._ended = max(self._ended, batch + 1)

    def end(self) -> None:
        self._catch_up(is_same_fit=True)

    def _catch_up(self, is_same_fit: bool) -> None:
        """Count what was really run since the last time; nothing may be under way."""
        # Not `iterations`, which with gradient accumulation counts the updates.
        counters = [_number(innermost(o)._iterations.value) for o in self._optimizers]
        counted = max(counters, default=0)
        self.went_back = self._optimizer_before is not None and counted < self._optimizer_before
        if self._optimizer_before is None:
            self._before_epoch = counted or self._before_epoch
        elif self.went_back:
            self._before_epoch = counted
        else:
            run = counted - self._optimizer_before
            least, most = self._steps_run(is_same_fit)
            # Outside these bounds the optimizer's counter is no witness: it skips
            # steps, or is applied more than once in one. Unless it is another fit:
            # then the model may have been trained without a monitor.
            is_witness = least <= run and (run <= most or not is_same_fit)
            self._before_epoch += run if is_witness else most
        self._begun = self._ended = 0
        self._optimizer_before = counted

    def _steps_run(self, is_same_fit: bool) -> tuple[int, int]:
        """The least and the greatest number of steps that may have been run of those begun."""
        at_once = self._model.steps_per_execution
        if is_same_fit:
            # Not those begun: Keras finds the end of the data by beginning a step that has none.
            most = self._ended
            least = most - at_once + 1
        else:
            # That fit was interrupted, perhaps within a step, and not all ends were reported.
            most = self._begun
            least = most - at_once
        if any(o is not innermost(o) for o in self._optimizers):
            # These skip steps, so that the optimizer's counter is no witness.
            most = most if self._batches is None else min(most, self._batches)
            return most, most
        return least, most


def _number(counter: Any) -> int:
    # What tf.distribute keeps on several devices is no number itself.
    return int(counter.read_value() if hasattr(counter, "read_value") else counter)
