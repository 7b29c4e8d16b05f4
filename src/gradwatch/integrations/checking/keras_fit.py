"""Monitors every Keras `fit` that a script calls."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from gradwatch.integrations.checking.script_training import ScriptTraining


def patch_fit(keras: Any, training: ScriptTraining) -> Callable[[], None]:
    """Add a monitor to each `fit` of a Keras model; returns a function that undoes it."""
    model_class = keras.Model
    own = vars(model_class).get("fit")
    fit = model_class.fit
    monitors: dict[int, tuple[Any, Any]] = {}

    class ScriptSteps(keras.callbacks.Callback):  # type: ignore[misc]
        """Counts steps; `CheckedTraining` may end the script after the last one."""

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            # Not `self.model`: on JAX, that writes the whole state back.
            training.begin_step(self._model.steps_per_execution)

    @wraps(fit)
    def monitored_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in monitors:
            # Keeping the model keeps its id from being reused.
            monitors[id(self)] = self, training.monitor()
        bound = inspect.signature(fit).bind(self, *args, **kwargs)
        callbacks = bound.arguments.get("callbacks") or []
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks = callbacks.callbacks
        own_callbacks = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
        bound.arguments["callbacks"] = [*own_callbacks, ScriptSteps(), monitors[id(self)][1]]
        return fit(*bound.args, **bound.kwargs)

    def undo() -> None:
        if own is None:
            del model_class.fit
        else:
            model_class.fit = own

    model_class.fit = monitored_fit
    return undo
