"""How long the measured step runs all steps, so that Keras's own need not be compiled yet."""

import time
from collections.abc import Callable
from typing import Any

from gradwatch.capture.keras.ahead import Tracer
from gradwatch.capture.keras.step import MeasuredStep
from gradwatch.capture.keras.step_request import Observer
from gradwatch.watches.budget import Pacer

MOST = 500
"""Steps that compiling Keras's own step is put off for, at most."""


class FirstSteps:
    """Decides whether the measured step also runs the steps that are not due, at first.

    Compiling Keras's own step takes as long as hundreds of steps of a small model, and measuring
    adds much less to these. So where training has waited for the measured step, that runs all
    steps, until they have taken as long as compiling it, or are many. Only what is due is sent.
    """

    def __init__(
        self,
        step: MeasuredStep,
        tracer: Tracer | None,
        own_function: Any,
        pacer: Pacer,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._step = step
        self._tracer = tracer
        self._own_function = own_function
        self._pacer = pacer
        self._clock = clock
        self._last: float | None = None
        self._are_over = tracer is None or pacer.budget is None

    def cover(self, observer: Observer) -> bool:
        """Whether what measures for the observer runs the next step, which is not due."""
        if self._are_over or self._tracer is None:
            return False
        started, now = self._step.started_for(observer), self._clock()
        if self._last is None:
            # Where it was compiled on a thread, Keras's own has run; or in a `fit` before.
            self._last = now
            self._are_over = self._step.own_came_first or not self._step.has_run
            self._are_over |= self._tracer.has_compiled(self._own_function)
        if started is None or started.ahead is None or self._are_over:
            self._are_over = True
            return False
        calls = started.first_calls
        calls.stood_in += 1
        calls.stood_in_seconds += now - self._last
        self._last = now
        is_long = calls.stood_in_seconds > started.ahead.tracing + calls.compile_seconds
        self._are_over = is_long or calls.stood_in > MOST
        if not self._are_over:
            self._pacer.stand_in()
        return not self._are_over
