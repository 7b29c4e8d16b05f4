"""Refusing combinations of arguments that cannot be meant."""

from __future__ import annotations

from typing import Any

from gradwatch.capture.errors import WrongTypeError


def one_of(variables: Any, parameters: Any) -> Any:
    """The variables, under whichever name they were given."""
    if variables is not None and parameters is not None:
        raise WrongTypeError("variables= and parameters= are two names for the same. Give one.")
    return parameters if variables is None else variables


def check_arguments(
    readings: Any, has_tensors: bool, loss: Any, epoch: Any, micro_batch: Any, has_batch: bool
) -> None:
    """Refuse combinations of arguments of `record` that cannot be meant."""
    if readings is not None and has_tensors:
        raise WrongTypeError("Give record() either readings or tensors, not both.")
    if readings is not None and micro_batch is not None:
        raise WrongTypeError("micro_batch= is for measure(), when readings are given to record().")
    if readings is None and not (has_tensors or has_batch) and loss is None and epoch is None:
        raise WrongTypeError(
            "record() was given nothing. Call record(gradients=..., variables=...) or, after "
            "measure() in a compiled step, record(readings, step=...)."
        )
