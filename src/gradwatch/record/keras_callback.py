"""A Keras callback that does not import Keras."""

import sys
from collections.abc import Mapping
from typing import Any

from gradwatch.core import KerasModel

Logs = Mapping[str, Any] | None


class KerasCallback:
    """Everything that Keras calls on a callback; each hook does nothing unless overridden.

    It is a `keras.callbacks.Callback` to `isinstance` as soon as Keras is imported.

    Keras brings the logs of a batch to the host on a thread of its own. `async_safe` leaves it
    so: `on_train_batch_end` is called on that thread. A subclass that needs no state of the model
    reads `_model`, because reading `model` makes Keras on JAX write the whole state back.
    """

    async_safe = True

    params: Mapping[str, Any] | None = None
    _model: KerasModel | None = None

    # Keras is not imported for its base class, and may be imported after this object is made.
    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        callbacks = getattr(sys.modules.get("keras"), "callbacks", None)
        return getattr(callbacks, "Callback", type(self))

    @property
    def model(self) -> KerasModel | None:
        """The model, with its present state."""
        own = self.__class__
        return self._model if own is type(self) else own.model.fget(self)

    def set_params(self, params: Mapping[str, Any] | None) -> None:
        self.params = params

    def set_model(self, model: KerasModel) -> None:
        self._model = model

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None: ...

    def on_batch_end(self, batch: int, logs: Logs = None) -> None: ...

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None: ...

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None: ...

    def on_train_begin(self, logs: Logs = None) -> None: ...

    def on_train_end(self, logs: Logs = None) -> None: ...

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None: ...

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None: ...

    def on_test_begin(self, logs: Logs = None) -> None: ...

    def on_test_end(self, logs: Logs = None) -> None: ...

    def on_test_batch_begin(self, batch: int, logs: Logs = None) -> None: ...

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None: ...

    def on_predict_begin(self, logs: Logs = None) -> None: ...

    def on_predict_end(self, logs: Logs = None) -> None: ...

    def on_predict_batch_begin(self, batch: int, logs: Logs = None) -> None: ...

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None: ...

    # tf_keras, in which nothing is recorded, asks its callbacks these.

    def _implements_train_batch_hooks(self) -> bool:
        return False

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False
