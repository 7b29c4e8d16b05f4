"""What a loss of the user's own would be if it were a squared error, by its value."""

from collections.abc import Iterator
from typing import NamedTuple

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.network_order import output_place

EXACT, CLEAR = 1e-4, 1e-2
"""Shares of a loss: what rounding changes at most, and what tells two formulas apart."""
STEPS = 3
"""Measured steps that must agree."""
_NEWEST = 64


class SquaredErrors(NamedTuple):
    """The loss of a step, and the mean squared errors over its samples and over all pairs.

    That over samples is smaller by twice the covariance of outputs and targets.
    """

    loss: float
    of_samples: float
    of_pairs: float
    variance: float
    """Of the targets: the squared error of the best constant guess."""


def squared_errors(history: History, facts: ModelFacts) -> Iterator[SquaredErrors]:
    """Those of the newest steps, of a model that returns one number for each sample."""
    agreement = dict(history.numbers.get("agreement", ())[-_NEWEST:])
    outputs, targets, last = history[Kind.OUTPUT], history[Kind.TARGET], facts.last_layer
    place = output_place(outputs, facts)
    if not agreement or place is None or last is None or last.units != 1:
        return
    if len(targets.sites) != 1 or not history.losses.has_single:
        return
    newest = history.losses.steps[-_NEWEST:].tolist()
    losses = dict(zip(newest, history.losses.last(_NEWEST), strict=True))
    columns = []
    for table, column in ((outputs, place), (targets, 0)):
        values = [table.column(name, column, len(table)) for name in ("count", "mean", "std")]
        columns.append(dict(zip(table.steps.tolist(), zip(*values, strict=True), strict=True)))
    for step in sorted(set(agreement).intersection(losses, *columns)):
        (size, mean, spread), (wanted_size, wanted, deviation) = (x[step] for x in columns)
        if size != wanted_size:
            continue
        of_pairs = spread**2 + deviation**2 + (mean - wanted) ** 2
        of_samples = of_pairs - 2.0 * agreement[step] * spread * deviation
        yield SquaredErrors(losses[step], of_samples, of_pairs, deviation**2)


def own_variances(history: History, facts: ModelFacts) -> list[float]:
    """The variances of the targets of steps whose loss is their squared error; none if it is not.

    Outputs that have nothing to do with their targets have the same error over all pairs.
    """
    if facts.loss.name is not None:
        return []
    known = list(squared_errors(history, facts))
    are_equal = [abs(x.loss - x.of_samples) < EXACT * x.of_pairs for x in known]
    is_clear = any(abs(x.of_samples - x.of_pairs) > CLEAR * x.of_pairs for x in known)
    return (
        [x.variance for x in known] if len(known) >= STEPS and all(are_equal) and is_clear else []
    )
