"""The measured twin of a model's compiled training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from gradwatch.capture.keras.again import StepKeeper, UserErrors
from gradwatch.capture.keras.ahead import CompiledAhead, Taken, Tracer
from gradwatch.capture.keras.attributes import attributes
from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.slow_start import FirstCalls
from gradwatch.capture.keras.stand_in import StandIn
from gradwatch.capture.keras.started_step import StartedStep
from gradwatch.capture.keras.step_request import (
    Observer,
    StepRequest,
    instead_of,
    report_failure,
)
from gradwatch.capture.keras.variables import fit_of
from gradwatch.core import KerasModel, SelectionError


class MeasuredCall(StandIn):
    """Runs the measured twin of a model's train function.

    The requests are the measurements of each step of that call.
    """

    def __init__(
        self, step: MeasuredStep, model: KerasModel, requests: Sequence[Sequence[StepRequest]]
    ) -> None:
        super().__init__(model)
        self._step = step
        self._requests = [list(each) for each in requests]
        self._fit = fit_of(model)

    def join(self, requests: Sequence[Sequence[StepRequest]]) -> None:
        """Measure for another monitor of the same `fit` as well."""
        for own, others in zip(self._requests, requests, strict=True):
            # Not a step compiled for each combination.
            own[:] = [request.instead or request for request in (*own, *others)]

    def __call__(self, *args: Any) -> Any:
        # Before the model's step is run, nothing of gradwatch is called outside of this `try`:
        # the step is run in any case, and once. It may be traced before, and raise.
        self._model.__dict__["train_function"] = self._own_function
        self._step.errors.have_come = False
        call, tracer = None, None
        try:
            # Another callback may have raised after the request was made. The step was
            # then never run, and this is one of another `fit`.
            wanted = [*self._requests, *filter(None, map(instead_of, self._requests))]
            if fit_of(self._model) is self._fit and self._step.prepare(wanted):
                tracer = self._step.tracer_for(self._requests)
                if tracer is not None and not tracer.suits(self._step.traced(self._requests), args):
                    tracer = None
                if tracer is None:
                    call = self._step.call_of(self._requests, self._own_function)
            if self._step.keeper is not None:
                noted = self._step.noted(self._requests, self._own_function)
                args = self._step.keeper.before(noted, args)
        except SelectionError:  # Raised to the user.
            raise
        except Exception as error:
            if self._step.errors.have_come:
                raise
            tracer = None
            report_failure(self._requests, error, "preparing a measured step")
        if tracer is None:
            return (call or self._own_function)(*args)
        return self._call_ahead(tracer, tracer.take(args))

    def _call_ahead(self, tracer: Tracer, taken: Taken) -> Any:
        """Run the measured twin if it is compiled, else the model's own step."""
        own, call, failure = tracer.on_batch(self._own_function, taken), None, None
        try:
            call = self._step.call_ahead(self._requests[0], taken, own)
            if call is None and (instead := instead_of(self._requests[0])):
                call = self._step.call_ahead(instead, taken, own)
            if call is None:
                self._step.own_came_first |= not self._step.has_run
                for request in self._requests[0]:
                    if request.is_due:
                        request.observer.missed()
        except SelectionError:  # Raised to the user.
            raise
        except Exception as error:
            if self._step.errors.have_come:
                raise
            failure = error
        result = (call or own)(*tracer.arguments(taken))
        if failure is not None and not any(r.observer.is_refused for r in self._requests[0]):
            report_failure(self._requests, failure, "compiling a measured step")
        return result


class MeasuredStep:
    """Runs a model's training step so that it also yields its measurements.

    What is needed is made on first use. The model's own `train_function` stays as it is, and runs
    the steps that are not measured.
    """

    def __init__(
        self,
        model: KerasModel,
        backend: KerasBackend,
        keeper: StepKeeper | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.keeper = keeper
        self.errors = UserErrors() if keeper is None else keeper.errors
        self._tracer = tracer
        self._model = model
        self._backend = backend
        self._train_step = model.train_step
        self._compiled: dict[tuple[Observer, ...], StartedStep] = {}
        self._failed: set[tuple[Observer, ...]] = set()
        self.has_run = self.own_came_first = False
        """Whether any measured step was run, and whether the model's own ran instead of it."""
        self.takes_batches = False
        """Whether measured functions are called on batches also where training waits for them."""

    @property
    def is_compiled(self) -> bool:
        """Whether the model's steps are compiled at all."""
        return bool(not self._model.run_eagerly and self._backend.compiles(self._model))

    def tracer_for(self, requests: Sequence[Sequence[StepRequest]]) -> Tracer | None:
        """What compiles the measured step on a thread; None if that is waited for."""
        waits = any(request.may_wait for each in requests for request in each)
        return None if waits and not self.takes_batches else self._tracer

    def adopt(self, observer: Observer, compiled: Any) -> None:
        """Measure for this observer by what `compiled_for` has returned for another."""
        if self.keeper is not None:
            compiled = compiled._replace(noting=self.keeper.noting(compiled.function))
        if compiled.ahead is not None and self._tracer is not None:
            compiled.ahead.tracer = self._tracer
        self._compiled[(observer,)] = compiled

    def compiled_for(self, observer: Observer) -> Any:
        """What was made to measure for this observer alone; None if nothing was."""
        return self._compiled.get((observer,))

    def traced(self, requests: Sequence[Sequence[StepRequest]]) -> Any:
        """The measured function of a single step that is the first to be traced."""
        first = instead_of(requests[0]) or requests[0]
        return self._compiled[tuple(request.observer for request in first)].function

    def noted(self, requests: Sequence[Sequence[StepRequest]], own_function: Any) -> Any:
        """A function that notes its batches: a measured one if that is there, else the model's."""
        compiled = self._compiled.get(tuple(request.observer for request in requests[0]))
        if compiled is not None and self.has_run and not self.own_came_first:
            return compiled.noting
        return own_function if self.keeper is None else self.keeper.own(own_function)

    def started_for(self, observer: Observer) -> StartedStep | None:
        """What has been made to measure for this observer, perhaps with others."""
        return next((each for key, each in self._compiled.items() if observer in key), None)

    def is_there(self, observer: Observer) -> bool:
        """Whether what measures for this observer alone can be called, for some kind of batch."""
        compiled = self._compiled.get((observer,))
        return compiled is not None and (compiled.ahead is None or compiled.ahead.is_there)

    def is_awaited(self, observer: Observer) -> bool:
        """Whether all that measures for an observer is still being compiled."""
        every = [compiled.ahead for key, compiled in self._compiled.items() if observer in key]
        return bool(every) and all(ahead is not None and ahead.is_awaited for ahead in every)

    def prepare(self, requests: Sequence[Sequence[StepRequest]]) -> bool:
        """Have Keras make the functions that are needed; whether it could.

        Nothing is traced yet. A model's own `make_train_function` may not do what Keras's does.
        """
        try:
            wanted = {tuple(request.observer for request in each) for each in requests}
            comes_in_several = self._model.steps_per_execution > 1
            with attributes(self._model, steps_per_execution=1):
                if comes_in_several:
                    # For a step that, after an internal error, cannot be measured.
                    wanted.add(())
                for observers in wanted:
                    if observers not in self._compiled:
                        self._compiled[observers] = self._compile(observers)
            return True
        except Exception as error:
            report_failure(requests, error, "having Keras make a measured step")
            return False

    def call_of(
        self, requests: Sequence[Sequence[StepRequest]], own_function: Any
    ) -> Callable[..., Any]:
        """One execution of the train function: a step, or `steps_per_execution` steps.

        It takes and returns what `own_function` does, which is run after an internal error.
        """
        if self._model.steps_per_execution == 1:
            return self._one(requests[0], own_function)
        plain = self._compiled[()].function
        calls = [self._one(measurements, plain) for measurements in requests]

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

    def call_ahead(
        self, requests: Sequence[StepRequest], taken: Taken, plain: Any
    ) -> Callable[..., Any] | None:
        """A single step on a batch that was taken; None if compiling it is not waited for."""
        compiled = self._compiled[tuple(request.observer for request in requests)]
        if self._tracer is None or compiled.ahead is None:
            return None
        function = self._tracer.on_batch(compiled.function, taken)
        args = self._tracer.arguments(taken)
        for request in requests:
            args = request.observer.backend.arguments(args, request.histograms)
        waits = any(request.may_wait for request in requests)
        if not waits and not compiled.ahead.is_ready(function, args):
            return None
        seconds = compiled.ahead.take_seconds()
        if seconds is not None:
            compiled.first_calls.end()
            for request in requests:
                request.observer.compiled(seconds)
        return self._one(requests, plain, function)

    def _one(
        self, requests: Sequence[StepRequest], plain: Any, function: Any = None
    ) -> Callable[..., Any]:
        """A single step, measured; `plain` is the function for one that is not.

        The measured function is the usual one unless it is given.
        """
        key = tuple(request.observer for request in requests)
        compiled = self._compiled[key]
        function, first_calls = function or compiled.noting, compiled.first_calls
        model, has_state = self._model, self._backend.has_state
        is_chosen = self._tracer is not None and any(request.may_wait for request in requests)

        def one(*args: Any) -> Any:
            # As in `MeasuredCall`: nothing of gradwatch is called outside of a `try`, and the
            # arguments are left such that the model's own function can take them.
            replacement, failure = ExitStack(), None
            result: Any = None
            batch = next(args[1]) if has_state else None

            def given() -> Any:
                return (args[0], iter([batch])) if has_state else args

            if key in self._failed:
                return plain(*given())
            try:
                measured_args = given()
                for request in requests:
                    measured_args = request.observer.backend.arguments(
                        measured_args, request.histograms
                    )
                # torch looks the train step up at each call, the others when building.
                replacement.enter_context(attributes(model, train_step=compiled.train_step))
                replacement.enter_context(
                    first_calls.watched([o.say for o in key], [o.compiled for o in key], is_chosen)
                )
                self.has_run = True
            except Exception as error:
                report_failure([requests], error, "calling a measured step")
                return plain(*given())
            try:
                result = function(*measured_args)
            except SelectionError:  # Raised to the user.
                raise
            except Exception as error:
                if not any(request.observer.is_refused for request in requests):
                    # What is found to be wrong before the step ran may be ours.
                    if self.errors.have_come or not self._backend.can_run_own(args):
                        raise
                    failure = error
            finally:
                replacement.close()
            if result is None:
                result = plain(*given())
                if failure is not None:
                    # It is not tried again: what cannot be compiled takes long to fail.
                    self._failed.add(key)
                    report_failure([requests], failure, "compiling a measured step")
                return result
            for request in reversed(requests):
                if has_state:
                    outputs, state = result
                    result, measured = (outputs["logs"], state), outputs["measured"]
                else:
                    result, measured = result["logs"], result["measured"]
                try:
                    request.observer.send(request, measured)
                except Exception as error:
                    report_failure([[request]], error, "sending a measured step")
            return result

        return one

    def function_for(self, observer: Observer) -> Any:
        """The train function that measures for this observer alone; None if there is none yet.

        If it is being compiled, that is waited for.
        """
        compiled = self._compiled.get((observer,))
        if compiled is not None and compiled.ahead is not None:
            compiled.ahead.wait()
        return None if compiled is None else compiled.function

    def _compile(self, observers: Sequence[Observer]) -> StartedStep:
        """A train function that measures for all of them."""
        model, train_step = self._model, self.errors.noted(self._train_step)
        for observer in observers:
            train_step = observer.backend.wrap(train_step, observer.observation)
        given = {"train_step": train_step, "train_function": None, **self._backend.while_compiling}
        with attributes(model, **given):
            model.make_train_function(force=True)
            function = model.train_function
        noting = function if self.keeper is None else self.keeper.noting(function)
        is_spare = any(observer.is_spare for observer in observers)
        ahead = None if self._tracer is None else CompiledAhead(self._tracer, waits=not is_spare)
        return StartedStep(function, noting, train_step, FirstCalls(self.is_compiled), ahead)
