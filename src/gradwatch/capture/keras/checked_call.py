"""A step on torch that is not measured, but looked at: if it is not finite, it is recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

from gradwatch.capture.keras.attributes import replaced
from gradwatch.capture.keras.layers import LayersOf
from gradwatch.capture.keras.outputs import name_of_call
from gradwatch.capture.keras.stand_in import StandIn, restored_train_function
from gradwatch.capture.keras.variables import variables_by_path
from gradwatch.capture.torch.finite_checks import FiniteChecks
from gradwatch.capture.variable_names import NamedVariable
from gradwatch.core import KerasModel, Kind, Moment, Site, Summary
from gradwatch.measure import framework
from gradwatch.util import Reporter

Send = Callable[[Moment, Mapping[Site, Any]], None]
"""Takes the packed summaries of a step."""


class StepChecks:
    """Looks at the steps of a model that are not measured; see `FiniteChecks`.

    Only while it takes little time, and where tensors are on the CPU and nothing is compiled.
    """

    def __init__(self, model: KerasModel, send: Send, reporter: Reporter) -> None:
        self._model = model
        self._send = send
        self._layers = LayersOf(model)
        self.reporter = reporter
        found = variables_by_path(model).items()
        self._variables = {path: variable for path, (variable, part) in found if part is None}
        named = [
            NamedVariable(path, variable.value, trainable=variable.trainable)
            for path, variable in self._variables.items()
            if variable.trainable
        ]
        self._checks = FiniteChecks(named, "", reporter)
        self._finite_until = 0

    @property
    def is_off(self) -> bool:
        return self._checks.is_off

    def call(self, moment: Moment, *, is_measured: bool = False) -> CheckedCall:
        """A call of the model's train function, or of what stands in for it to measure."""
        return CheckedCall(self._model, self, moment, is_measured)

    def taps(self) -> list[tuple[Any, dict[str, Any]]]:
        """The layers, with calls in place of their own that note what they return."""
        known = self._layers.now()
        layers = [
            (path, each.layer)
            for path, each in known.by_path.items()
            if id(each.layer) not in known.inside_recurrent
        ]
        return [(x, {name_of_call(x): self._noting(path, x)}) for path, x in layers]

    def _noting(self, path: str, layer: Any) -> Callable[..., Any]:
        call = getattr(layer, name_of_call(layer))

        def noting_call(*args: Any, **kwargs: Any) -> Any:
            outputs = call(*args, **kwargs)
            try:
                if not in_symbolic_scope():
                    self._checks.note(path, args, outputs)
            except Exception as error:
                self.reporter.internal_error(error, "noting an output", "where NaN comes from")
            return outputs

        return noting_call

    def step_ended(self, moment: Moment, logs: Any, *, is_measured: bool) -> None:
        """A step has returned these logs; gradients and weights are sent unless it is measured."""
        checks, bad_loss = self._checks, _bad_loss(logs)
        is_finite = checks.are_weights_finite() and checks.are_gradients_finite()
        # The mean of the epoch stays NaN: only that it was finite before tells whose loss it is.
        is_finite = is_finite and not (bad_loss and self._finite_until == moment.step - 1)
        self._finite_until = self._finite_until if bad_loss else moment.step
        if not is_finite and not checks.is_told_already:
            own = framework("torch")
            values = {path: variable.value for path, variable in self._variables.items()}
            tensors = {Site(Kind.WEIGHT, path): x for path, x in values.items()} | {
                Site(Kind.GRADIENT, path): x.grad
                for path, x in values.items()
                if self._variables[path].trainable
            }
            numbers = checks.sums() | bad_loss
            rows = {site: Summary.of(np.array([x])).pack() for site, x in numbers.items()}
            if not is_measured:
                measured = own.measure(list(tensors.values()))[0].numpy()
                rows |= zip(tensors, measured, strict=True)
            self._send(moment, rows)
        checks.step_ended(is_finite)


class CheckedCall(StandIn):
    """Runs the model's train function, measured or not, and looks at what it computes."""

    def __init__(
        self, model: KerasModel, checks: StepChecks, moment: Moment, is_measured: bool
    ) -> None:
        super().__init__(model)
        self._checks = checks
        self._moment = moment
        self._is_measured = is_measured

    @property
    def inner(self) -> Any:
        """What is called: the model's own train function, or what measures it."""
        return self._own_function

    def put_back(self) -> None:
        super().put_back()
        restored_train_function(self._model)

    def __call__(self, *args: Any) -> Any:
        # As in `MeasuredCall`: the model's step is run in any case, and once.
        self._model.__dict__["train_function"] = self._own_function
        taps = ExitStack()
        reporter = self._checks.reporter
        try:
            taps.enter_context(replaced(self._checks.taps()))
        except Exception as error:
            reporter.internal_error(error, "beginning to look at a step", "that step")
        with taps:
            result = self._own_function(*args)
        try:
            self._checks.step_ended(self._moment, result, is_measured=self._is_measured)
        except Exception as error:
            reporter.internal_error(error, "looking at a step", "that step")
        return result


def _bad_loss(logs: Any) -> dict[Site, float]:
    """The loss, if it is not finite: only then is it known from the mean of the epoch."""
    loss = float(logs["loss"]) if isinstance(logs, Mapping) and "loss" in logs else 0.0
    return {} if math.isfinite(loss) else {Site(Kind.LOSS, "loss"): loss}
