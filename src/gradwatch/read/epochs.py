"""The epochs of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradwatch.read.moments import Moments


@dataclass(frozen=True)
class Epoch:
    """An epoch, counted from 1, and the first and the last step that are recorded of it."""

    number: int
    first_step: int
    last_step: int


def epochs_of(moments: Moments) -> list[Epoch]:
    """The epochs in which anything was recorded, in their order."""
    epochs, steps = moments.columns["epoch"], moments.columns["step"]
    return [
        Epoch(int(e), int(steps[epochs == e].min()), int(steps[epochs == e].max()))
        for e in np.unique(epochs)
    ]
