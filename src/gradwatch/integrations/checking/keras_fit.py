"""Watching every `fit` of Keras that a script calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from gradwatch.integrations.checking.course import Course


def watch_fits(keras: Any, course: Course) -> Callable[[], None]:
    """Have each `fit` of a Keras model watched; returns what undoes it.

    Args:
        keras: the module.
        course: is told of the steps.
    """
    model_class = keras.Model
    own = vars(model_class).get("fit")
    fit = model_class.fit
    monitors: dict[int, tuple[Any, Any]] = {}

    class Steps(keras.callbacks.Callback):  # type: ignore[misc]
        """Counts steps, and ends the script after the last one."""

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            # Not `self.model`: on JAX that has the whole state written back.
            course.begin_step(self._model.steps_per_execution)

    @wraps(fit)
    def watched_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in monitors:
            # The model is kept, so that its id stays its own.
            monitors[id(self)] = self, course.monitor()
        given = inspect.signature(fit).bind(self, *args, **kwargs)
        before = given.arguments.get("callbacks") or []
        if isinstance(before, keras.callbacks.CallbackList):
            before = before.callbacks
        several = list(before) if isinstance(before, list | tuple) else [before]
        given.arguments["callbacks"] = [*several, Steps(), monitors[id(self)][1]]
        return fit(*given.args, **given.kwargs)

    def undo() -> None:
        if own is None:
            del model_class.fit
        else:
            model_class.fit = own

    model_class.fit = watched_fit
    return undo
