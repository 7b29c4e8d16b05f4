"""What runs in the place of a model's train function where a step is measured."""

from collections.abc import Sequence
from typing import Any

from gradwatch.capture.keras.ahead import Taken, Tracer
from gradwatch.capture.keras.stand_in import StandIn
from gradwatch.capture.keras.step import MeasuredStep
from gradwatch.capture.keras.step_request import StepRequest, instead_of, report_failure
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
