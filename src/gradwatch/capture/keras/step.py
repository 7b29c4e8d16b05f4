"""The measured twin of a model's compiled training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras

from gradwatch.capture.keras.backends import Backend
from gradwatch.capture.keras.observation import Observation
from gradwatch.schedule import Moment


@dataclass(frozen=True)
class Order:
    """A step that is to be measured."""

    moment: Moment
    histograms: bool


class MeasuredStep:
    """Runs a model's training step so that it also yields its measurements.

    Built on first use, next to the model's own `train_function`, which stays as
    it is and goes on being used for the steps that are not measured.
    """

    def __init__(self, model: Any, backend: Backend, observation: Observation) -> None:
        self._model = model
        self._backend = backend
        self._wrapped = backend.wrap(model.train_step, observation)
        self._measured: Any = None
        self._single: Any = None

    def run(
        self,
        orders: Sequence[Order | None],
        args: tuple[Any, ...],
        tell: Callable[[Order, Any], None],
    ) -> Any:
        """One execution of the train function: a step, or `steps_per_execution` steps.

        Args:
            orders: one for each step of the execution, None where it is not measured.
            args: what Keras passed to the train function.
            tell: told of each measurement, as arrays on the device.

        Returns:
            What the model's own train function would have returned.
        """
        if len(orders) == 1:
            return self._run_one(orders[0], args, tell)
        # Several steps at once run in a loop on the device, out of which only
        # the last one's results come. So here they are run one by one.
        result = None
        with _attributes(self._model, steps_per_execution=1):
            for i, order in enumerate(orders):
                try:
                    result = self._run_one(order, args, tell)
                except _end_of_data():
                    if i == 0:
                        raise
                    break
                args = self._backend.advance(args, result)
        return result

    def _run_one(
        self, order: Order | None, args: tuple[Any, ...], tell: Callable[[Order, Any], None]
    ) -> Any:
        if order is None:
            if self._single is None:
                self._single = self._make_function(self._model.train_step)
            return self._single(*args)
        if self._measured is None:
            self._measured = self._make_function(self._wrapped)
        # torch looks the train step up at each call, the others when building.
        with _attributes(self._model, train_step=self._wrapped):
            result, measured = self._backend.call(self._measured, args, order.histograms)
        tell(order, measured)
        return result

    def _make_function(self, train_step: Any) -> Any:
        model = self._model
        with _attributes(model, train_step=train_step, train_function=None):
            model.make_train_function(force=True)
            return model.train_function


@contextmanager
def _attributes(model: Any, **values: Any) -> Iterator[None]:
    """Give the model other attributes for a while.

    Through its `__dict__`, past the tracking of Keras and torch, so that what it
    had before, or had not, is restored exactly.
    """
    own = vars(model)
    before = {name: own[name] for name in values if name in own}
    own.update(values)
    try:
        yield
    finally:
        for name in values:
            own.pop(name, None)
        own.update(before)


def _end_of_data() -> tuple[type[Exception], ...]:
    if keras.backend.backend() != "tensorflow":
        return (StopIteration,)
    import tensorflow as tf

    return (StopIteration, tf.errors.OutOfRangeError)
