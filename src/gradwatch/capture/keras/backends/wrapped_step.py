"""A train step with ours around it, which runs the user's whatever happens to ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwatch.core.select import SelectionError


class RefusedError(Exception):
    """While a measured step is traced: to run it would change the training."""


def watched(
    train_step: Any, observation: Any, measure: Callable[..., Any], *, has_state: bool
) -> Any:
    """A train step that returns `{"logs": ..., "measured": ...}` for its logs.

    Args:
        train_step: the model's, or one that is watched already.
        observation: what watches it, see `Observation`.
        measure: makes the measurements, of the flag that came beside the batch, None without a
            state, and of what the step returned.
        has_state: see `Backend`.
    """
    fault = observation.fault

    def measured_train_step(*args: Any) -> Any:
        # All that is ours is called inside of a `try`, and none of it by way of a function
        # of ours: the model's step is run in any case, and once.
        due = None
        if has_state:
            state, (due, data) = args
            args = (state, data)
        watching = None
        try:
            watching = observation.watching(args[-1])
            watching.__enter__()
        except Exception as error:
            watching = None
            fault(error)
        try:
            result = train_step(*args)
        finally:
            try:
                if watching is not None:
                    watching.__exit__(None, None, None)
            except Exception as error:
                fault(error)
        measured: Any = {}
        try:
            measured = measure(due, result)
        except (SelectionError, RefusedError):  # The user's to hear of.
            raise
        except Exception as error:
            fault(error)
        if has_state:
            return {"logs": result[0], "measured": measured}, result[1]
        return {"logs": result, "measured": measured}

    return measured_train_step
