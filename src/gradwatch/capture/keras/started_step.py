"""A measured step that Keras has made, whether it is compiled or not."""

from typing import Any, NamedTuple

from gradwatch.capture.keras.ahead import CompiledAhead
from gradwatch.capture.keras.on_host import OnHost
from gradwatch.capture.keras.slow_start import FirstCalls


class StartedStep(NamedTuple):
    """A measured train function, and the train step that it was made from.

    `noting` is the same function, such that the keeper of the steps is told the batch. `on_host` is
    there if the function returns its tensors as they are.
    """

    function: Any
    noting: Any
    train_step: Any
    first_calls: FirstCalls
    ahead: CompiledAhead | None
    on_host: OnHost | None = None
