"""A monitor as a Keras callback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import keras

from gradwatch.capture.guard import guarded


class FitWatcher(Protocol):
    """What is told of the course of `fit`."""

    def fit_begins(self, model: Any) -> None: ...

    def epoch_begins(self, epoch: int, batches: int | None) -> None: ...

    def batch_begins(self, batch: int) -> None: ...

    def batch_ends(self, batch: int, logs: Mapping[str, float]) -> None: ...

    def epoch_ends(self, epoch: int, logs: Mapping[str, float]) -> None: ...

    def fit_ends(self) -> None: ...


class Callback(keras.callbacks.Callback):  # type: ignore[misc]
    """Passes the course of `fit` on to a `FitWatcher`, which a subclass is as well.

    The logs of a batch are brought to the host by Keras, with or without us, on a thread of
    its own; being `async_safe` leaves it so, and `batch_ends` is called on that thread. The
    model is taken from `_model`, since reading `model` makes Keras on JAX write the whole
    state back.
    """

    async_safe = True

    params: Any = None
    _model: Any = None
    _ended: tuple[int, dict[str, float]] | None = None

    @guarded(plainly=False)
    def on_train_begin(self: Any, logs: Any = None) -> None:
        self._ended = None
        self.fit_begins(self._model)

    @guarded(plainly=False)
    def on_epoch_begin(self: Any, epoch: int, logs: Any = None) -> None:
        self._report_ended_epoch()
        self.epoch_begins(epoch + 1, (self.params or {}).get("steps"))

    @guarded(plainly=False)
    def on_train_batch_begin(self: Any, batch: int, logs: Any = None) -> None:
        self.batch_begins(batch)

    @guarded(plainly=False)
    def on_train_batch_end(self: Any, batch: int, logs: Any = None) -> None:
        self.batch_ends(batch, logs or {})

    @guarded(plainly=False)
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> None:
        # Keras's progress bar writes its last line after this; so the report waits.
        self._ended = (epoch + 1, dict(logs or {}))

    @guarded(plainly=False)
    def on_train_end(self: Any, logs: Any = None) -> None:
        self._report_ended_epoch()
        self.fit_ends()

    def _report_ended_epoch(self: Any) -> None:
        if self._ended is not None:
            epoch, logs = self._ended
            self._ended = None
            self.epoch_ends(epoch, logs)


_callbacks: dict[type[Any], type[Any]] = {}


def as_callback(watcher: type[Any]) -> type[Any]:
    """The class that is both the watcher and a Keras callback."""
    if issubclass(watcher, keras.callbacks.Callback):
        return watcher
    if watcher not in _callbacks:
        facts = {"__module__": watcher.__module__, "__doc__": watcher.__doc__}
        _callbacks[watcher] = type(watcher.__name__, (watcher, Callback), facts)
    return _callbacks[watcher]
