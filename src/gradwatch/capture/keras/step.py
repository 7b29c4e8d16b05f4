"""The measured twin of a model's compiled training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradwatch.capture.keras.attributes import attributes
from gradwatch.capture.keras.backends import Backend
from gradwatch.capture.keras.variables import fit_of
from gradwatch.core.schedule import Moment


@dataclass(frozen=True, eq=False)
class Observer:
    """Who measures a step, and who is told.

    `take` is given each order and what came of it, as arrays on the device;
    `fault` an exception of ours.
    """

    backend: Backend
    observation: Any
    """An `Observation`, or what watches several replicas in its place."""
    take: Callable[[Order, Any], None]
    fault: Callable[[Exception], None]

    @property
    def is_refused(self) -> bool:
        """Whether a measured step would draw other random numbers than the model's own."""
        return self.backend.holds_random_state and self.backend.own_step_has_run


@dataclass(frozen=True)
class Order:
    """A measurement of one step."""

    moment: Moment
    histograms: bool
    observer: Observer


class MeasuredCall:
    """Stands in for a model's train function for one call, and then puts it back.

    Args:
        step: runs the measured steps.
        model: the Keras model.
        orders: the measurements of each step of the execution that comes next.
    """

    def __init__(self, step: MeasuredStep, model: Any, orders: Sequence[Sequence[Order]]) -> None:
        self._step = step
        self._model = model
        self._orders = [list(each) for each in orders]
        self._fit = fit_of(model)
        self._own_function = vars(model)["train_function"]
        vars(model)["train_function"] = self

    def join(self, orders: Sequence[Sequence[Order]]) -> None:
        """Measure for another monitor of the same `fit` as well."""
        for mine, others in zip(self._orders, orders, strict=True):
            mine.extend(others)

    def put_back(self) -> None:
        """Give the model its own train function again."""
        vars(self._model)["train_function"] = self._own_function

    def __call__(self, *args: Any) -> Any:
        # Before the model's step is run, all that is ours is called inside of this: the step
        # is run in any case, and once.
        vars(self._model)["train_function"] = self._own_function
        call = None
        try:
            # Another callback may have raised after the order was given. The step was
            # then never run, and this is one of another `fit`.
            if fit_of(self._model) is self._fit and self._step.prepare(self._orders):
                call = self._step.call_of(self._orders, self._own_function)
        except Exception as error:
            _tell(self._orders, error)
        return (call or self._own_function)(*args)


class MeasuredStep:
    """Runs a model's training step so that it also yields its measurements.

    What is needed is made on first use, next to the model's own
    `train_function`, which stays as it is and goes on being used for the steps
    that are not measured.
    """

    def __init__(self, model: Any, backend: Backend) -> None:
        self._model = model
        self._backend = backend
        self._train_step = model.train_step
        self._compiled: dict[tuple[Observer, ...], tuple[Any, Any]] = {}

    @property
    def has_run(self) -> bool:
        """Whether any measured step was made."""
        return bool(self._compiled)

    def prepare(self, orders: Sequence[Sequence[Order]]) -> bool:
        """Have Keras make the functions that are needed; whether it could.

        Nothing is traced yet. A model may have a `make_train_function` of its own,
        which does not do what Keras's does.
        """
        try:
            wanted = {tuple(order.observer for order in each) for each in orders}
            comes_in_several = self._model.steps_per_execution > 1
            with attributes(self._model, steps_per_execution=1):
                if comes_in_several:
                    # For a step that, by a fault of ours, cannot be measured.
                    wanted.add(())
                for observers in wanted:
                    if observers not in self._compiled:
                        self._compiled[observers] = self._compile(observers)
            return True
        except Exception as error:
            _tell(orders, error)
            return False

    def call_of(self, orders: Sequence[Sequence[Order]], own_function: Any) -> Callable[..., Any]:
        """One execution of the train function: a step, or `steps_per_execution` steps.

        Args:
            orders: for each step of the execution, its measurements.
            own_function: the model's own, for where a fault of ours prevents measuring.

        Returns:
            What takes the arguments of the model's own train function, and returns what that
            would have returned.
        """
        if self._model.steps_per_execution == 1:
            return self._one(orders[0], own_function)
        plain = self._compiled[()][0]
        calls = [self._one(measurements, plain) for measurements in orders]

        # Several steps at once run in a loop on the device, out of which only
        # the last one's results come. So here they are run one by one.
        def several(*args: Any) -> Any:
            result = None
            with attributes(self._model, steps_per_execution=1):
                for i, call in enumerate(calls):
                    try:
                        result = call(*self._backend.one_batch(args))
                    except StopIteration:
                        if i == 0:
                            raise
                        break
                    args = self._backend.advance(args, result)
            return result

        return several

    def _one(self, orders: Sequence[Order], plain: Any) -> Callable[..., Any]:
        """A single step, measured; `plain` is the function for one that is not."""
        function, train_step = self._compiled[tuple(order.observer for order in orders)]
        own, has_state = vars(self._model), self._backend.has_state

        def one(*args: Any) -> Any:
            # As in `MeasuredCall`: what is ours is called inside of a `try`, and leaves the
            # arguments such that the model's own function can take them.
            batch = None
            if has_state:
                batch = next(args[1])
                args = (args[0], iter([batch]))
            try:
                measured_args = args
                for order in orders:
                    measured_args = order.observer.backend.arguments(
                        measured_args, order.histograms
                    )
            except Exception as error:
                _tell([orders], error)
                return plain(*((args[0], iter([batch])) if has_state else args))
            # torch looks the train step up at each call, the others when building. Into
            # __dict__, as in `attributes`.
            before = {name: own[name] for name in ("train_step",) if name in own}
            own["train_step"] = train_step
            try:
                result = function(*measured_args)
            except Exception:
                if not any(order.observer.is_refused for order in orders):
                    raise
                result = None
            finally:
                own.pop("train_step", None)
                own.update(before)
            if result is None:
                # While it was traced, before it ran.
                return plain(*args)
            for order in reversed(orders):
                if has_state:
                    outputs, state = result
                    result, measured = (outputs["logs"], state), outputs["measured"]
                else:
                    result, measured = result["logs"], result["measured"]
                try:
                    order.observer.take(order, measured)
                except Exception as error:
                    _tell([[order]], error)
            return result

        return one

    def _compile(self, observers: Sequence[Observer]) -> tuple[Any, Any]:
        """A train function that measures for all of them, and its train step."""
        model, train_step = self._model, self._train_step
        for observer in observers:
            train_step = observer.backend.wrap(train_step, observer.observation)
        given = {"train_step": train_step, "train_function": None, **self._backend.while_compiling}
        with attributes(model, **given):
            model.make_train_function(force=True)
            return model.train_function, train_step


def _tell(orders: Sequence[Sequence[Order]], error: Exception) -> None:
    for each in orders:
        for order in each:
            order.observer.fault(error)


def own_train_function(model: Any) -> Any:
    """The model's own train function, put back if it was not."""
    function = vars(model)["train_function"]
    if isinstance(function, MeasuredCall):
        function.put_back()
    return vars(model)["train_function"]
