"""Until when a compiled step's tensors are measured on the host."""

from typing import Any

from gradwatch.capture.keras.attributes import attributes
from gradwatch.capture.keras.slow_start import FirstCalls
from gradwatch.measure import Framework

LONGER = 2.0
"""How many times as long it takes, about, to compile a step that measures its tensors itself."""


class OnHost:
    """Measuring on the host, which is to end when it has taken as long as compiling would.

    `framework` stands for the host in a train step that is traced.
    """

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self._seconds = 0.0

    def spent(self, seconds: float) -> None:
        """Measuring a step has taken so long; on any thread."""
        self._seconds += seconds

    def is_dear(self, calls: FirstCalls) -> bool:
        """Whether another step is to be compiled, from the first calls of this one."""
        return self._seconds > LONGER * calls.compile_seconds

    def wrap(self, train_step: Any, observation: Any) -> Any:
        """A train step that returns its tensors as they are."""

        def measured_on_host(*args: Any) -> Any:
            with attributes(observation, framework=self.framework):
                return train_step(*args)

        return measured_on_host
