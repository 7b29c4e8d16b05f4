"""The measured twin of a model's compiled training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from gradwatch.capture.keras.again import StepKeeper, UserErrors
from gradwatch.capture.keras.ahead import CompiledAhead, Taken, Tracer
from gradwatch.capture.keras.attributes import attributes
from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.on_host import OnHost
from gradwatch.capture.keras.slow_start import FirstCalls
from gradwatch.capture.keras.started_step import StartedStep
from gradwatch.capture.keras.step_request import (
    Observer,
    StepRequest,
    instead_of,
    report_failure,
)
from gradwatch.core import KerasModel, SelectionError
from gradwatch.measure import Fetched, HostWork


class MeasuredStep:
    """Runs a model's training step so that it also yields its measurements.

    What is needed is made on first use. The model's own `train_function` stays as it is, and runs
    the steps that are not measured.
    """

    def __init__(
        self,
        model: KerasModel,
        own_function: Any,
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
        self._own_function = own_function
        self._compiled: dict[tuple[Observer, ...], StartedStep] = {}
        self._later: dict[tuple[Observer, ...], StartedStep] = {}
        """What is compiled on a thread to measure its tensors itself, see `OnHost`."""
        self._failed: set[tuple[Observer, ...]] = set()
        self.has_run = self.own_came_first = False
        """Whether any measured step was run, and whether the model's own ran instead of it."""
        self.takes_batches = False
        """Whether measured functions are called on batches also where training waits for them."""

    @property
    def is_compiled(self) -> bool:
        """Whether the model's steps are compiled at all."""
        return bool(not self._model.run_eagerly and self._backend.compiles(self._model))

    @property
    def is_settled(self) -> bool:
        """Whether no layer can be built any more: the state is an argument of a compiled step."""
        return self._backend.has_state and self.has_run

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

    def fetched(self, observer: Observer, wait: Fetched) -> Fetched:
        """What waits for the arrays of a step, once the time that it takes is counted."""
        started = self._compiled.get((observer,))
        if isinstance(wait, HostWork) and started is not None and started.on_host is not None:
            wait.spent = started.on_host.spent
            if not wait.has_room():
                wait()  # Rather than that their memory is kept.
        return wait

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
        if compiled.on_host is not None and compiled.on_host.is_dear(compiled.first_calls):
            compiled = self._exchanged(compiled, [r.observer for r in requests], taken, args)
            function = self._tracer.on_batch(compiled.function, taken)
        waits = any(request.may_wait for request in requests)
        if not waits and compiled.ahead is not None and not compiled.ahead.is_ready(function, args):
            return None
        seconds = None if compiled.ahead is None else compiled.ahead.take_seconds()
        if seconds is not None:
            compiled.first_calls.end(seconds)
            for request in requests:
                request.observer.compiled(seconds)
        return self._one(requests, plain, function)

    def _exchanged(
        self, compiled: StartedStep, observers: Sequence[Observer], taken: Taken, args: Any
    ) -> StartedStep:
        """A step that measures its tensors itself, as soon as it is compiled, for one that does
        not."""
        key = tuple(observers)
        if key not in self._later:
            self._later[key] = self._compile(key, is_later=True)
        later = self._later[key]
        assert self._tracer is not None
        assert later.ahead is not None
        if later.ahead.is_ready(self._tracer.on_batch(later.function, taken), args):
            compiled = self._compiled[key] = self._later.pop(key)
        return compiled

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

    def _compile(self, observers: Sequence[Observer], *, is_later: bool = False) -> StartedStep:
        """A train function that measures for all of them, at first on the host if possible."""
        model, train_step = self._model, self.errors.noted(self._train_step)
        is_spare = is_later or any(observer.is_spare for observer in observers)
        on_host = None
        for observer in observers:
            train_step = observer.backend.wrap(train_step, observer.observation)
            framework = observer.backend.on_host(model) if self._tracer is not None else None
            if framework is not None and len(observers) == 1 and not is_spare:
                on_host = OnHost(framework)
                train_step = on_host.wrap(train_step, observer.observation)
        given = {"train_step": train_step, "train_function": None, **self._backend.while_compiling}
        with attributes(model, **given):
            model.make_train_function(force=True)
            function = model.train_function
        noting = function if self.keeper is None else self.keeper.noting(function)
        # It is called on batches, so that it can be compiled on a thread.
        self.takes_batches |= on_host is not None
        ahead = None
        if self._tracer is not None:
            # Keras's own step takes as long, and is put off then, see `FirstSteps`.
            is_quick = on_host is not None and not self._tracer.has_compiled(self._own_function)
            ahead = CompiledAhead(self._tracer, waits=not is_spare, is_quick=is_quick)
        first_calls = FirstCalls(self.is_compiled)
        return StartedStep(function, noting, train_step, first_calls, ahead, on_host)
