"""Something that is done at a step of `fit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def before(step: int, what: Callable[[], Any], until: int | None = None) -> Any:
    """A callback that calls `what` before that step; or before each, up to another one."""
    import keras

    class Event(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.step = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.step += 1
            if step <= self.step <= (until or step):
                what()

    return Event()
