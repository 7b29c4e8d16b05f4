"""A measured train step, which runs the user's own whatever happens to the measurement."""

from collections.abc import Callable
from typing import Any

from gradwatch.core import SelectionError


class RefusedError(Exception):
    """While a measured step is traced: to run it would change the training."""


def watched(
    train_step: Any, observation: Any, measure: Callable[..., Any], *, has_state: bool
) -> Any:
    """A train step that returns `{"logs": ..., "measured": ...}` for its logs.

    The given one may be watched already. `measure` takes the flag that came with the batch, None
    without a state, and the result of the step.
    """
    internal_error = observation.reporter.internal_error

    def measured_train_step(*args: Any) -> Any:
        # Nothing of gradwatch is called outside of a `try`, and nothing of gradwatch calls the
        # model's step: it is run in any case, and once.
        due = None
        if has_state:
            state, (due, data) = args
            args = (state, data)
        watching = None
        try:
            watching = observation.watching(args[-1], args[0] if has_state else None)
            watching.__enter__()
        except Exception as error:
            watching = None
            internal_error(error, "beginning to watch a step", "all of that step but its weights")
        try:
            result = train_step(*args)
        finally:
            try:
                if watching is not None:
                    watching.__exit__(None, None, None)
            except Exception as error:
                internal_error(error, "restoring the model after a step", "nothing")
        measured: Any = {}
        try:
            measured = measure(due, result)
        except (SelectionError, RefusedError):  # Raised to the user.
            raise
        except Exception as error:
            internal_error(error, "measuring a step", "that step")
        if has_state:
            return {"logs": result[0], "measured": measured}, result[1]
        return {"logs": result, "measured": measured}

    return measured_train_step
