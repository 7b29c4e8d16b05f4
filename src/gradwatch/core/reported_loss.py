"""The running mean of the loss, as a training loop reports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class ReportedLoss:
    """What a training has reported at a step: the mean of the loss over an epoch's steps."""

    step: int
    count: int
    """How many steps of the epoch it is the mean of."""
    mean: float
    stride: int = 1
    """How many of them are new since the report before."""
