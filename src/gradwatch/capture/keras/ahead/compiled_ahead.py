"""The programs of one train function that are compiled on threads."""

import time
from collections.abc import Callable, Hashable
from typing import Any

from gradwatch.capture.keras.ahead.tracer import Tracer
from gradwatch.util import leaving

QUICK = {"jax": 1.5, "tensorflow": 3.0, "tensorflow graph": 15.0}
"""Seconds of the thread. What is traced as fast is compiled in some seconds. Training waits for
that, so that the first steps of small models are measured. A graph takes little more than tracing.
"""
SHARE = 0.05
"""The part of the time since the first that tracing for further kinds of batches may take."""


class CompiledAhead:
    """Begins to compile a train function for each kind of batch, and knows which are there.

    What is traced quickly is waited for, if `waits`; all is taken to be if it `is_quick`.
    """

    def __init__(
        self,
        tracer: Tracer,
        clock: Callable[[], float] = time.perf_counter,
        own_clock: Callable[[], float] = time.thread_time,
        waits: bool = True,
        is_quick: bool = False,
    ) -> None:
        self.tracer = tracer
        """Of the `fit` that is under way: another may use what was compiled in one before."""
        self._waits, self._is_quick = waits, is_quick
        self._clock = clock
        self._own_clock = own_clock
        self._programs: dict[Hashable, _Program] = {}
        self._began = 0.0
        self.tracing = 0.0
        """Seconds, of all programs."""

    @property
    def is_awaited(self) -> bool:
        """Whether nothing can be called yet, and something is being compiled."""
        programs = self._programs.values()
        return not any(p.is_ready for p in programs) and any(p.is_running for p in programs)

    @property
    def is_there(self) -> bool:
        """Whether something can be called."""
        return any(program.is_ready for program in self._programs.values())

    def is_ready(self, function: Any, args: Any) -> bool:
        """Whether the function can be called without waiting long; if not, it is compiled.

        RuntimeError if it could not be compiled, once.
        """
        kind = self.tracer.kind_of(args)
        program = self._programs.get(kind)
        if program is None:
            if self._programs and self.tracing > SHARE * (self._clock() - self._began):
                return False
            program = self._programs[kind] = self._begin(function, args)
        program.check()
        return program.is_ready

    def wait(self) -> None:
        """Until nothing is being compiled."""
        for program in list(self._programs.values()):
            program.wait()

    def take_seconds(self) -> float | None:
        """How long the first that is there was compiled on a thread; None if it was told before."""
        for program in self._programs.values():
            if program.is_ready and program.seconds is not None:
                seconds, program.seconds = program.seconds, None
                return seconds
        return None

    def _begin(self, function: Any, args: Any) -> "_Program":
        began, own = self._clock(), self._own_clock()
        if not self._programs:
            self._began = began
        traced_before, self.tracer.seconds = self.tracer.seconds, 0.0
        compile_it = self.tracer.trace(function, args)
        seconds = self._clock() - began + traced_before
        self.tracing += seconds
        # By the thread's own time: also on a busy machine, the first steps are measured.
        own_seconds = self._own_clock() - own + traced_before
        is_quick = self._waits and (self._is_quick or own_seconds < QUICK[self.tracer.way])
        return _Program(None if is_quick else compile_it, seconds)


class _Program:
    """A function for one kind of batch; without anything to compile, it is ready."""

    def __init__(self, compile_it: Callable[[], object] | None, seconds: float) -> None:
        self.seconds: float | None = None
        """Of tracing and compiling, once it was compiled on a thread."""
        self.is_ready = compile_it is None
        self._traced_in = seconds
        self._error: BaseException | None = None
        self._thread = None
        if compile_it is not None:
            self._thread = leaving.start(lambda: self._run(compile_it), "gradwatch-compile")

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Raise what went wrong, once."""
        error, self._error = self._error, None
        if error is not None:
            raise RuntimeError("the measured step could not be compiled") from error

    def _run(self, compile_it: Callable[[], object]) -> None:
        began = time.perf_counter()
        try:
            compile_it()
            self.seconds = self._traced_in + time.perf_counter() - began
            self.is_ready = True
        except BaseException as error:
            self._error = error
