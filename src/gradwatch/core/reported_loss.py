"""The running mean of the loss, as a training loop reports it."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class ReportedLoss:
    """A report of the loss at a step: its mean over the epoch's steps so far."""

    step: int
    count: int
    """The number of steps in the mean."""
    mean: float
    stride: int = 1
    """The number of steps since the previous report."""
