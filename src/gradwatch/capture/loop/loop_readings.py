"""The arguments of `record` that are no tensors of the network: readings and the loss."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradwatch.capture.errors import WrongPlaceError, WrongTypeError, WrongValueError
from gradwatch.capture.shapes import common_framework, shape_of
from gradwatch.capture.tap_tables import tap_names
from gradwatch.capture.values import is_value
from gradwatch.core import Moment, Site, Summary, Tensor
from gradwatch.measure import Fetched, Framework, family, framework
from gradwatch.util import Reporter
from gradwatch.watches import Timetable

_NO_GRADIENTS = (
    "Not one of the gradients exists (all are None), so they are recorded with count 0. In torch, "
    "record between loss.backward() and optimizer.zero_grad(); in TensorFlow, the loss must be "
    "computed from the variables, inside the tape."
)


def check_loss(loss: Tensor) -> Framework:
    """The framework of a loss; raises TypeError or ValueError if it is not a single number."""
    own = common_framework([loss])
    shape = tuple(getattr(loss, "shape", ()))
    if shape != ():
        raise WrongValueError(
            f"loss= is one number for the step. Received: shape={shape}. Give its mean or sum, "
            "whichever it is that the gradients are of."
        )
    return own


def check_number(what: str, number: Tensor) -> Framework:
    """The framework of a number; raises TypeError or ValueError if it is not a single one."""
    name = None if number is None else family(number)
    if name is None:
        also = f" Give {what}.result()." if hasattr(number, "result") else ""
        raise WrongTypeError(
            f"record() takes numbers: {what} is of type {type(number).__name__}.{also}"
        )
    shape = shape_of(number)
    if math.prod(shape) != 1:
        raise WrongValueError(f"{what} is one number for the step. Received: shape={shape}.")
    return framework(name)


def check_metrics(metrics: Any) -> Mapping[str, Tensor]:
    """Numbers by name; raises TypeError or ValueError if they are anything else."""
    if not isinstance(metrics, Mapping):
        raise WrongTypeError(
            'metrics= takes numbers by name: {"accuracy": 0.9}. '
            f"Received: {type(metrics).__name__}"
        )
    for name, number in metrics.items():
        if not isinstance(name, str) or not name.strip("/"):
            raise WrongValueError(f"The name of a metric is a string. Received: {name!r}")
        check_number(f"metrics[{name!r}]", number)
    return metrics


def loss_row(loss: Tensor) -> Tensor:
    return check_loss(loss).measure_one(loss)


def framework_of_readings(readings: Any) -> Framework:
    """The framework of what `measure` returned; raises if it is not of one step, or is traced."""
    if not isinstance(readings, Mapping) or not {"rows", "table"} <= set(readings):
        raise WrongTypeError(
            "record() takes, without a name, what monitor.measure() returned. Tensors are given "
            "by name: record(gradients=grads, variables=variables). "
            f"Received: {type(readings).__name__}"
        )
    own = common_framework([readings["rows"]])
    if own.is_traced(readings["rows"]):
        raise WrongPlaceError(
            "monitor.record() was called inside a compiled function. Return the readings from it, "
            "and record them outside."
        )
    shape = tuple(readings["rows"].shape)
    if len(shape) != 2:
        raise WrongValueError(
            f"record() takes the readings of one step. Received: rows of shape {shape}. "
            "Those of several steps, as of a scan, are recorded one by one."
        )
    return own


def names_to_fetch(readings: Mapping[str, Any], timetable: Timetable, moment: Moment) -> list[str]:
    """The names of the arrays of a measurement that are due."""
    names = ["rows", "table", *tap_names(readings)]
    if "cells" in readings and any(timetable.histograms_due(moment)):
        names.append("cells")
    if any(timetable.probes_due(moment)):
        names += [name for name in readings if is_value(name)]
    return names


def packed_numbers(numbers: Mapping[Site, float] | None) -> dict[Site, Any]:
    """Packed summaries of single numbers."""
    return {site: _packed(x) for site, x in (numbers or {}).items()}


def _packed(number: float) -> Any:
    return Summary.of(np.array([number])).pack()


def fetched_loss(loss: Tensor) -> Fetched | None:
    """A function that waits for the packed summary of a loss; None without one."""
    if loss is None:
        return None
    own = check_loss(loss)
    if own.NAME == "torch" and not own.is_traced(loss):
        # It is one number: to copy it is all that there is to do on the device.
        number = own.fetch_number(loss)
        return lambda: {"loss": _packed(number if isinstance(number, float) else number())}
    row = loss_row(loss)
    if own.is_traced(row):
        raise WrongPlaceError(
            "monitor.record(loss=...) was called inside a compiled function. "
            "Return the loss from it, and record it outside."
        )
    return own.fetch({"loss": row}, ["loss"])


def check_gradients(gradients: Sequence[Tensor], reporter: Reporter) -> None:
    """Say so if there are gradients, and all of them are None."""
    if gradients and all(x is None for x in gradients):
        reporter.notice(_NO_GRADIENTS)
