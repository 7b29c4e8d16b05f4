"""Says that a step is being compiled, if that takes long, while it is; and how long it took."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

PATIENCE = 5.0
"""Seconds after which there is a line."""
_ADVICE = "; training waits for it only if every= is given"


class SlowStart:
    """A line after some seconds, unless what it waits for has ended by then.

    `say` is called on another thread.
    """

    def __init__(self, say: Callable[[str], object], what: str) -> None:
        words = f"compiling {what} ... ({PATIENCE:g} s so far; it is compiled once)"
        self._timer = threading.Timer(PATIENCE, say, [words])
        self._timer.daemon = True

    def begin(self) -> None:
        self._timer.start()

    def end(self) -> None:
        self._timer.cancel()


class FirstCalls:
    """Watches the first two calls of a measured step; what the first takes longer is compiling.

    Those in `compiled` are told so many seconds, after each of the two.
    """

    def __init__(self, is_compiled: bool) -> None:
        self._is_compiled = is_compiled
        self._seconds: list[float] = []
        self.stood_in, self.stood_in_seconds = 0, 0.0
        """How many later calls ran steps that were not due, and how long, see `FirstSteps`."""

    @property
    def compile_seconds(self) -> float:
        """By how much the first call took longer; infinite if that is not known yet."""
        if len(self._seconds) < 2:
            return math.inf
        return self._seconds[0] - self._seconds[1]

    def end(self, seconds: float) -> None:
        """It was compiled elsewhere, in so many seconds: there is nothing to watch."""
        self._seconds = [seconds, 0.0]

    @contextmanager
    def watched(
        self,
        say: Sequence[Callable[[str], object]],
        compiled: Sequence[Callable[[float], object]],
        is_chosen: bool = False,
    ) -> Iterator[None]:
        """Goes around a call; `is_chosen` if it waits only because the user has chosen the step."""
        if len(self._seconds) >= 2:
            yield
            return
        start = SlowStart(lambda words: [each(words) for each in say], "the measured step")
        if self._is_compiled and not self._seconds:
            start.begin()
        began = time.perf_counter()
        try:
            yield
        finally:
            start.end()
            self._seconds.append(time.perf_counter() - began)
            first, *later = self._seconds
            if self._is_compiled and not later and first >= PATIENCE:
                words = f"compiled the measured step in {first:.0f} s"
                for each in say:
                    each(words + _ADVICE * is_chosen)
            for tell in compiled:
                tell(max(0.0, first - sum(later)))
